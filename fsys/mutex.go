package fsys

import (
	"context"
	"sync"
)

// A Mutex is a mutual exclusion lock that is waited for no longer than a context
// lasts: what it guards may be held across a request that takes long. The zero
// value is unlocked.
type Mutex struct {
	once sync.Once
	held chan struct{} // full while it is locked
}

func (m *Mutex) init() { m.once.Do(func() { m.held = make(chan struct{}, 1) }) }

// TryLock locks m if it is unlocked, and reports whether it did.
func (m *Mutex) TryLock() bool {
	m.init()
	select {
	case m.held <- struct{}{}:
		return true
	default:
		return false
	}
}

// Lock locks m. If m is locked it waits until ctx ends, and returns the cause of
// that; if m is unlocked it locks it even if ctx has ended.
func (m *Mutex) Lock(ctx context.Context) error {
	if m.TryLock() {
		return nil
	}
	select {
	case m.held <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Unlock unlocks m, which is locked.
func (m *Mutex) Unlock() { <-m.held }
