package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"agent9/cmd/internal/plain"
	"agent9/fsys"
)

func shellCommand() *cli.Command {
	return &cli.Command{
		Name:      "shell",
		Usage:     "open a terminal in a sandbox of the agent",
		ArgsUsage: "AGENT [SESSION] [-- COMMAND...]",
		Description: `SESSION is the number of a session that runs; without one, a session is made,
and ends with the shell. COMMAND is run instead of a shell. On a terminal,
every key goes to the sandbox, Ctrl-C as well; otherwise standard input is what
the command reads. The exit status is that of the command. The terminal is the
sandbox's meanwhile: what runs there may give it any command.

   agentctl shell alice
   agentctl shell alice 17
   agentctl shell alice 17 -- python3
   agentctl shell alice 17 -- sh -s < script.sh`,
		Flags:        sandboxFlags(),
		OnUsageError: usageFailed,
		Before:       takes(0, -1, ""),
		BashComplete: completeSandboxes,
		Action:       attached(shell),
	}
}

func shell(s *session) error {
	agent, number, words, err := s.shellArgs()
	if err != nil {
		return err
	}
	dir := join(agent, "containers/sessions/"+number)
	if number == "" {
		if dir, err = s.newSandbox(agent, nil, true); err != nil {
			return err
		}
		defer s.order(s.Context.Context, join(dir, "ctl"), "kill")
	}
	t := openTerminal(s.App.Reader)
	command := commandOf(words)
	if t != nil {
		rows, cols := t.size()
		command["tty"] = map[string]any{"rows": rows, "cols": cols}
		command["env"] = map[string]string{"TERM": os.Getenv("TERM")}
	}
	work, err := s.newExec(dir, command)
	if err != nil {
		return err
	}
	if t != nil {
		restore, err := t.raw()
		if err != nil {
			return err
		}
		defer restore()
	}
	code, err := s.interact(work, t)
	if err != nil {
		s.order(s.Context.Context, join(work, "ctl"), "cancel")
		return err
	}
	return code.orNil()
}

// shellArgs are the agent, a session's number if there is one, and the command.
func (s *session) shellArgs() (agent, number string, words []string, err error) {
	args := s.Args().Slice()
	name := ""
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	if agent, err = s.agent(name); err != nil {
		return "", "", nil, err
	}
	if len(args) > 0 && isNumber(args[0]) {
		number, args = args[0], args[1:]
	}
	if len(args) == 0 {
		args = []string{`command -v bash > /dev/null && exec bash; exec sh`}
	}
	return agent, number, args, nil
}

func isNumber(s string) bool {
	for _, r := range s {
		if r < '0' || r > '9' {
			return false
		}
	}
	return s != ""
}

// interact connects the work at dir with standard input and output until it
// ends.
func (s *session) interact(dir string, t *terminal) (exitStatus, error) {
	s, cancel := s.cancelled()
	defer cancel(nil)
	ctx := s.Context.Context
	go func() { // ends with the process: a read of a terminal cannot be interrupted
		if s.feed(ctx, join(dir, "stdin"), t); t != nil && ctx.Err() == nil {
			cancel(exitStatus(exitInterrupted)) // a terminal's input ends when it hangs up, also where SIGHUP is ignored
		}
	}()
	var err error
	if t == nil {
		err = s.both(dir)
	} else {
		go t.watch(ctx, func(rows, cols int) {
			s.converse(ctx, join(dir, "ctl"), fmt.Appendf(nil, "resize %d %d\n", rows, cols))
		})
		err = s.copyStream(plain.Bare(s.App.Writer), join(dir, "output"))
	}
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if t != nil && err != nil { // nobody sees any more what it does
		return 0, err
	}
	code, failed := s.exitCode(dir, false)
	return code, errors.Join(err, failed)
}

// cancelled returns s with a context that cancel ends.
func (s *session) cancelled() (_ *session, cancel context.CancelCauseFunc) {
	c := *s.Context
	c.Context, cancel = context.WithCancelCause(c.Context)
	return &session{&c, s.client, s.root}, cancel
}

// feed copies standard input to the file at p, and ends it, but for a
// terminal's, in order. It returns when the input ends.
func (s *session) feed(ctx context.Context, p string, t *terminal) {
	h, err := s.root.OpenPath(ctx, p, fsys.Write)
	if err != nil { // the command has ended
		<-ctx.Done()
		return
	}
	in := input(ctx, s.App.Reader)
	for b := make([]byte, 32<<10); ; {
		n, err := in.Read(b)
		if n > 0 {
			if _, werr := fsys.WriteAt(ctx, h, b[:n], 0); werr != nil {
				h.Close()
				<-ctx.Done() // so has it
				return
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) && t == nil:
			fsys.Finish(ctx, h)
			return
		default:
			h.Close()
			return
		}
	}
}

// A terminal is that of standard input.
type terminal struct{ fd int }

// openTerminal returns the terminal that r is, or nil.
func openTerminal(r io.Reader) *terminal {
	f, ok := r.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return &terminal{int(f.Fd())}
}

func (t *terminal) size() (rows, cols int) {
	cols, rows, err := term.GetSize(t.fd)
	if err != nil || rows < 1 || cols < 1 {
		return 24, 80
	}
	return rows, cols
}

// raw makes every key a byte of the input, until restore.
func (t *terminal) raw() (restore func(), err error) {
	state, err := term.MakeRaw(t.fd)
	if err != nil {
		return nil, err
	}
	return func() { term.Restore(t.fd, state) }, nil
}
