package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"agent9/fsys"
)

// sandboxFlags are those of a command that makes a session.
func sandboxFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "image", Usage: "make the sandbox of `IMAGE`, instead of the default one"},
		&cli.StringFlag{Name: "provider", Usage: "make it with the provider `ID`"},
		&cli.StringFlag{Name: "workspace", Usage: "use the workspace `NAME`, which persists"},
		&cli.BoolFlag{Name: "network", Usage: "let it have a network, if the policy does"},
		&cli.StringFlag{Name: "time", Usage: "let a command take `TIME`: a number of seconds, or as 90s or 5m"},
		&cli.StringFlag{Name: "memory", Usage: "let it have `SIZE` of memory: a number of MB, or as 64MB or 2GB"},
		&cli.StringFlag{Name: "max-cost", Usage: "most that it may cost: `AMOUNT` such as '$0.01', 1c or 5000microusd"},
	}
}

func runCommand() *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "run a command in a sandbox of the agent, and exit as it does",
		ArgsUsage: "AGENT [--] COMMAND...",
		Description: `A single COMMAND is a line for the shell, several words are a program and its
arguments. Flags of run go before COMMAND: those after it belong to it.
What it writes is printed as it comes, and with --stdin it reads what this
program is given. An interrupt ends the session; with --keep it is left
open, and its directory is printed on standard error; with --detach the
directory is printed, and nothing waited for. A terminal is shown text only; for
colours and the like, agentctl shell makes it the sandbox's.

   agentctl run alice 'echo hello | tr a-z A-Z'
   agentctl run alice ls -la
   agentctl run alice --image python:3-slim -- python3 -c 'print(6 * 7)'
   agentctl run alice --keep -- make test
   agentctl run alice --stdin 'gzip -d | wc -l' < log.gz
   agentctl run alice --json -- false | jq .exit_code`,
		Flags: append(sandboxFlags(),
			&cli.BoolFlag{Name: "keep", Usage: "leave the session open"},
			&cli.BoolFlag{Name: "stdin", Aliases: []string{"i"}, Usage: "give the command what standard input has"},
			&cli.BoolFlag{Name: "json", Usage: "print how it ended as JSON, instead of what it writes"},
			&cli.BoolFlag{Name: "detach", Aliases: []string{"d"}, Usage: "print the session's directory and do not wait"},
		),
		OnUsageError: usageFailed,
		Before:       takes(1, -1, "the command"),
		BashComplete: completeAgents,
		Action:       attached(runInSandbox),
	}
}

func runInSandbox(s *session) error {
	agent, words, err := s.agentAnd("the command")
	if err != nil {
		return err
	}
	if s.Bool("stdin") && s.Bool("detach") {
		return usagef("--stdin needs somebody who waits: it cannot be with --detach")
	}
	var dir, work string // of the session, and of what is run there
	if s.Bool("keep") || s.Bool("stdin") {
		dir, work, err = s.runKept(agent, words)
	} else {
		dir, err = s.newSandbox(agent, words, false)
		work = dir
	}
	if err != nil {
		return err
	}
	if s.Bool("keep") && !s.Bool("detach") {
		fmt.Fprintln(s.App.ErrWriter, dir)
	}
	if s.Bool("detach") {
		_, err := fmt.Fprintln(s.App.Writer, dir)
		return err
	}
	s.awaits(agent, join(dir, "status"))
	if s.Bool("stdin") {
		go s.feed(s.Context.Context, join(work, "stdin"), nil) // ends with the process
		if !s.Bool("keep") {
			defer s.order(s.Context.Context, join(dir, "ctl"), "kill")
		}
	}
	if !s.Bool("json") {
		err = s.both(work)
	}
	code, failed := s.exitCode(work, s.Bool("json"))
	if ctx := s.Context.Context; ctx.Err() != nil {
		if s.Bool("keep") {
			s.order(ctx, join(work, "ctl"), "cancel")
		} else if !s.Bool("stdin") {
			s.order(ctx, join(dir, "ctl"), "kill")
		}
		return context.Cause(ctx)
	}
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	return code.orNil()
}

// runKept makes a session that is left open, and runs words in it.
func (s *session) runKept(agent string, words []string) (dir, work string, err error) {
	if dir, err = s.newSandbox(agent, nil, true); err != nil {
		return "", "", err
	}
	command := commandOf(words)
	if !s.Bool("stdin") {
		command["stdin"] = false
	}
	if work, err = s.newExec(dir, command); err != nil {
		s.order(s.Context.Context, join(dir, "ctl"), "kill")
	}
	return dir, work, err
}

// newSandbox makes a session that runs words, if there are any, and returns its
// directory.
func (s *session) newSandbox(agent string, words []string, keep bool) (string, error) {
	limits := map[string]any{}
	if s.Bool("network") {
		limits["network"] = true
	}
	for _, l := range []struct {
		flag, limit string
		value       func(string) (int64, error)
	}{{"time", "time_s", s.seconds}, {"memory", "memory_mb", s.megabytes}} {
		if !s.IsSet(l.flag) {
			continue
		}
		n, err := l.value(l.flag)
		if err != nil {
			return "", err
		}
		limits[l.limit] = n
	}
	req := map[string]any{"keep": keep, "limits": limits}
	for _, field := range []string{"image", "provider", "workspace"} {
		if v := s.String(field); v != "" {
			req[field] = v
		}
	}
	if len(words) > 0 {
		req["commands"] = []any{commandOf(words)}
	}
	if s.IsSet("max-cost") {
		micros, err := s.amount("max-cost")
		if err != nil {
			return "", err
		}
		req["max_cost_microusd"] = micros
	}
	reply, err := s.submit(join(agent, "containers/new"), fsys.Line(req))
	return join(agent, "containers/sessions/"+strings.TrimSpace(string(reply))), err
}

// commandOf is words as a request has them.
func commandOf(words []string) map[string]any {
	if len(words) == 1 {
		return map[string]any{"command": words[0]}
	}
	return map[string]any{"argv": words}
}

// newExec runs a command in the session at dir and returns its directory.
func (s *session) newExec(dir string, command map[string]any) (string, error) {
	reply, err := s.submit(join(dir, "exec/new"), fsys.Line(command))
	return join(dir, "exec/"+strings.TrimSpace(string(reply))), err
}

// both copies what the work at dir writes to standard output and error.
func (s *session) both(dir string) error {
	failed := make(chan error, 1)
	go func() { failed <- s.copyStream(s.App.ErrWriter, join(dir, "stderr")) }()
	err := s.copyStream(s.App.Writer, join(dir, "stdout"))
	return errors.Join(err, <-failed)
}

func (s *session) copyStream(w io.Writer, p string) error {
	h, err := s.open(p, fsys.Read)
	if err != nil {
		return at(p, err)
	}
	return at(p, s.finish(h, s.copyTo(w, h, 0)))
}

// exitStatus is what a command in a sandbox ended with.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

func (e exitStatus) orNil() error {
	if e == 0 {
		return nil
	}
	return e
}

// exitCode waits for the end of the work at dir and returns what it ended
// with; if it did not run, it fails and says why. With show, it prints the
// result.
func (s *session) exitCode(dir string, show bool) (exitStatus, error) {
	var result struct {
		ExitCode *int `json:"exit_code"`
		Error    struct{ Code, Reason string }
	}
	var raw []byte
	if err := s.readJSON(join(dir, "result"), &result, &raw); err != nil {
		return 1, err
	}
	if show {
		if _, err := s.App.Writer.Write(raw); err != nil {
			return 1, err
		}
	}
	switch result.Error.Code {
	case "", "exit", "killed", "oom", "disk", "timeout":
		if result.ExitCode != nil {
			if result.Error.Code == "timeout" && !show {
				notice(s.App.ErrWriter, "%s", result.Error.Reason)
			}
			return exitStatus(*result.ExitCode), nil
		}
	}
	if result.Error.Reason != "" {
		return exitFailed, at(dir, codeNamed(result.Error.Code, result.Error.Reason))
	}
	return 0, nil
}

// order writes a command to a ctl file, also after the user did not want to wait.
func (s *session) order(ctx context.Context, ctl, command string) {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), patience/2)
	defer done()
	h, err := s.root.OpenPath(ctx, ctl, fsys.Write)
	if err == nil {
		_, err = fsys.WriteAt(ctx, h, []byte(command+"\n"), 0)
		h.Close()
	}
	if err != nil {
		notice(s.App.ErrWriter, "%s: %s: %s", ctl, command, words(err))
	}
}
