//go:build unix

// Package exec runs an agent's program as a command on this machine.
//
// The command is run with sh -c as the daemon's user, in a session of its own,
// and gets
//
//	standard input   the trigger, one line of JSON
//	AGENT9_ADDR      the socket of its namespace in this tick, for agentctl
//	AGENT9_MOUNT     where its namespace is mounted, if config asks for it
//	AGENT9_AGENT  AGENT9_TICK  AGENT9_CAUSE
//	                 the agent's name, the tick's number, and what set it off
//	PATH HOME USER LANG TZ TMPDIR and what config's env sets; nothing else of
//	                 the daemon's environment, as that may have keys in it
//
// Its directory is config's dir, else a fresh one that is removed after the
// tick. What it prints goes to the tick's output.
//
// Status 0 is success. The tick ends when the command does: what is left of
// its session then, and, on Linux, every process that it started and that kept
// the variable AGENT9_RUN, is killed; the outcome says how many there were.
// The same is done when the time is over or too much was printed. On Linux a
// daemon that starts also kills what an earlier one on the same data left.
package exec

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"agent9/fsys"
	"agent9/providers/internal/proctree"
	"agent9/providers/programs"
)

// The variables that a command gets.
const (
	AddrVar  = "AGENT9_ADDR"
	MountVar = "AGENT9_MOUNT"
	AgentVar = "AGENT9_AGENT"
	TickVar  = "AGENT9_TICK"
	CauseVar = "AGENT9_CAUSE"
)

// inherited are the variables of the daemon that a command gets too.
var inherited = []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR"}

// drain is how long output is read on after every process has ended, in case
// one was missed that holds it open.
const drain = time.Second

// A Driver runs commands for one daemon.
type Driver struct {
	owner string // begins the marks of its commands
	dirs  string // where commands run that have no directory of their own
}

// New returns the driver of the daemon whose data is in the directory data,
// and kills what is left of commands of an earlier one, and removes the
// directories that they ran in.
func New(data string) *Driver {
	d := &Driver{owner: proctree.Owner(data), dirs: filepath.Join(data, "ticks")}
	proctree.Kill(d.owner)
	os.RemoveAll(d.dirs) // what cannot be removed is in nobody's way
	return d
}

// Program returns the command of spec as a program.
func (d *Driver) Program(spec programs.Spec) programs.Program { return &command{d, spec} }

type command struct {
	driver *Driver
	spec   programs.Spec
}

func (c *command) Run(ctx context.Context, t programs.Trigger, env programs.Env) (out programs.Outcome, err error) {
	dir, done, err := c.directory()
	if err != nil {
		return out, err
	}
	defer done()
	mark := c.driver.owner + rand.Text()
	vars, err := c.vars(t, env, mark)
	if err != nil {
		return out, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return out, programs.CannotRun("a pipe for the output", err)
	}
	defer r.Close()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	cmd := exec.Command("/bin/sh", "-c", c.spec.Exec)
	cmd.Dir, cmd.Env = dir, vars
	cmd.Stdin = bytes.NewReader(fsys.Line(t))
	cmd.Stdout, cmd.Stderr = w, w
	cmd.SysProcAttr = proctree.Attributes()
	// A child that keeps standard input open must not make Wait hang.
	cmd.WaitDelay = drain
	if err := cmd.Start(); err != nil {
		w.Close()
		return out, programs.CannotRun("the command could not be started", err)
	}
	w.Close()
	copied := make(chan struct{})
	go func() { // ends with the output, or when r is closed
		defer close(copied)
		if _, err := io.Copy(env.Output, r); err != nil && !errors.Is(err, os.ErrClosed) {
			stop(err)
		}
	}()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	pid := cmd.Process.Pid
	select {
	case err = <-ended:
	case <-ctx.Done():
		proctree.KillAll(pid, mark)
		<-ended
	}
	left := proctree.KillAll(pid, mark)
	select {
	case <-copied:
	case <-time.After(drain):
		r.Close()
		<-copied
	}
	if ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	if left > 0 {
		out.Remark = fmt.Sprintf("%d processes were left behind and killed", left)
	}
	return out, failure(cmd.ProcessState, err)
}

// directory returns where to run, and what removes it.
func (c *command) directory() (dir string, done func(), err error) {
	if c.spec.Dir == "" {
		err := os.MkdirAll(c.driver.dirs, 0o700)
		if err == nil {
			dir, err = os.MkdirTemp(c.driver.dirs, "")
		}
		if err != nil {
			return "", nil, programs.CannotRun("a directory to run in", err)
		}
		return dir, func() { os.RemoveAll(dir) }, nil
	}
	if isFUSE(c.spec.Dir) {
		return "", nil, programs.CannotRun(c.spec.Dir+" is on a FUSE mount: a daemon that starts programs on its own mount would wait for itself", nil)
	}
	info, err := os.Stat(c.spec.Dir)
	if err == nil && !info.IsDir() {
		err = errors.New("it is not a directory")
	}
	if err != nil {
		return "", nil, programs.CannotRun("the directory to run in", err)
	}
	return c.spec.Dir, func() {}, nil
}

func (c *command) vars(t programs.Trigger, env programs.Env, mark string) ([]string, error) {
	var vars []string
	for _, name := range inherited {
		if v, ok := os.LookupEnv(name); ok {
			vars = append(vars, name+"="+v)
		}
	}
	for name, v := range c.spec.Env {
		vars = append(vars, name+"="+v)
	}
	slices.Sort(vars[len(vars)-len(c.spec.Env):])
	addr, err := env.Addr()
	if err != nil {
		return nil, programs.CannotRun("the socket of the tick", err)
	}
	vars = append(vars, AddrVar+"="+addr, AgentVar+"="+t.Agent, TickVar+"="+t.Tick, CauseVar+"="+string(t.Cause), proctree.Var+"="+mark)
	if c.spec.Mount {
		at, err := env.Mount()
		if err != nil {
			return nil, programs.CannotRun("mounting the namespace", err)
		}
		vars = append(vars, MountVar+"="+at)
	}
	return vars, nil
}

// failure is what the end of a command means.
func failure(state *os.ProcessState, err error) error {
	if errors.Is(err, exec.ErrWaitDelay) { // it did not read its input, or left it to others
		err = nil
	}
	ws, _ := state.Sys().(syscall.WaitStatus)
	switch {
	case ws.Signaled():
		return &programs.Failure{Kind: programs.Killed, Reason: "the command was killed by signal " + ws.Signal().String()}
	case !state.Success():
		return &programs.Failure{Kind: programs.Failed, Reason: fmt.Sprintf("the command ended with status %d", state.ExitCode())}
	case err != nil:
		return &programs.Failure{Kind: programs.Failed, Reason: "the command: " + err.Error()}
	}
	return nil
}
