//go:build unix

// Package exec is a provider that runs a program as the model.
//
// The command is run with sh -c, once for each request: the last user message
// is on its standard input, the whole request as JSON in the file named by the
// environment variable AGENT9_REQUEST, and what it prints is the answer, passed
// on as it comes. An exit status other than 0 fails the request, with the end
// of what it printed on standard error as the reason; with 75, EX_TEMPFAIL, it
// may be run again for the same request, with any other it is not.
//
// The command is a process group of its own, which is killed when the request
// is cancelled. The answer ends when the command does: what it leaves behind
// in its group is killed too, after half a second if it still holds the output
// open. A daemon that is killed takes the command along, under Linux; what is
// left of it nevertheless, and of its requests, the next one on the same data
// removes with [Sweep].
package exec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"agent9/fsys"
	"agent9/providers/internal/proctree"
	"agent9/providers/models"
)

// RequestVar is the environment variable that names the file with the request.
const RequestVar = "AGENT9_REQUEST"

// grace is how long the output is read on after the command has ended.
const grace = 500 * time.Millisecond

// Config says what to run.
type Config struct {
	Command string   // for sh -c
	Dir     string   // where; empty is the daemon's own
	Env     []string // nil is the daemon's own
	// Data is the directory of the daemon, where requests are while they are
	// answered; empty is the system's temporary one.
	Data string
}

// Sweep ends what is left of commands of an earlier daemon whose data was in
// the directory data, and removes their requests. No other daemon may use it.
func Sweep(data string) {
	proctree.Kill(proctree.Owner(data))
	os.RemoveAll(requests(data)) // what cannot be removed is in nobody's way
}

func requests(data string) string { return filepath.Join(data, "requests") }

type Provider struct{ config Config }

var (
	_ models.Provider = (*Provider)(nil)
	_ models.Informer = (*Provider)(nil)
)

func New(c Config) (*Provider, error) {
	if strings.TrimSpace(c.Command) == "" {
		return nil, fsys.E(fsys.Invalid, "exec needs a command, as in exec:./model.sh")
	}
	if c.Env == nil {
		c.Env = os.Environ()
	}
	return &Provider{c}, nil
}

// Info does not tell the command, which may contain what agents should not see.
func (*Provider) Info() models.Info {
	return models.Info{Driver: "exec", Kinds: []models.Kind{models.Chat, models.Complete}, Free: true}
}

// Models returns "*": what a model's name means is the command's business.
func (*Provider) Models(context.Context) ([]models.Model, error) {
	return []models.Model{{Name: "*"}}, nil
}

func (p *Provider) Run(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
	file, err := p.requestFile(req)
	if err != nil {
		return models.Usage{}, err
	}
	defer os.Remove(file)

	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out := &output{emit: emit, stop: stop}
	stderr := &tail{}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", p.config.Command)
	cmd.Dir = p.config.Dir
	cmd.Env = append(p.config.Env[:len(p.config.Env):len(p.config.Env)], RequestVar+"="+file)
	if p.config.Data != "" {
		cmd.Env = append(cmd.Env, proctree.Var+"="+proctree.Owner(p.config.Data))
	}
	cmd.Stdin = strings.NewReader(req.Last())
	cmd.Stdout = out
	cmd.Stderr = stderr
	cmd.SysProcAttr = proctree.Attributes()
	cmd.Cancel = func() error { return killGroup(cmd.Process.Pid) }
	cmd.WaitDelay = grace

	if err := cmd.Start(); err != nil {
		return models.Usage{}, fsys.Wrap(fsys.Unavailable, "the command could not be started", err)
	}
	err = cmd.Wait()
	killGroup(cmd.Process.Pid)
	if ctx.Err() == nil && out.err == nil {
		out.flush()
	}
	usage := models.Estimate(req, out.size)
	switch {
	case out.err != nil:
		return usage, out.err
	case ctx.Err() != nil:
		return usage, context.Cause(ctx)
	case cmd.ProcessState.Success():
		return usage, emit(models.Chunk{Finish: "stop", Usage: &usage})
	}
	return usage, failure(cmd.ProcessState, stderr.text(), err)
}

// requestFile writes req to a file that only this user can read.
func (p *Provider) requestFile(req models.Request) (string, error) {
	dir := ""
	if p.config.Data != "" {
		dir = requests(p.config.Data)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", fsys.Wrap(fsys.Unavailable, "a directory for requests", err)
		}
	}
	f, err := os.CreateTemp(dir, "agent9-request-*.json")
	if err != nil {
		return "", fsys.Wrap(fsys.Unavailable, "the request could not be written to a file", err)
	}
	_, err = f.Write(append(req.Body.Bytes(), '\n'))
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(f.Name())
		return "", fsys.Wrap(fsys.Unavailable, "the request could not be written to a file", err)
	}
	return f.Name(), nil
}

// killGroup kills the process group that pid leads.
func killGroup(pid int) error {
	if err := syscall.Kill(-pid, syscall.SIGKILL); err != nil {
		return os.ErrProcessDone
	}
	return nil
}

// failure is the error of a command that ended with state.
func failure(state *os.ProcessState, said string, err error) error {
	how := fmt.Sprintf("the command ended with status %d", state.ExitCode())
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		how = "the command was killed by signal " + ws.Signal().String()
	}
	if said != "" {
		how += ": " + said
	}
	return &fsys.Error{Code: fsys.Unavailable, Reason: how, Err: &ended{state.ExitCode(), err}}
}

// ended is the error of a command that ended with status.
type ended struct {
	status int
	error
}

// tempFail is the status of a command that may do better another time:
// EX_TEMPFAIL of sysexits(3).
const tempFail = 75

// Final reports whether the command is not to be run again. See compute.Final.
func (e *ended) Final() bool { return e.status != tempFail }
