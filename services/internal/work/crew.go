package work

import (
	"context"
	"slices"
	"sync"

	"agent9/fsys"
)

// A Crew does work in goroutines: so many pieces at once, and as many more wait
// in the order in which they came. What it begins it also waits for.
type Crew[T any] struct {
	// Life ends what may begin.
	Life context.Context
	// Do does one piece of work and records its end.
	Do func(*T)
	// What the work is called in reasons, such as jobs.
	What string

	mu        sync.Mutex
	most      int // at once
	waiting   int // at most
	recording int // pieces that are being recorded
	claimed   int // those of them that are for the queue
	running   int // pieces that have a goroutine, or are recorded as having one
	queue     []*T
	ending    int           // goroutines that will record something
	quiet     chan struct{} // closed when nothing is recording or ending
}

// Limit sets how many pieces are done at once, and how many more may wait.
func (c *Crew[T]) Limit(most, waiting int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.most, c.waiting = most, waiting
	c.dispatch()
}

// Limits returns what Limit set.
func (c *Crew[T]) Limits() (most, waiting int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most, c.waiting
}

// Recording returns how many pieces are being recorded.
func (c *Crew[T]) Recording() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.recording
}

// Full says why no further work is taken, or nil.
func (c *Crew[T]) Full() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.full()
}

func (c *Crew[T]) full() error {
	switch {
	case c.Life.Err() != nil:
		return fsys.E(fsys.Unavailable, "the daemon is shutting down")
	case len(c.queue)+c.claimed+c.running >= c.most+c.waiting:
		return fsys.E(fsys.Busy, "too many "+c.What+" are waiting; try again when some have ended")
	}
	return nil
}

// Claim takes room for one more piece, which is going to be recorded, and says
// whether it may be done now. Launch or Unclaim follows.
func (c *Crew[T]) Claim() (now bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.full(); err != nil {
		return false, err
	}
	c.recording++
	if len(c.queue) == 0 && c.claimed == 0 && c.running < c.most {
		c.running++
		return true, nil
	}
	c.claimed++
	return false, nil
}

// Unclaim gives the room back.
func (c *Crew[T]) Unclaim(now bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recording--
	if now {
		c.running--
	} else {
		c.claimed--
	}
	c.dispatch()
	c.settled()
}

// Launch starts or queues w, which has been recorded in the room of a Claim.
func (c *Crew[T]) Launch(w *T, now bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recording--
	if now {
		c.work(w)
		return
	}
	c.claimed--
	c.queue = append(c.queue, w)
	c.dispatch()
	c.settled()
}

// Enqueue queues w, for which nobody claimed room, after change.
func (c *Crew[T]) Enqueue(w *T, change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	c.queue = append(c.queue, w)
	c.dispatch()
}

// Withdraw takes w out of the queue and calls end, which records that; false if
// it was not there.
func (c *Crew[T]) Withdraw(w *T, cancel func(), end func() error) (bool, error) {
	c.mu.Lock()
	i := slices.Index(c.queue, w)
	if i >= 0 {
		c.queue = slices.Delete(c.queue, i, i+1)
		c.ending++
	}
	c.mu.Unlock()
	cancel()
	if i < 0 {
		return false, nil
	}
	err := end()
	c.done()
	return true, err
}

// Behind runs f in a goroutine that Wait waits for.
func (c *Crew[T]) Behind(f func()) {
	c.mu.Lock()
	c.ending++
	c.mu.Unlock()
	go func() {
		defer c.done()
		f()
	}()
}

func (c *Crew[T]) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ending--
	c.settled()
}

// dispatch starts what may be done, oldest first, with mu held.
func (c *Crew[T]) dispatch() {
	for len(c.queue) > 0 && c.running < c.most && c.Life.Err() == nil {
		w := c.queue[0]
		c.queue[0] = nil
		c.queue = c.queue[1:]
		c.running++
		c.work(w)
	}
}

// work gives w a goroutine, with mu held.
func (c *Crew[T]) work(w *T) {
	c.ending++
	go func() {
		c.Do(w)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.running--
		c.ending--
		c.dispatch()
		c.settled()
	}()
}

// settled wakes Wait if that is all, with mu held.
func (c *Crew[T]) settled() {
	if c.recording == 0 && c.ending == 0 && c.quiet != nil {
		close(c.quiet)
		c.quiet = nil
	}
}

// Wait waits until nothing runs and every end is recorded. If ctx ends before
// that, it fails with late.
func (c *Crew[T]) Wait(ctx context.Context, late error) error {
	for {
		c.mu.Lock()
		if c.recording == 0 && c.ending == 0 {
			c.mu.Unlock()
			return nil
		}
		if c.quiet == nil {
			c.quiet = make(chan struct{})
		}
		quiet := c.quiet
		c.mu.Unlock()
		select {
		case <-quiet:
		case <-ctx.Done():
			return late
		}
	}
}
