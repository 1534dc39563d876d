// Package due calls a function when a time comes that is in a store.
package due

import (
	"context"
	"sync"
	"time"
)

// Recheck is how late a call may be when the clock was set or the machine was
// suspended: a timer of the runtime measures the time that passes while the
// machine runs, and notices neither.
const Recheck = 30 * time.Second

// A Timer calls its function at a time of the clock, and, while it has one, at
// least every [Recheck]: the function finds out itself what is due. It runs once
// at a time, in a goroutine that ends with it.
type Timer struct {
	now  func() time.Time
	call func(ctx context.Context) (next time.Time)

	calls sync.WaitGroup

	mu      sync.Mutex
	ctx     context.Context // of Start; nil: not started, or stopped
	at      time.Time       // zero: none
	timer   *time.Timer     // nil before the first use
	running bool            // a call is running, and the timer goes on when it ends
}

// New returns a timer that has no time yet. call returns the next one, or zero.
func New(now func() time.Time, call func(ctx context.Context) (next time.Time)) *Timer {
	return &Timer{now: now, call: call}
}

// Start lets the timer run until ctx ends, which call is given, or Stop.
func (t *Timer) Start(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ctx = ctx
	t.reset()
}

// Run is Start, and returns when ctx has ended and call does not run.
func (t *Timer) Run(ctx context.Context) {
	t.Start(ctx)
	<-ctx.Done()
	t.Stop()
	t.calls.Wait()
}

// At makes the timer call at the given time, unless it will do so earlier. It
// does not wait for a call, and may be used before Start.
func (t *Timer) At(at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.at.IsZero() || at.Before(t.at) {
		t.at = at
		t.reset()
	}
}

// Stop ends the timer. A call that runs is not waited for.
func (t *Timer) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ctx = nil
	if t.timer != nil {
		t.timer.Stop()
	}
}

// reset is called with mu held.
func (t *Timer) reset() {
	if t.ctx == nil || t.running || t.at.IsZero() {
		return
	}
	wait := min(max(t.at.Sub(t.now()), 0), Recheck)
	if t.timer == nil {
		t.timer = time.AfterFunc(wait, t.fire)
		return
	}
	t.timer.Reset(wait)
}

// begin returns the context for a call, or nil.
func (t *Timer) begin() context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx == nil || t.ctx.Err() != nil || t.running || t.at.IsZero() {
		return nil
	}
	t.running, t.at = true, time.Time{}
	t.calls.Add(1)
	return t.ctx
}

func (t *Timer) fire() {
	ctx := t.begin()
	if ctx == nil {
		return
	}
	defer t.calls.Done()
	next := t.call(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running = false
	if t.at.IsZero() || !next.IsZero() && next.Before(t.at) {
		t.at = next
	}
	t.reset()
}
