package inbox

import (
	"context"
	"errors"
	"io"
	"sync"

	"agent9/fsys"
	"agent9/store"
)

// source is next and head: where messages come out.
type source struct {
	in   *Inbox
	take bool
}

func (t *source) Stat(context.Context) (fsys.Info, error) {
	return fsys.Info{Kind: fsys.Stream, Perm: 0o444, Acts: t.take}, nil
}

// Takes reports whether a read is a change: that of head is not.
func (t *source) Takes() bool { return t.take }

func (t *source) Open(_ context.Context, f fsys.Flag) (fsys.Handle, error) {
	if f != fsys.Read {
		return nil, fsys.E(fsys.Permission, "this file is read-only")
	}
	if t.take {
		if err := t.in.mayTake(); err != nil {
			return nil, err
		}
	}
	return &sourceHandle{source: t}, nil
}

// sourceHandle is an open source: it gets one message.
type sourceHandle struct {
	source *source
	turn   fsys.Mutex // held by the read that waits for the message

	mu       sync.Mutex
	got      *given // nil until the first read has it
	read     int64  // how many bytes from its beginning were returned
	settling bool   // an acknowledgement is under way
	gone     bool   // it was acknowledged
	closed   bool
}

// given is a message that a handle has got from the inbox.
type given struct {
	id    string
	place uint64
	line  []byte
}

var (
	_ fsys.Reader = (*sourceHandle)(nil)
	_ fsys.Syncer = (*sourceHandle)(nil)
)

// ReadAt waits for the message if this handle has none yet; what is here
// already, or in head, is returned also when ctx is done. A read of next whose ctx is done when the
// message comes returns nothing of it.
func (h *sourceHandle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fsys.E(fsys.Invalid, "a negative offset")
	}
	if !h.full() {
		if err := h.fill(ctx); err != nil {
			return 0, err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return 0, fsys.BadHandle
	case h.gone, off >= int64(len(h.got.line)):
		return 0, io.EOF
	}
	n := copy(p, h.got.line[off:])
	if off <= h.read {
		h.read = max(h.read, off+int64(n))
	}
	return n, nil
}

// full reports whether there is nothing to wait for.
func (h *sourceHandle) full() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.got != nil || h.closed
}

// fill gets the message, once.
func (h *sourceHandle) fill(ctx context.Context) error {
	if ctx.Err() != nil {
		return h.peek(ctx)
	}
	if err := h.turn.Lock(ctx); err != nil {
		return err
	}
	defer h.turn.Unlock()
	if h.full() {
		return nil
	}
	d, err := h.source.in.draw(ctx, h.source.take)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.got = d
	if h.closed {
		h.putBack()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// peek is fill for who cannot wait: of head, what is there is read all the same.
func (h *sourceHandle) peek(ctx context.Context) error {
	if h.source.take {
		return context.Cause(ctx)
	}
	d, err := h.source.in.oldest(context.WithoutCancel(ctx), false)
	if err != nil {
		return err
	}
	if d == nil {
		return context.Cause(ctx)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.got == nil {
		h.got = d
	}
	return nil
}

// putBack is called once, with mu held, when the handle is closed and the
// message was not acknowledged.
func (h *sourceHandle) putBack() {
	if h.source.take && h.got != nil && !h.gone {
		h.source.in.release(h.got.place)
	}
}

// Sync acknowledges the message if all of it was read; before that it does
// nothing, as a shell syncs whenever it closes a copy of a descriptor.
func (h *sourceHandle) Sync(ctx context.Context) error {
	h.mu.Lock()
	d := h.got
	if !h.source.take || d == nil || h.read < int64(len(d.line)) || h.settling || h.gone || h.closed {
		h.mu.Unlock()
		return nil
	}
	h.settling = true
	h.mu.Unlock()
	err := h.source.in.acknowledge(ctx, d.id, d.place)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.settling = false
	if h.gone = err == nil; h.gone {
		h.source.in.release(d.place)
	} else if h.closed {
		h.putBack()
	}
	return err
}

func (h *sourceHandle) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed && !h.settling {
		h.putBack()
	}
	h.closed = true
	return nil
}

// draw waits for the oldest message that is not taken. Who takes waits for a
// turn first: a channel serves those who wait to send in the order in which
// they came.
func (in *Inbox) draw(ctx context.Context, take bool) (*given, error) {
	if take {
		select {
		case in.turn <- struct{}{}:
			defer func() { <-in.turn }()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	for {
		grown := in.growth() // before looking, so that nothing comes unseen
		if in.isEnded() {
			return nil, fsys.NotExist
		}
		if take {
			if err := in.mayTake(); err != nil {
				return nil, err
			}
		}
		if d, err := in.oldest(ctx, take); d != nil || err != nil {
			return d, err
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// oldest returns the oldest message that is not taken, or nil.
func (in *Inbox) oldest(ctx context.Context, take bool) (*given, error) {
	for d, err := range waiting.all(ctx, in.st) {
		if err != nil {
			return nil, err
		}
		if !in.claim(d.place, take) {
			continue
		}
		d.line, err = in.line(ctx, d.id, d.place)
		if err == nil {
			return &d, nil
		}
		if take {
			in.release(d.place)
		}
		// Else it went since the list was read, or is passed over.
		if !errors.Is(err, fsys.NotExist) && !store.IsDamaged(err) {
			return nil, err
		}
	}
	return nil, nil
}

// claim reports whether a message is not taken, and takes it if take is set.
func (in *Inbox) claim(place uint64, take bool) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.taken[place] {
		return false
	}
	if take {
		if in.taken == nil {
			in.taken = make(map[uint64]bool)
		}
		in.taken[place] = true
	}
	return true
}

func (in *Inbox) isTaken(place uint64) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.taken[place]
}

// release ends a claim: the message is gone, or back for whoever waits.
func (in *Inbox) release(place uint64) {
	in.mu.Lock()
	delete(in.taken, place)
	in.mu.Unlock()
	in.wake()
}

// End says that the inbox is no more: who waits for a message is told so.
func (in *Inbox) End() {
	in.mu.Lock()
	in.ended = true
	in.mu.Unlock()
	in.wake()
}

func (in *Inbox) isEnded() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.ended
}

func (in *Inbox) growth() <-chan struct{} {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.grown == nil {
		in.grown = make(chan struct{})
	}
	return in.grown
}

func (in *Inbox) wake() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.grown != nil {
		close(in.grown)
		in.grown = nil
	}
}
