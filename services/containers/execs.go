package containers

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"agent9/fsys"
	"agent9/providers/sandboxes"
	"agent9/services/internal/work"
	"agent9/store"
)

// execs is the directory of what a session was told to run besides its
// commands.
type execs struct{ w *session }

const execNew = "new"

func execsDir(w *session) fsys.Node { return fsys.NewTableWith(execs{w}) }

func (d execs) Walk(ctx context.Context, name string) (fsys.Node, error) {
	if err := d.w.Present(); err != nil {
		return nil, err
	}
	if name == execNew {
		return d.newFile(), nil
	}
	m, ok := work.Number(name)
	if !ok {
		return nil, fsys.NotExist
	}
	x, err := d.w.exec(ctx, m)
	if store.IsDamaged(err) {
		return work.Damaged(err, func(ctx context.Context) error {
			return d.w.s.st.Update(ctx, func(tx store.Store) error { return d.w.s.eraseExec(ctx, tx, d.w.N, m) })
		}), nil
	}
	if err != nil {
		return nil, err
	}
	return work.Dir(x, execFiles), nil
}

func (d execs) newFile() fsys.Node {
	return &fsys.Call{Do: d.w.newExec, Admit: d.w.takesFrom, Effect: fsys.Spends}
}

// takesFrom refuses who comes with another token than the session, or with one to
// a session that came with none: what runs in it may what the session may, and
// that is as long as the session lasts.
func (w *session) takesFrom(ctx context.Context) error {
	if id := fsys.TokenOf(ctx); id != "" && id != w.Record().Token {
		return fsys.E(fsys.Permission, "the session was not begun with this token, and what runs in it has other rights; begin one of your own")
	}
	return nil
}

func (d execs) List(ctx context.Context) ([]fsys.Entry, error) {
	if err := d.w.Present(); err != nil {
		return nil, err
	}
	if d.w.going() {
		return nil, nil
	}
	list := []fsys.Entry{{Name: execNew, Node: d.newFile()}}
	prefix := execsPart(d.w.N) + work.RecPrefix
	for p, err := range store.All(ctx, store.Forgiving(d.w.s.st), prefix) {
		if err != nil {
			return nil, err
		}
		name := strings.TrimLeft(p.Key[len(prefix):], "0")
		list = append(list, fsys.Entry{Name: name, Node: work.Later(d, name)})
	}
	return list, nil
}

func (d execs) Stat(context.Context) (fsys.Info, error) {
	if err := d.w.Present(); err != nil {
		return fsys.Info{}, err
	}
	return fsys.Info{Perm: 0o755, ModTime: d.w.ModTime()}, nil
}

// Remove hides the directory, as what rm -r does to a session.
func (d execs) Remove(ctx context.Context) error {
	list, err := d.List(ctx)
	switch {
	case err != nil:
		return err
	case len(list) > 0:
		return fsys.NotEmpty
	}
	return d.w.Hide(ctx, "exec")
}

// exec returns exec m of w, or NotExist.
func (w *session) exec(ctx context.Context, m int64) (*exec, error) {
	x, err := w.execs.Get(ctx, m, func() (*exec, bool, error) {
		rec, err := store.GetJSON[execRecord](ctx, w.s.st, execKey(w.N, m))
		x := &exec{w: w, m: m, rec: rec, done: make(chan struct{})}
		close(x.done)
		return x, rec.ended(), err
	})
	if err != nil {
		return nil, err
	}
	return x, x.Present()
}

// execFiles are what the directory of an exec has.
var execFiles = []work.File[*exec]{
	{Name: "status", Node: func(x *exec) fsys.Node { return fsys.JSON(x.status) }},
	{Name: "output", Node: func(x *exec) fsys.Node { return work.Stream(x, outputTape) }},
	{Name: "stdout", Node: func(x *exec) fsys.Node { return work.Stream(x, stdoutTape) }},
	{Name: "stderr", Node: func(x *exec) fsys.Node { return work.Stream(x, stderrTape) }},
	{Name: "stdin", Node: func(x *exec) fsys.Node { return stdinFile{x} }},
	{Name: "result", Node: func(x *exec) fsys.Node { return resultOf(x.done, x.result) }},
	{Name: "ctl", Node: func(x *exec) fsys.Node { return &fsys.Ctl{Do: x.control, Text: x.commands} }},
}

var _ work.Work = (*exec)(nil)

func (x *exec) Present() error {
	x.mu.Lock()
	gone := x.gone || x.rec.Removing
	x.mu.Unlock()
	if gone {
		return fsys.NotExist
	}
	return x.w.Present()
}

func (x *exec) Hidden() []string { return x.record().Hidden }

func (x *exec) ModTime() time.Time {
	r := x.record()
	for _, t := range []time.Time{r.Ended, r.Started} {
		if !t.IsZero() {
			return t
		}
	}
	return r.Created
}

func (x *exec) Hide(_ context.Context, name string) error {
	return x.change(func(r *execRecord) {
		if !slices.Contains(r.Hidden, name) {
			r.Hidden = append(r.Hidden, name)
		}
	})
}

// Remove removes x; one that runs is cancelled, and removed when it has ended.
func (x *exec) Remove(ctx context.Context) error {
	if err := x.open(ctx); err != nil {
		return err
	}
	running := false
	err := x.w.s.st.Update(ctx, func(tx store.Store) error {
		r, err := store.GetJSON[execRecord](ctx, tx, execKey(x.w.N, x.m))
		if err != nil {
			return err
		}
		if running = !r.ended(); running {
			return x.alter(ctx, tx, func(r *execRecord) { r.Removing = true })
		}
		return x.delete(ctx, tx)
	})
	if err == nil && running {
		x.cancel(errStopped)
	}
	return err
}

// delete deletes all that is stored of x, which has ended.
func (x *exec) delete(ctx context.Context, tx store.Store) error {
	if err := tx.Delete(ctx, execKey(x.w.N, x.m)); err != nil {
		return err
	}
	if err := x.drop(tx); err != nil {
		return err
	}
	store.After(tx, func() { x.w.execs.Remove(x.m) })
	return store.DeleteAll(ctx, tx, execView(x.w.N, x.m))
}

// eraseExec deletes what there is of an exec whose record is damaged.
func (s *Service) eraseExec(ctx context.Context, tx store.Store, n, m int64) error {
	if err := tx.Delete(ctx, execKey(n, m)); err != nil {
		return err
	}
	return store.DeleteAll(ctx, tx, execView(n, m))
}

// drop makes x one that is no longer there.
func (x *exec) drop(tx store.Store) error {
	x.mu.Lock()
	output := x.output
	x.mu.Unlock()
	store.After(tx, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.gone = true
	})
	if output == nil {
		return nil
	}
	return output.drop(tx)
}

type execStatus struct {
	Session  int64         `json:"session"`
	Exec     int64         `json:"exec"`
	State    string        `json:"state"`
	Command  string        `json:"command"`
	TTY      bool          `json:"tty"`
	ExitCode *int          `json:"exit_code,omitempty"`
	Reason   string        `json:"reason,omitempty"`
	Created  string        `json:"created"`
	Started  string        `json:"started,omitempty"`
	Ended    string        `json:"ended,omitempty"`
	Error    *work.Failure `json:"error,omitempty"`
}

func (x *exec) status(context.Context) (execStatus, error) {
	r := x.record()
	f := execStatus{
		Session: x.w.N, Exec: r.Number, State: r.State, Command: r.Command.String(), TTY: r.Command.TTY != nil,
		Created: work.Stamp(r.Created), Started: work.Stamp(r.Started), Ended: work.Stamp(r.Ended),
	}
	if o := r.Outcome; o != nil {
		f.ExitCode, f.Reason, f.Error = &o.ExitCode, o.Reason, o.Error
	}
	return f, nil
}

func (x *exec) result(context.Context) ([]byte, error) {
	r := x.record()
	if r.Outcome == nil {
		return fsys.Line(outcome{Command: r.Command.String(), ExitCode: 1}), nil
	}
	return fsys.Line(r.Outcome), nil
}

func (x *exec) commands(context.Context) ([]byte, error) {
	return []byte("kill [SIGNAL]\tgive it a signal, KILL if none is named\ncancel\tend it and all that it began\n" +
		"resize ROWS COLS\tof its terminal\nclose\tend its input\n"), nil
}

func (x *exec) control(ctx context.Context, words []string) ([]byte, error) {
	if r := x.record(); r.ended() {
		return nil, fsys.E(fsys.Busy, fmt.Sprintf("exec %d has ended: %s", x.m, r.State))
	}
	switch n := len(words); {
	case words[0] == "cancel" && n == 1:
		x.cancel(errStopped)
		return nil, nil
	case words[0] == "kill" && n <= 2:
		name := "KILL"
		if n == 2 {
			name = strings.TrimPrefix(strings.ToUpper(words[1]), "SIG")
		}
		return nil, x.signal(ctx, name)
	case words[0] == "close" && n == 1:
		if x.stdin == nil {
			return nil, fsys.E(fsys.Busy, "the command has no input")
		}
		x.stdin.close()
		return nil, nil
	case words[0] == "resize" && n == 3:
		return nil, x.resize(ctx, words[1], words[2])
	}
	return nil, fsys.E(fsys.Invalid, "want kill [SIGNAL], cancel, resize ROWS COLS or close")
}

// signal gives the command a signal, if it knows that name.
func (x *exec) signal(ctx context.Context, name string) error {
	if !slices.Contains(signals, name) {
		return fsys.E(fsys.Invalid, "no signal is called "+name+"; there are: "+strings.Join(signals, ", "))
	}
	return x.do(ctx, sandboxes.Control{Signal: name})
}

// do has something done to the command, and returns when it was: what is
// written to the command afterwards comes after it. One that waits for its
// sandbox is told when it begins; to one that ends meanwhile, perhaps of this,
// there is nothing more to do.
func (x *exec) do(ctx context.Context, c sandboxes.Control) error {
	done := make(chan error, 1)
	c.Done = done
	select {
	case x.proc.control <- c:
	case <-x.done:
		return fsys.E(fsys.Busy, "the command has ended")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if x.record().State == execWaiting {
		return nil
	}
	select {
	case err := <-done:
		return err
	case <-x.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// signals are those that can be sent.
var signals = []string{"HUP", "INT", "QUIT", "KILL", "USR1", "USR2", "TERM", "CONT", "STOP", "TSTP", "WINCH"}

func (x *exec) resize(ctx context.Context, rows, cols string) error {
	r, err := strconv.ParseUint(rows, 10, 16)
	c, err2 := strconv.ParseUint(cols, 10, 16)
	switch {
	case x.cmd.TTY == nil:
		return fsys.E(fsys.Busy, "the command has no terminal")
	case err != nil || err2 != nil || r == 0 || c == 0:
		return fsys.E(fsys.Invalid, "resize wants two numbers, of rows and columns")
	}
	return x.do(ctx, sandboxes.Control{Size: sandboxes.Size{Rows: uint16(r), Cols: uint16(c)}})
}
