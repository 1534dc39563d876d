package store

import (
	"context"

	"agent9/fsys"
)

// Buffer adds p in memory, where readers see it at once. It waits for a Flush
// when more than 64 KiB are held, so that who writes faster than the disk is
// slowed down. What was not flushed is lost when the program dies. An error
// says that p was not added.
func (l *Log) Buffer(p []byte) error {
	if added, err := l.hold(p); added || err != nil {
		return err
	}
	if err := l.Flush(l.ctx); err != nil {
		return err
	}
	if added, err := l.hold(p); added || err != nil {
		return err
	}
	return l.s.Update(l.ctx, func(tx Store) error { return l.Append(tx, p) })
}

// hold buffers p if there is room.
func (l *Log) hold(p []byte) (added bool, err error) {
	l.mu.Lock()
	switch {
	case l.dropping > 0:
		err = fsys.E(fsys.NotExist, "this log has been removed")
	case len(l.waiting)+len(l.later)+len(p) > maxWaiting:
	case l.claimed > 0:
		l.later, added = append(l.later, p...), true
	default:
		l.waiting, added = append(l.waiting, p...), true
	}
	l.mu.Unlock()
	if added {
		l.tape.Grown()
	}
	return added, err
}

// Flush makes durable what was buffered before it.
func (l *Log) Flush(ctx context.Context) error {
	l.mu.Lock()
	held := len(l.waiting) + len(l.later)
	l.mu.Unlock()
	if held == 0 {
		return nil
	}
	return l.s.Update(ctx, func(tx Store) error { return l.Append(tx, nil) })
}
