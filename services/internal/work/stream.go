package work

import (
	"context"
	"io"
	"runtime"
	"sync"

	"agent9/fsys"
)

// Stream is a stream of w that tape opens when somebody looks at it. Who reads
// it keeps w in memory, so that there are no second logs on what is read.
func Stream[W any](w W, tape func(context.Context, W) (*fsys.Tape, error)) fsys.Node {
	return stream[W]{w, tape}
}

type stream[W any] struct {
	w    W
	tape func(context.Context, W) (*fsys.Tape, error)
}

func (s stream[W]) Stat(ctx context.Context) (fsys.Info, error) {
	t, err := s.tape(ctx, s.w)
	if err != nil {
		return fsys.Info{}, err
	}
	return t.Stat(ctx)
}

func (s stream[W]) Open(ctx context.Context, flag fsys.Flag) (fsys.Handle, error) {
	t, err := s.tape(ctx, s.w)
	if err != nil {
		return nil, err
	}
	h, err := t.Open(ctx, flag)
	if err != nil {
		return nil, err
	}
	return streamHandle[W]{h, s.w}, nil
}

type streamHandle[W any] struct {
	h fsys.Handle
	w W
}

func (h streamHandle[W]) Close() error { return h.h.Close() }

func (h streamHandle[W]) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	defer runtime.KeepAlive(h.w)
	return fsys.ReadAt(ctx, h.h, p, off)
}

func (h streamHandle[W]) Await(off int64, ready func()) (stop func()) {
	return fsys.Await(h.h, off, ready)
}

// A Result is what there is when work has ended: a stream of length 0 until
// then, reads of which wait for that.
type Result struct {
	// Done is closed when the work has ended.
	Done <-chan struct{}
	// Size is the length of what Load returns, once the work has ended.
	Size func(ctx context.Context) (int64, error)
	// Load returns the result of work that has ended.
	Load func(ctx context.Context) ([]byte, error)
}

func (r *Result) Stat(ctx context.Context) (fsys.Info, error) {
	info := fsys.Info{Kind: fsys.Stream, Perm: 0o444}
	select {
	case <-r.Done:
	default:
		return info, nil
	}
	var err error
	info.Ended = true
	info.Size, err = r.Size(ctx)
	return info, err
}

func (r *Result) Open(_ context.Context, flag fsys.Flag) (fsys.Handle, error) {
	if flag != fsys.Read {
		return nil, fsys.E(fsys.Permission, "a result is read-only")
	}
	return &resultHandle{r: r}, nil
}

type resultHandle struct {
	r    *Result
	mu   sync.Mutex
	text []byte // read once, when it is first wanted
}

func (h *resultHandle) Close() error { return nil }

func (h *resultHandle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	select {
	case <-h.r.Done: // first, as what is there is also for who cannot wait
	default:
		select {
		case <-h.r.Done:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
	text, err := h.load(context.WithoutCancel(ctx))
	switch {
	case err != nil:
		return 0, err
	case off < 0:
		return 0, fsys.E(fsys.Invalid, "a negative offset")
	case off >= int64(len(text)):
		return 0, io.EOF
	}
	return copy(p, text[off:]), nil
}

func (h *resultHandle) load(ctx context.Context) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.text != nil {
		return h.text, nil
	}
	text, err := h.r.Load(ctx)
	if err == nil {
		h.text = text
	}
	return text, err
}
