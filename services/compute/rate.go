package compute

import (
	"context"
	"fmt"
	"time"

	"agent9/fsys"
	"agent9/providers/models"
	"agent9/store"
)

// rateKey is where the paces are, if there is a limit to one.
const rateKey = "rate"

// rates bound what is asked for in any minute; 0 is no bound.
type rates struct{ requests, tokens int64 }

// paces are what was asked for in the last minute. They are counted in the
// transactions that record jobs, so a restart forgets nothing.
type paces struct {
	Requests pace `json:"requests,omitempty"`
	Tokens   pace `json:"tokens,omitempty"`
}

// A pace counts by the second, oldest first.
type pace []second

type second struct {
	At int64 `json:"at"` // Unix time
	N  int64 `json:"n"`
}

// perMinute is how many seconds of a pace count: those that began less than a
// minute ago, and the one before them, as part of it did not end before.
const perMinute = 61

// at forgets what is no longer in the minute before now. A clock that was set
// back makes what was later happen now.
func (p pace) at(now time.Time) pace {
	var kept pace
	for _, s := range p {
		if s.At > now.Unix()-perMinute {
			kept = kept.add(min(s.At, now.Unix()), s.N)
		}
	}
	return kept
}

// add counts n more in the second at, which is none before the last.
func (p pace) add(at, n int64) pace {
	if last := len(p) - 1; last >= 0 && p[last].At == at {
		p[last].N += n
		return p
	}
	return append(p, second{at, n})
}

// room is an error if there were limit or more in the minute before now.
func (p pace) room(now time.Time, limit int64, what string) error {
	var sum int64
	for _, s := range p {
		sum += s.N
	}
	if limit == 0 || sum < limit {
		return nil
	}
	for _, s := range p {
		if sum -= s.N; sum < limit {
			wait := time.Unix(s.At+perMinute, 0).Sub(now)
			return fsys.E(fsys.Busy, fmt.Sprintf("the policy allows %d %s a minute; wait %d s", limit, what, (wait+time.Second-1)/time.Second))
		}
	}
	return fsys.E(fsys.Busy, fmt.Sprintf("the policy allows no %s", what))
}

// pacesAt reads the paces as they are now.
func (s *Service) pacesAt(ctx context.Context, st store.Store, now time.Time) (paces, error) {
	p, err := store.GetJSON[paces](ctx, st, rateKey)
	if missing(err) {
		err = nil
	}
	return paces{p.Requests.at(now), p.Tokens.at(now)}, err
}

// ready refuses with Busy, and how long to wait, what is faster than r.
func (s *Service) ready(ctx context.Context, st store.Store, r rates) (paces, error) {
	now := s.config.Now()
	p, err := s.pacesAt(ctx, st, now)
	if err != nil {
		return p, err
	}
	if err := p.Requests.room(now, r.requests, "requests"); err != nil {
		return p, err
	}
	return p, p.Tokens.room(now, r.tokens, "tokens")
}

// pace counts a request in the transaction that records its job, or refuses
// it. It returns how many tokens were counted: those of the request, as the
// others are not known yet.
func (s *Service) pace(ctx context.Context, tx store.Store, r rates, req models.Request) (tokens int64, err error) {
	if r == (rates{}) {
		return 0, nil
	}
	p, err := s.ready(ctx, tx, r)
	if err != nil {
		return 0, err
	}
	now := s.config.Now().Unix()
	p.Requests = p.Requests.add(now, 1)
	if r.tokens > 0 {
		tokens = models.Estimate(req, 0).Input
		p.Tokens = p.Tokens.add(now, tokens)
	}
	return tokens, store.PutJSON(ctx, tx, rateKey, p)
}

// paceEnd counts the tokens of r, which has ended, that were not counted when
// it was submitted.
func (s *Service) paceEnd(ctx context.Context, tx store.Store, r *record) error {
	s.mu.Lock()
	limited := s.rates.tokens > 0
	s.mu.Unlock()
	more := r.tokens() - r.Counted
	if !limited || more <= 0 {
		return nil
	}
	now := s.config.Now()
	p, err := s.pacesAt(ctx, tx, now)
	if err != nil {
		return err
	}
	p.Tokens = p.Tokens.add(now.Unix(), more)
	return store.PutJSON(ctx, tx, rateKey, p)
}

// tokens is what all attempts of r, which has ended, have used.
func (r *record) tokens() int64 {
	if len(r.Attempts) == 0 {
		return r.Usage.Input + r.Usage.Output
	}
	var sum int64
	for _, a := range r.Attempts {
		sum += a.Usage.Input + a.Usage.Output
	}
	return sum
}
