package fsys

import (
	"context"
	"io"
	"sync"
)

// Bytes is append-only data that a [Tape] plays: what is below Size never
// changes.
type Bytes interface {
	// Size returns how many bytes there are.
	Size() int64
	// ReadAt reads up to len(p) bytes at off, which is below Size. A short
	// read is not an end.
	ReadAt(p []byte, off int64) (int, error)
}

// A Tape is a Stream file: readers wait at the end of append-only data until
// there is more or the stream has ended. Any number of readers each see all
// of it, from any offset; a slow reader delays nobody.
type Tape struct {
	data Bytes

	mu     sync.Mutex
	grown  chan struct{} // made by a reader that waits, closed by Grown and End
	asleep *waiting      // the first of those that Await left
	ended  bool
}

// waiting is a reader that is called when there is something behind off. The
// tape's mu guards it.
type waiting struct {
	tape       *Tape
	off        int64
	ready      func()
	prev, next *waiting
	over       bool // it is not among the tape's any more
}

// NewTape returns a stream of data. The writer of data calls Grown after each write.
func NewTape(data Bytes) *Tape { return &Tape{data: data} }

// Grown wakes the readers that wait at the end.
func (t *Tape) Grown() { t.wake(false) }

// End says that nothing more will come: readers get the rest, then the end.
func (t *Tape) End() { t.wake(true) }

func (t *Tape) wake(end bool) {
	for w := t.woken(end); w != nil; w = w.next {
		w.ready()
	}
}

// woken wakes those that wait in a goroutine, and returns a list of the others
// whose wait is over.
func (t *Tape) woken(end bool) (list *waiting) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = t.ended || end
	if t.grown != nil {
		close(t.grown)
		t.grown = nil
	}
	if t.asleep == nil {
		return nil
	}
	size := t.data.Size()
	for w := t.asleep; w != nil; {
		next := w.next
		if w.off < size || t.ended {
			t.remove(w)
			w.next, list = list, w
		}
		w = next
	}
	return list
}

// remove takes w out of those that are asleep.
func (t *Tape) remove(w *waiting) {
	if w.over = true; w.prev != nil {
		w.prev.next = w.next
	} else {
		t.asleep = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
}

func (w *waiting) stop() {
	w.tape.mu.Lock()
	defer w.tape.mu.Unlock()
	if !w.over {
		w.tape.remove(w)
	}
}

// Wait blocks until the stream is longer than off or has ended, and reports
// how long it then is.
func (t *Tape) Wait(ctx context.Context, off int64) (size int64, ended bool, err error) {
	for {
		// Size is read under the lock, so that a Grown that comes after it
		// finds the channel made here.
		t.mu.Lock()
		size, ended = t.data.Size(), t.ended
		if off < size || ended {
			t.mu.Unlock()
			return size, ended, nil
		}
		if t.grown == nil {
			t.grown = make(chan struct{})
		}
		grown := t.grown
		t.mu.Unlock()
		select {
		case <-grown:
		case <-ctx.Done():
			return size, false, context.Cause(ctx)
		}
	}
}

func (t *Tape) Stat(context.Context) (Info, error) {
	t.mu.Lock()
	ended := t.ended // before its size, which then is the last
	t.mu.Unlock()
	return Info{Kind: Stream, Perm: 0o444, Size: t.data.Size(), Ended: ended}, nil
}

func (t *Tape) Open(_ context.Context, f Flag) (Handle, error) { return t.open(f, 0) }

func (t *Tape) open(f Flag, from int64) (Handle, error) {
	if f != Read {
		return nil, E(Permission, "a stream is read-only")
	}
	return &tapeHandle{t, from}, nil
}

type tapeHandle struct {
	tape *Tape
	from int64 // where offset 0 of this handle is
}

func (h *tapeHandle) Close() error { return nil }

func (h *tapeHandle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, E(Invalid, "a negative offset")
	}
	off += h.from
	size, _, err := h.tape.Wait(ctx, off)
	if err != nil {
		return 0, err
	}
	if off >= size {
		return 0, io.EOF
	}
	return h.tape.data.ReadAt(p[:min(int64(len(p)), size-off)], off)
}

func (h *tapeHandle) Await(off int64, ready func()) (stop func()) {
	t := h.tape
	off += h.from
	t.mu.Lock()
	defer t.mu.Unlock()
	if off < t.data.Size() || t.ended {
		return nil
	}
	w := &waiting{tape: t, off: off, ready: ready, next: t.asleep}
	if t.asleep != nil {
		t.asleep.prev = w
	}
	t.asleep = w
	return w.stop
}

// Live returns a Stream of the same data whose every open begins at what is
// the end then.
func (t *Tape) Live() Node { return live{t} }

type live struct{ tape *Tape }

func (l live) Stat(context.Context) (Info, error) {
	return Info{Kind: Stream, Perm: 0o444}, nil
}

func (l live) Open(_ context.Context, f Flag) (Handle, error) {
	return l.tape.open(f, l.tape.data.Size())
}

// Memory is append-only data in memory. The zero value is empty.
type Memory struct {
	mu sync.Mutex
	b  []byte
}

func (m *Memory) Append(p []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.b = append(m.b, p...)
}

func (m *Memory) Size() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int64(len(m.b))
}

func (m *Memory) ReadAt(p []byte, off int64) (int, error) {
	m.mu.Lock()
	b := m.b
	m.mu.Unlock()
	return readBytes(b, p, off)
}
