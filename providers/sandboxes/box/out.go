//go:build unix

package box

import (
	"bytes"
	"context"
	"io"
	"sync"

	"agent9/fsys"
	"agent9/providers/sandboxes"
)

// maxUnread is how much of a command's output waits for the reader, before
// the command does.
const maxUnread = 128 << 10

// output is what a command writes, on its way to the one reader.
type output struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	read  int64 // what was given out
	ended bool
	moved chan struct{} // closed and made anew when any of these changes
}

func newOutput() *output { return &output{moved: make(chan struct{})} }

// change does f with the lock held and wakes the waiters.
func (o *output) change(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
	close(o.moved)
	o.moved = make(chan struct{})
}

// write adds what was written to fd, when there is room. ended drops it.
func (o *output) write(fd int, p []byte) {
	for len(p) > 0 {
		part := p[:min(len(p), sandboxes.MaxFrame)]
		o.mu.Lock()
		full, moved := o.buf.Len() >= maxUnread, o.moved
		if o.ended {
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()
		if full {
			<-moved
			continue
		}
		o.change(func() { o.buf.Write(sandboxes.AppendFrame(o.buf.AvailableBuffer(), fd, part)) })
		p = p[len(part):]
	}
}

// end says that nothing more will come; abandon, also that nobody reads.
func (o *output) end() { o.change(func() { o.ended = true }) }

func (o *output) abandon() {
	o.change(func() {
		o.ended = true
		o.buf.Reset()
	})
}

func (o *output) Stat(context.Context) (fsys.Info, error) {
	return fsys.Info{Kind: fsys.Stream, Perm: 0o444}, nil
}

func (o *output) Open(_ context.Context, flag fsys.Flag) (fsys.Handle, error) {
	if flag != fsys.Read {
		return nil, fsys.E(fsys.Permission, "output is read-only")
	}
	return outputHandle{o}, nil
}

type outputHandle struct{ *output }

func (h outputHandle) Close() error { return nil }

func (h outputHandle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	for {
		n, moved, err := h.take(p, off)
		if n > 0 || err != nil {
			return n, err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

func (o *output) take(p []byte, off int64) (n int, moved <-chan struct{}, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case off != o.read:
		return 0, nil, fsys.E(fsys.Invalid, "output is read once, from its beginning on")
	case o.buf.Len() == 0 && o.ended:
		return 0, nil, io.EOF
	case o.buf.Len() == 0:
		return 0, o.moved, nil
	}
	n, _ = o.buf.Read(p)
	o.read += int64(n)
	close(o.moved)
	o.moved = make(chan struct{})
	return n, nil, nil
}
