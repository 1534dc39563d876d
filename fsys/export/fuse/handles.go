//go:build (linux && !386 && !arm && !mips && !mipsle) || darwin || freebsd

package fuse

import "sync"

// handles are what the kernel has open, by the number that it was given.
type handles[H any] struct {
	mu   sync.Mutex
	open map[uint64]H
	last uint64
}

func (t *handles[H]) add(h H) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open = map[uint64]H{}
	}
	t.last++
	t.open[t.last] = h
	return t.last
}

func (t *handles[H]) get(fh uint64) (H, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h, ok := t.open[fh]
	return h, ok
}

func (t *handles[H]) remove(fh uint64) (H, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h, ok := t.open[fh]
	delete(t.open, fh)
	return h, ok
}

// drain removes and returns them all.
func (t *handles[H]) drain() map[uint64]H {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.open
	t.open = nil
	return all
}
