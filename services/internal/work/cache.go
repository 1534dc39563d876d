package work

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"weak"

	"agent9/fsys"
	"agent9/store"
)

// A Cache has the work that is in memory, so that there is one of a number at
// any time: what has not ended, and what has as long as somebody looks at it.
// The zero Cache is empty.
type Cache[T any] struct {
	mu      sync.Mutex
	live    map[int64]*T              // not ended
	known   map[int64]weak.Pointer[T] // in memory for whoever looks at them
	removed uint64                    // counts removals
}

// Enter keeps work n, which has not ended, until [Cache.Leave]. It is called
// just before its record can be read.
func (c *Cache[T]) Enter(n int64, w *T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live == nil {
		c.live = make(map[int64]*T)
	}
	c.live[n] = w
	c.remember(n, w)
}

// Undo forgets w, which was entered and not recorded; w may be nil.
func (c *Cache[T]) Undo(n int64, w *T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w != nil && c.live[n] == w {
		delete(c.live, n)
		delete(c.known, n)
	}
}

// Leave says that work n has ended.
func (c *Cache[T]) Leave(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.live, n)
}

// Remove says that work n is no longer there, and returns it if it was in
// memory, else nil.
func (c *Cache[T]) Remove(n int64) *T {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.known[n].Value()
	c.removed++
	delete(c.live, n)
	delete(c.known, n)
	return w
}

// Known returns work n if it is in memory, else nil.
func (c *Cache[T]) Known(n int64) *T {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.get(n)
}

// Live returns work n if it has not ended, else nil.
func (c *Cache[T]) Live(n int64) *T {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.live[n]
}

// AllLive returns what has not ended, by number.
func (c *Cache[T]) AllLive() []*T {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*T, 0, len(c.live))
	for _, n := range slices.Sorted(maps.Keys(c.live)) {
		all = append(all, c.live[n])
	}
	return all
}

// Len returns how much has not ended.
func (c *Cache[T]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.live)
}

func (c *Cache[T]) get(n int64) *T {
	if w := c.live[n]; w != nil {
		return w
	}
	return c.known[n].Value()
}

// maxStale is how often in a row a record may be out of date before it is taken
// to be wrong.
const maxStale = 100

// Get returns work n. If it is not in memory, load reads it: ended is false if
// what it read has not ended, and is therefore out of date.
func (c *Cache[T]) Get(ctx context.Context, n int64, load func() (w *T, ended bool, err error)) (*T, error) {
	for stale := 0; ctx.Err() == nil; {
		c.mu.Lock()
		w, removed := c.get(n), c.removed
		c.mu.Unlock()
		if w != nil {
			return w, nil
		}
		w, ended, err := load()
		if err != nil {
			return nil, err
		}
		if !ended {
			// It has ended since, or began just now: the next look shows which.
			if stale++; stale == maxStale {
				return nil, &fsys.Error{Code: fsys.Internal, Err: store.ErrDamaged, Reason: fmt.Sprintf("the record of %d says that it has not ended, but nothing runs of it", n)}
			}
			continue
		}
		if w, ok := c.know(n, w, removed); ok {
			return w, nil
		}
	}
	return nil, context.Cause(ctx)
}

// know makes w known, which was read when so much had been removed. It fails
// if it may be out of date by now.
func (c *Cache[T]) know(n int64, w *T, removed uint64) (*T, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.removed != removed || c.live[n] != nil {
		return nil, false
	}
	if other := c.known[n].Value(); other != nil {
		return other, true
	}
	c.remember(n, w)
	return w, true
}

// remember enters w among what is in memory, with mu held.
func (c *Cache[T]) remember(n int64, w *T) {
	if c.known == nil {
		c.known = make(map[int64]weak.Pointer[T])
	}
	c.known[n] = weak.Make(w)
	runtime.AddCleanup(w, c.forget, n)
}

func (c *Cache[T]) forget(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[n].Value() == nil {
		delete(c.known, n)
	}
}
