package containers

import (
	"context"
	"io"
	"maps"
	"slices"

	"agent9/fsys"
	"agent9/providers/sandboxes"
	"agent9/providers/scrub"
	"agent9/services/internal/work"
)

// process is a command that runs in the sandbox of a session.
type process struct {
	cmd   sandboxes.Command
	box   *sandboxes.Box // nil: the session's
	stdin io.Reader
	out   *recording
	// alike records all output as said, and not as a command's.
	alike   int
	alone   [3]*scrub.Stream       // what it writes, without secrets; made by perform
	control chan sandboxes.Control // made by perform if there is none
}

// perform runs p in the sandbox of w. It fails if p could not be run, or was
// cut off; what p itself came to is the outcome.
func (w *session) perform(ctx context.Context, p *process) (outcome, error) {
	if p.control == nil {
		p.control = make(chan sandboxes.Control, 1)
	}
	w.mu.Lock()
	box, stopping := w.box, w.stopping
	if !stopping {
		w.running[p] = struct{}{}
	}
	w.mu.Unlock()
	if stopping {
		return outcome{}, errStopped
	}
	defer w.over(p)
	w.use()
	if p.box != nil {
		box = p.box
	}
	for fd := range p.alone {
		p.alone[fd] = w.secrets.hidden.Stream()
	}
	outBefore, errBefore, lostBefore := p.out.sizes()
	cmd := p.cmd
	if p.alike == stdout { // a command of the agent's
		cmd.Env = slices.Concat(w.secrets.env, cmd.Env)
	}
	exit, err := box.Exec(ctx, cmd, sandboxes.Streams{Stdin: p.stdin, Out: p.take, Control: p.control})
	if ctx.Err() != nil && err != nil {
		err = context.Cause(ctx)
	}
	for fd, s := range p.alone {
		if failed := p.add(fd, s.End()); err == nil {
			err = failed
		}
	}
	out, errs, lost := p.out.sizes()
	o := outcome{
		ExitCode: exit.Code, Signal: exit.Signal, Reason: exit.Reason,
		Wall: exit.Wall.Milliseconds(), CPU: exit.CPU.Milliseconds(), MaxRSS: exit.MaxRSS,
		Stdout: out - outBefore, Stderr: errs - errBefore, Lost: lost - lostBefore,
	}
	if err != nil {
		o.ExitCode, o.Error = max(o.ExitCode, 1), work.FailureOf(err)
	}
	return o, err
}

// take records what p writes.
func (p *process) take(fd int, b []byte) error {
	if fd != stderr {
		fd = stdout
	}
	return p.add(fd, p.alone[fd].Next(b))
}

func (p *process) add(fd int, b []byte) error {
	if p.alike == said {
		fd = said
	}
	return p.out.add(fd, b)
}

// over says that p has ended.
func (w *session) over(p *process) {
	w.mu.Lock()
	delete(w.running, p)
	w.mu.Unlock()
	w.use()
}

// use notes that somebody does something with the session.
func (w *session) use() {
	w.mu.Lock()
	w.lastUse = w.s.config.Now()
	w.mu.Unlock()
	w.wakeClock()
}

func (w *session) wakeClock() {
	select {
	case w.touch <- struct{}{}:
	default:
	}
}

// hangUp asks every command to end, and refuses further ones. It reports
// whether there was one.
func (w *session) hangUp() bool {
	w.mu.Lock()
	w.stopping = true
	running := slices.Collect(maps.Keys(w.running))
	w.mu.Unlock()
	for _, p := range running {
		p.send("TERM")
	}
	return len(running) > 0
}

// hungUp reports whether hangUp was called, or the session has ended.
func (w *session) hungUp() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stopping
}

// send gives p a signal, unless something waits to be done to it.
func (p *process) send(name string) {
	select {
	case p.control <- sandboxes.Control{Signal: name}:
	default:
	}
}

// failed is what o says of a session whose command it was.
func (o *outcome) failed(n int) error {
	what := "command " + text(int64(n))
	switch {
	case o.ExitCode == 0 && o.Signal == "":
		return nil
	case o.Reason == sandboxes.ReasonTimeout:
		return exitError{"timeout", what + " ran out of time"}
	case o.Reason == sandboxes.ReasonOOM:
		return exitError{"oom", what + " ran out of memory"}
	case o.Reason == sandboxes.ReasonDisk:
		return exitError{"disk", what + " wrote more than the disk limit allows"}
	case o.Signal != "":
		return exitError{"killed", what + " was killed by " + o.Signal}
	}
	return exitError{"exit", what + " exited with " + text(int64(o.ExitCode))}
}

var errNotReady = fsys.E(fsys.Busy, "the session has no sandbox yet; try again when its state is running")
