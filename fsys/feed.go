package fsys

import (
	"bytes"
	"context"
	"sync"
)

// A Feed is a Stream file of what is published while it is open: each open
// begins with what comes next. Nothing is buffered without a reader, and one that
// does not keep up loses the oldest lines, which it is told: what was lost is
// replaced by one line of JSON, {"event":"lost","bytes":N}.
type Feed struct {
	// Limit is how many bytes wait for one reader; 0 means 1 MiB.
	Limit int

	mu   sync.Mutex
	open map[*feedHandle]struct{}
}

// Publish gives line, which ends in a newline, to every reader. It never
// blocks.
func (f *Feed) Publish(line []byte) {
	limit := f.Limit
	if limit == 0 {
		limit = 1 << 20
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for h := range f.open {
		h.put(line, limit)
	}
}

func (f *Feed) Stat(context.Context) (Info, error) { return Info{Kind: Stream, Perm: 0o444}, nil }

func (f *Feed) Open(_ context.Context, flag Flag) (Handle, error) {
	if flag != Read {
		return nil, E(Permission, "a stream is read-only")
	}
	h := &feedHandle{feed: f, grown: make(chan struct{}, 1)}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		f.open = map[*feedHandle]struct{}{}
	}
	f.open[h] = struct{}{}
	return h, nil
}

type feedHandle struct {
	feed  *Feed
	grown chan struct{} // holds one token while waiting may be empty no longer

	mu      sync.Mutex
	waiting []byte
	lost    int
}

func (h *feedHandle) put(line []byte, limit int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting = append(h.waiting, line...)
	for len(h.waiting) > limit {
		n := bytes.IndexByte(h.waiting, '\n') + 1
		if n == 0 {
			n = len(h.waiting)
		}
		h.lost += n
		h.waiting = h.waiting[n:]
	}
	select {
	case h.grown <- struct{}{}:
	default:
	}
}

func (h *feedHandle) ReadAt(ctx context.Context, p []byte, _ int64) (int, error) {
	for {
		if n := h.take(p); n > 0 || len(p) == 0 {
			return n, nil
		}
		select {
		case <-h.grown:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

func (h *feedHandle) take(p []byte) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost > 0 {
		h.waiting = append(Line(lostLine{"lost", h.lost}), h.waiting...)
		h.lost = 0
	}
	n := copy(p, h.waiting)
	h.waiting = h.waiting[n:]
	if len(h.waiting) == 0 {
		h.waiting = nil
	} else {
		select { // another reader of this handle may wait
		case h.grown <- struct{}{}:
		default:
		}
	}
	return n
}

type lostLine struct {
	Event string `json:"event"`
	Bytes int    `json:"bytes"`
}

func (h *feedHandle) Close() error {
	h.feed.mu.Lock()
	defer h.feed.mu.Unlock()
	delete(h.feed.open, h)
	return nil
}
