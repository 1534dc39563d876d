package sandboxes

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"agent9/fsys"
)

// Exec runs a command and returns how it ended. The error says why there is
// nothing to say about that: it could not be begun, ctx ended, Out failed, or
// the sandbox ended; the command and its descendants are gone then, or will
// be soon if the box does not answer.
func (b *Box) Exec(ctx context.Context, cmd Command, s Streams) (Exit, error) {
	r, err := b.running()
	if err != nil {
		return Exit{}, err
	}
	if err := cmd.check(); err != nil {
		return Exit{}, err
	}
	exit, err := r.exec(ctx, cmd, s)
	if err != nil {
		return exit, r.explain(err)
	}
	return b.blame(ctx, r, exit), nil
}

func (c Command) check() error {
	switch {
	case len(c.Argv) == 0 || c.Argv[0] == "":
		return fsys.E(fsys.Invalid, "a command needs at least the name of a program")
	case c.Timeout < 0:
		return fsys.E(fsys.Invalid, "a negative timeout")
	}
	return nil
}

func (r *run) exec(ctx context.Context, cmd Command, s Streams) (Exit, error) {
	order, err := json.Marshal(Order{Command: cmd, Stdin: s.Stdin != nil})
	if err != nil {
		return Exit{}, fsys.Wrap(fsys.Invalid, "the command", err)
	}
	number, err := r.converse(ctx, "run/new", order)
	if err != nil {
		return Exit{}, fsys.Wrap(fsys.Unavailable, "the sandbox accepts no command", err)
	}
	if _, err := strconv.ParseUint(number, 10, 64); err != nil {
		return Exit{}, fsys.E(fsys.Unavailable, "the sandbox gave a command no number")
	}
	e := &execution{run: r, dir: "run/" + number, streams: s}
	exit, err := e.wait(ctx)
	e.forget(err == nil)
	return exit, err
}

// An execution is a command that was begun.
type execution struct {
	run     *run
	dir     string // in the box's tree
	streams Streams
}

// wait connects the streams until the command has ended.
func (e *execution) wait(ctx context.Context) (Exit, error) {
	ctx, cancel := context.WithCancel(ctx)
	var feeders sync.WaitGroup
	defer feeders.Wait()
	defer cancel()
	feeders.Go(func() { e.control(ctx) })
	if e.streams.Stdin != nil {
		e.feed(ctx)
	}
	if err := e.output(ctx); err != nil {
		return Exit{}, err
	}
	text, err := e.run.readSmall(ctx, e.dir+"/wait")
	if err != nil {
		return Exit{}, err
	}
	var o Outcome
	if err := json.Unmarshal(text, &o); err != nil {
		return Exit{}, fsys.E(fsys.Unavailable, "the sandbox sent a malformed exit status")
	}
	return o.Exit, o.Err()
}

// forget removes the command from the box, which ends it if it has not. Only
// for that, and not long if the box does not answer, does it wait.
func (e *execution) forget(ended bool) {
	forgotten := make(chan struct{})
	spawned := e.run.spawn(func() {
		defer close(forgotten)
		n, err := e.run.root.WalkPath(e.run.ctx, e.dir)
		if err == nil {
			fsys.Remove(e.run.ctx, n)
		}
	})
	if ended || !spawned {
		return
	}
	const patience = 5 * time.Second
	select {
	case <-forgotten:
	case <-time.After(patience):
	}
}

// output gives out what the command writes, until its end.
func (e *execution) output(ctx context.Context) error {
	h, err := e.run.root.OpenPath(ctx, e.dir+"/out", fsys.Read)
	if err != nil {
		return err
	}
	defer e.run.release(ctx, h)
	out := e.streams.Out
	if out == nil {
		out = func(int, []byte) error { return nil }
	}
	var parts frames
	buf := make([]byte, 256<<10)
	for off := int64(0); ; {
		n, err := fsys.ReadAt(ctx, h, buf, off)
		off += int64(n)
		if ferr := parts.feed(buf[:n], out); ferr != nil {
			return ferr
		}
		switch {
		case err == nil && n > 0:
		case err == nil || fsys.IsEOF(err):
			return nil
		default:
			return err
		}
	}
}

// feed gives the command its input. The goroutine that reads Stdin ends with
// that, or at the first read that returns after ctx ended.
func (e *execution) feed(ctx context.Context) {
	go func() {
		h, err := e.run.root.OpenPath(ctx, e.dir+"/stdin", fsys.Write)
		if err != nil {
			return
		}
		defer e.run.release(ctx, h) // which ends the command's input
		buf := make([]byte, 32<<10)
		for off := int64(0); ; {
			n, rerr := e.streams.Stdin.Read(buf)
			if n > 0 {
				if _, err := fsys.WriteAt(ctx, h, buf[:n], off); err != nil {
					return // the command reads no more
				}
				off += int64(n)
			}
			if rerr != nil || ctx.Err() != nil {
				return
			}
		}
	}()
}

// control passes on what is to be done to the command.
func (e *execution) control(ctx context.Context) {
	for {
		select {
		case c, ok := <-e.streams.Control:
			if !ok {
				return
			}
			err := e.tell(ctx, c.line())
			if ctx.Err() != nil {
				return // it has ended, of this or otherwise
			}
			if c.Done != nil {
				c.Done <- err
			}
		case <-ctx.Done():
			return
		}
	}
}

// tell writes line to the command's ctl.
func (e *execution) tell(ctx context.Context, line string) error {
	h, err := e.run.root.OpenPath(ctx, e.dir+"/ctl", fsys.Write)
	if err != nil {
		return err
	}
	defer e.run.release(ctx, h)
	_, err = fsys.WriteAt(ctx, h, []byte(line+"\n"), 0)
	return err
}

// blame adds to an exit what only the engine knows: that the kernel ended a
// process for want of memory. What a sandbox had before is not counted. A box
// that can tell has done so.
func (b *Box) blame(ctx context.Context, r *run, exit Exit) Exit {
	const killed = 128 + 9
	if r.seesOOM || exit.Reason != "" || exit.Code != killed {
		return exit
	}
	usage, err := b.Usage(ctx)
	if err != nil {
		return exit
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if usage.OOMKills > b.oomKills {
		exit.Reason = ReasonOOM
	}
	b.oomKills = usage.OOMKills
	return exit
}
