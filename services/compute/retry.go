package compute

import (
	"context"
	"fmt"
	"time"

	"agent9/fsys"
	"agent9/providers/models"
)

// retry is what of a policy bounds the attempts of a job.
type retry struct {
	attempts int           // in all
	wait     time.Duration // the longest before one of them
}

func (p *Policy) retry() retry {
	return retry{p.MaxAttempts, time.Duration(p.MaxRetryWait) * time.Millisecond}
}

// How long a job waits before it asks somebody again whom it has asked.
const (
	backoffFirst = 500 * time.Millisecond
	backoffMost  = 30 * time.Second
)

// A turn says how often each candidate of a chain was asked.
type turn struct {
	chain []candidate
	asked []int
	out   []bool // is not asked again
	total int
}

func newTurn(chain []candidate) *turn {
	return &turn{chain: chain, asked: make([]int, len(chain)), out: make([]bool, len(chain))}
}

// next returns who is to be asked now: of those who were asked least often the
// first that is ready, else the first at all. ok is false if there is nobody.
// Who is not ready is asked all the same when nobody else is there.
func (t *turn) next() (i int, ok bool) {
	first := -1
	for i := range t.chain {
		if !t.out[i] && (first < 0 || t.asked[i] < t.asked[first]) {
			first = i
		}
	}
	if first < 0 {
		return 0, false
	}
	for i, c := range t.chain {
		if !t.out[i] && t.asked[i] == t.asked[first] && c.runner.Wait() == 0 && c.runner.Ready() {
			return i, true
		}
	}
	return first, true
}

// pause is how long to wait before candidate i is asked.
func (t *turn) pause(i int) time.Duration {
	wait := t.chain[i].runner.Wait()
	if n := t.asked[i]; n > 0 {
		wait = max(wait, models.Backoff(backoffFirst, backoffMost, n))
	}
	return wait
}

// take returns who is asked next, and how long to wait before that: no longer
// than the policy and ctx allow. With nobody left it returns nil, and who
// wanted to be left alone for too long, if that is why.
func (t *turn) take(ctx context.Context, r retry) (c *candidate, pause time.Duration, err error) {
	for t.total < r.attempts {
		i, ok := t.next()
		if !ok {
			break
		}
		c, pause := &t.chain[i], t.pause(i)
		deadline, bounded := ctx.Deadline()
		if pause > r.wait || bounded && pause >= time.Until(deadline) {
			t.out[i] = true
			err = fsys.E(fsys.Busy, fmt.Sprintf("the provider %s wants to be left alone for another %v", c.runner.ID(), pause.Round(time.Second)))
			continue
		}
		t.asked[i]++
		t.total++
		return c, pause, nil
	}
	return nil, 0, err
}

// drop says who is not asked again.
func (t *turn) drop(who func(*candidate) bool) {
	for i := range t.chain {
		t.out[i] = t.out[i] || who(&t.chain[i])
	}
}

// sleep reports whether d passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
