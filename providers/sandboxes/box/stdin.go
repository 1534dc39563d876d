//go:build unix

package box

import (
	"context"
	"os"
	"sync"

	"agent9/fsys"
)

// input is run/<n>/stdin: it is opened once, and its close is the command's end
// of file.
type input struct {
	started <-chan struct{} // closed when it is known what to write to
	turn    fsys.Mutex      // held during a write

	mu   sync.Mutex
	file *os.File // nil: nobody reads
	tty  bool
	open bool
}

func newInput(started <-chan struct{}) *input {
	return &input{started: started}
}

// connect is called before started is closed.
func (in *input) connect(f *os.File, tty bool) { in.file, in.tty = f, tty }

func (in *input) Stat(context.Context) (fsys.Info, error) {
	return fsys.Info{Kind: fsys.Message, Perm: 0o222}, nil
}

func (in *input) Truncate(context.Context, int64) error { return nil }

func (in *input) Open(_ context.Context, flag fsys.Flag) (fsys.Handle, error) {
	if flag&fsys.Read != 0 {
		return nil, fsys.E(fsys.Permission, "input can only be written")
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.open {
		return nil, fsys.E(fsys.Busy, "somebody writes already, or has")
	}
	in.open = true
	return &inputHandle{in: in}, nil
}

type inputHandle struct {
	in   *input
	once sync.Once
}

func (h *inputHandle) WriteAt(ctx context.Context, p []byte, _ int64) (int, error) {
	in := h.in
	if err := in.turn.Lock(ctx); err != nil {
		return 0, err
	}
	defer in.turn.Unlock()
	select {
	case <-in.started:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	if in.file == nil {
		return 0, fsys.E(fsys.Busy, "nothing reads it")
	}
	n, err := bounded(ctx, in.file.SetWriteDeadline, func() (int, error) { return in.file.Write(p) })
	return n, fsys.Wrap(fsys.Unavailable, "the command reads no more", err)
}

func (h *inputHandle) Close() error {
	h.once.Do(func() {
		go func() { // ends with the command's beginning
			<-h.in.started
			h.in.end()
		}()
	})
	return nil
}
