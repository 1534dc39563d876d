package containers

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"agent9/fsys"
	"agent9/providers/sandboxes"
	"agent9/services/internal/work"
	"agent9/store"
)

// The states of an exec; one of a session that has no sandbox yet waits.
const (
	execWaiting = "waiting"
	execRunning = "running"
	execDone    = "done"    // it ended with 0
	execFailed  = "failed"  // it did not, or was not run
	execStopped = "stopped" // it was cancelled, or its session ended
)

// execRecord is what the store has of an exec, apart from what it wrote.
type execRecord struct {
	Number   int64     `json:"exec"`
	State    string    `json:"state"`
	Command  command   `json:"command"`
	Created  time.Time `json:"created"`
	Started  time.Time `json:"started,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`
	Outcome  *outcome  `json:"outcome,omitempty"`
	Size     int64     `json:"size,omitempty"`
	Removing bool      `json:"removing,omitempty"`
	Hidden   []string  `json:"hidden,omitempty"`
}

func (r *execRecord) ended() bool { return r.State != execWaiting && r.State != execRunning }

// exec is a command that somebody gave a session.
type exec struct {
	w   *session
	m   int64
	cmd sandboxes.Command

	// Of one that has not ended.
	ctx    context.Context
	cancel context.CancelCauseFunc
	proc   *process
	stdin  *pipe // nil: none

	done chan struct{} // closed when it has ended

	mu     sync.Mutex
	rec    execRecord
	output *recording
	gone   bool
}

// newExec is what a write to exec/new does: it replies with the number of the
// exec when that is on disk.
func (w *session) newExec(ctx context.Context, raw []byte) ([]byte, error) {
	c, err := parseCommand(raw)
	if err != nil {
		return nil, err
	}
	if r := w.Record(); r.State.ended() {
		return nil, fsys.E(fsys.Busy, "the session has ended: "+string(r.State))
	}
	if err := checkTime(c.Time, w.plan.limits); err != nil {
		return nil, err
	}
	x, err := w.begin(ctx, c)
	if err != nil {
		return nil, err
	}
	return work.Reply(x.m), nil
}

func parseCommand(raw []byte) (*command, error) {
	c := &command{}
	if text := strings.TrimSpace(string(raw)); !strings.HasPrefix(text, "{") {
		c.Shell = text
	} else if err := c.UnmarshalJSON([]byte(text)); err != nil {
		return nil, err
	}
	return c, c.check()
}

// begin records an exec and starts it.
func (w *session) begin(ctx context.Context, c *command) (*exec, error) {
	x := &exec{w: w, cmd: w.command(c), done: make(chan struct{})}
	x.rec = execRecord{State: execWaiting, Command: *c, Created: w.s.config.Now()}
	x.ctx, x.cancel = context.WithCancelCause(w.Ctx)
	x.proc = &process{cmd: x.cmd, alike: stdout, control: make(chan sandboxes.Control, 1)}
	switch in := c.Stdin; {
	case in == nil || in.Open:
		x.stdin = newPipe()
		x.proc.stdin = x.stdin
	case in.Text != nil:
		x.proc.stdin = stringReader(*in.Text)
	}
	if err := w.actFor(); err != nil {
		x.cancel(nil)
		return nil, err
	}
	err := w.s.st.Update(ctx, func(tx store.Store) error {
		err := w.s.ledger.Change(ctx, tx, w, func(r *record) {
			r.Execs++
			x.m = r.Execs
		})
		if err != nil {
			return err
		}
		x.rec.Number = x.m
		w.execs.Enter(x.m, x)
		return store.PutJSON(ctx, tx, execKey(w.N, x.m), x.rec)
	})
	if err != nil {
		w.execs.Undo(x.m, x)
		x.cancel(nil)
		w.acts.Done()
		return nil, err
	}
	go func() {
		defer w.acts.Done()
		x.finish(x.run())
	}()
	return x, nil
}

// actFor makes room for an exec, which the session's end waits for.
func (w *session) actFor() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.stopping || w.Ctx.Err() != nil:
		return fsys.E(fsys.Busy, "the session is ending")
	case w.execs.Len() >= w.plan.policy.MaxExecs:
		return fsys.E(fsys.Busy, "too many commands run in the session; try again when some have ended")
	}
	w.acts.Add(1)
	return nil
}

// run waits for the sandbox and runs the command in it.
func (x *exec) run() (outcome, error) {
	if err := x.open(x.ctx); err != nil {
		return outcome{}, err
	}
	x.proc.out = x.output
	select {
	case <-x.w.ready:
	case <-x.ctx.Done():
		return outcome{}, context.Cause(x.ctx)
	}
	err := x.change(func(r *execRecord) { r.State, r.Started = execRunning, x.w.s.config.Now() })
	if err != nil {
		return outcome{}, err
	}
	return x.w.perform(x.ctx, x.proc)
}

// finish records how x ended.
func (x *exec) finish(o outcome, err error) {
	defer x.cancel(nil)
	if x.stdin != nil {
		x.stdin.close()
	}
	o.Command = x.rec.Command.String()
	state := execDone
	switch {
	case err != nil && x.ctx.Err() != nil, errors.Is(err, errStopped):
		state = execStopped
	case err != nil || o.ExitCode != 0 || o.Signal != "":
		state = execFailed
	}
	if err != nil {
		o.ExitCode, o.Error = max(o.ExitCode, 1), work.FailureOf(err)
	}
	failed := x.settle(state, o)
	if failed != nil {
		x.mu.Lock()
		o.Error = work.FailureOf(failed)
		x.rec.State, x.rec.Outcome = execFailed, &o
		x.mu.Unlock()
	}
	x.w.execs.Leave(x.m)
	close(x.done)
	if x.output != nil {
		x.output.end()
	}
}

// execEnded is the event of an exec's end.
type execEnded struct {
	Session  int64  `json:"session"`
	Exec     int64  `json:"exec"`
	State    string `json:"state"`
	ExitCode int    `json:"exit_code"`
}

func (x *exec) settle(state string, o outcome) error {
	if x.output == nil {
		return fsys.E(fsys.Internal, "the output could not be recorded")
	}
	if err := x.output.confess(); err != nil {
		return err
	}
	s, ctx := x.w.s, context.WithoutCancel(x.w.Ctx)
	return s.st.Update(ctx, func(tx store.Store) error {
		if err := x.output.keep(tx); err != nil {
			return err
		}
		size := x.output.stored() + overhead
		removing := false
		err := x.alter(ctx, tx, func(r *execRecord) {
			r.State, r.Ended, r.Outcome, r.Size = state, s.config.Now(), &o, size
			removing = r.Removing
		})
		if err != nil {
			return err
		}
		if removing {
			return x.delete(ctx, tx)
		}
		store.After(tx, func() {
			x.w.mu.Lock()
			defer x.w.mu.Unlock()
			x.w.written += size
		})
		return s.config.Note.Record(tx, "containers.exec", execEnded{x.w.N, x.m, state, o.ExitCode})
	})
}

// alter changes the record of x in a transaction, and in memory when that is
// committed.
func (x *exec) alter(ctx context.Context, tx store.Store, alter func(*execRecord)) error {
	r, err := store.GetJSON[execRecord](ctx, tx, execKey(x.w.N, x.m))
	if err != nil {
		return err
	}
	alter(&r)
	store.After(tx, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.rec = r
	})
	return store.PutJSON(ctx, tx, execKey(x.w.N, x.m), r)
}

// change is alter in a transaction of its own.
func (x *exec) change(alter func(*execRecord)) error {
	ctx := context.WithoutCancel(x.w.s.life)
	return x.w.s.st.Update(ctx, func(tx store.Store) error { return x.alter(ctx, tx, alter) })
}

// open opens the streams.
func (x *exec) open(ctx context.Context) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.output != nil {
		return nil
	}
	output, err := openRecording(ctx, store.Sub(x.w.s.st, execView(x.w.N, x.m)), x.w.plan.policy.OutputLimit)
	if err != nil {
		return err
	}
	x.output = output
	if x.rec.ended() {
		output.end()
	}
	return nil
}

func (x *exec) recorded(ctx context.Context) (*recording, error) {
	err := x.open(ctx)
	return x.output, err
}

func (x *exec) record() execRecord {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.rec
}
