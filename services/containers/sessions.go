package containers

import (
	"context"
	"strconv"

	"agent9/fsys"
	"agent9/services/internal/work"
	"agent9/store"
)

// sessions is the directory of sessions. One is found by its number, and by
// its idempotency key.
type sessions struct{ s *Service }

func (d sessions) Walk(ctx context.Context, name string) (fsys.Node, error) {
	n, ok := work.Number(name)
	if !ok {
		entry, err := d.s.ledger.Keys.LookUp(ctx, d.s.st, name)
		if err != nil {
			return nil, err
		}
		n = entry.Number
	}
	w, err := d.s.ledger.Find(ctx, n)
	if store.IsDamaged(err) {
		return work.Damaged(err, func(ctx context.Context) error { return d.s.ledger.RemoveDamaged(ctx, n) }), nil
	}
	if err != nil {
		return nil, err
	}
	return work.Dir(w, files), nil
}

// List reads names only; a session is read when somebody looks at it.
func (d sessions) List(ctx context.Context) ([]fsys.Entry, error) { return d.s.ledger.List(ctx, d) }

// Stat gives the directory its permissions; when it changed is not kept.
func (d sessions) Stat(context.Context) (fsys.Info, error) { return fsys.Info{Perm: 0o755}, nil }

// files are what the directory of a session has. What is last has much below
// it: see [session.going].
var files = []work.File[*session]{
	{Name: "request", Node: func(w *session) fsys.Node { return fsys.Text(w.request) }},
	{Name: "status", Node: func(w *session) fsys.Node { return fsys.JSON(w.status) }},
	{Name: "output", Node: func(w *session) fsys.Node { return work.Stream(w, outputTape) }},
	{Name: "stdout", Node: func(w *session) fsys.Node { return work.Stream(w, stdoutTape) }},
	{Name: "stderr", Node: func(w *session) fsys.Node { return work.Stream(w, stderrTape) }},
	{Name: "result", Node: (*session).resultFile},
	{Name: "usage", Node: func(w *session) fsys.Node { return fsys.JSON(w.usage) }},
	{Name: "ctl", Node: func(w *session) fsys.Node {
		return &fsys.Ctl{Do: w.control, Text: w.commands, Effect: fsys.Changes}
	}},
	{Name: "exec", Node: func(w *session) fsys.Node { return execsDir(w) }},
	{Name: "files", Node: func(w *session) fsys.Node { return &file{w: w} }},
	{Name: rootDir, Node: func(w *session) fsys.Node { return everything{&file{w: w}} }},
}

// recorder is a session or an exec.
type recorder interface {
	recorded(ctx context.Context) (*recording, error)
}

func (w *session) recorded(ctx context.Context) (*recording, error) {
	err := w.Open(ctx)
	return w.output, err
}

func outputTape[W recorder](ctx context.Context, w W) (*fsys.Tape, error) {
	r, err := w.recorded(ctx)
	if err != nil {
		return nil, err
	}
	return r.whole.Tape(), nil
}

func stdoutTape[W recorder](ctx context.Context, w W) (*fsys.Tape, error) {
	return aloneTape(ctx, w, stdout)
}

func stderrTape[W recorder](ctx context.Context, w W) (*fsys.Tape, error) {
	return aloneTape(ctx, w, stderr)
}

func aloneTape(ctx context.Context, w recorder, fd int) (*fsys.Tape, error) {
	r, err := w.recorded(ctx)
	if err != nil {
		return nil, err
	}
	return r.alone[fd], nil
}

func (w *session) request(ctx context.Context) ([]byte, error) { return w.s.ledger.Request(ctx, w) }

func text(n int64) string { return strconv.FormatInt(n, 10) }
