package models

import (
	"math/rand/v2"
	"sync"
	"time"

	"agent9/fsys"
)

// How long a provider that failed is set aside: the first time, and at most.
const (
	asideFirst = time.Second
	asideMost  = time.Minute
)

// health is how a provider did when it was run.
type health struct {
	mu       sync.Mutex
	failures int
	err      error     // the last failure, if nothing succeeded since
	until    time.Time // set aside until then
	asked    time.Time // wants to be left alone until then
	latency  latencies
}

// A Health is how a provider has been doing.
type Health struct {
	// Failures is how many runs failed since one succeeded.
	Failures int
	// Err is why the last one of these failed.
	Err error
	// Until is when a provider that failed is tried again; zero for one that
	// is not set aside. Others are asked first meanwhile.
	Until time.Time
}

// Health returns how the provider has been doing.
func (r *Runner) Health() Health {
	now := time.Now()
	h := &r.health
	h.mu.Lock()
	defer h.mu.Unlock()
	s := Health{Failures: h.failures, Err: h.err}
	if h.until.After(now) {
		s.Until = h.until
	}
	return s
}

// Wait is how long the provider still wants to be left alone.
func (r *Runner) Wait() time.Duration {
	h := &r.health
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(time.Until(h.asked), 0)
}

// Ready reports whether the provider is not set aside. When its time is over,
// one caller is told so, and tries it; the others only when that went well, or
// nothing was heard of it for as long again.
func (r *Runner) Ready() bool {
	now := time.Now()
	h := &r.health
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.until.After(now):
		return false
	case h.failures > 0:
		h.until = now.Add(Backoff(asideFirst, asideMost, h.failures))
	}
	return true
}

// ran notes how a run went, as far as it says something about the provider.
func (h *health) ran(err error) {
	wait := RetryAfter(err)
	if err != nil && wait == 0 && !Transient(err) {
		return
	}
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		h.failures, h.err, h.until, h.asked = 0, nil, time.Time{}, time.Time{}
		return
	}
	h.failures++
	h.err = err
	aside := max(wait, Backoff(asideFirst, asideMost, h.failures))
	if until := now.Add(aside); until.After(h.until) {
		h.until = until
	}
	if asked := now.Add(wait); wait > 0 && asked.After(h.asked) {
		h.asked = asked
	}
}

// Transient reports whether the same request may go better another time, or
// elsewhere: the provider failed, did not answer in time, or was too busy.
func Transient(err error) bool {
	switch fsys.CodeOf(err) {
	case fsys.Unavailable, fsys.Busy, fsys.Timeout, fsys.Internal:
		return err != nil
	}
	return false
}

// Backoff is how long to wait after failure n, counted from 1: twice as long
// each time, from first to most, less a random part of up to a half, so that
// those who failed together do not come back together.
func Backoff(first, most time.Duration, n int) time.Duration {
	d := most
	if shift := max(n-1, 0); shift < 32 && first<<shift>>shift == first {
		d = min(first<<shift, most)
	}
	return d - rand.N(d/2+1)
}
