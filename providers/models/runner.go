package models

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
)

// How many bytes of text one answer may have, and how many its whole response.
// A run that gives more is stopped with TooLarge.
const (
	MaxAnswer = 4 << 20
	MaxResult = 16 << 20
)

// A Runner is a Provider behind the rule that nothing runs unpaid, and all
// that services get. Besides the rule it adds what no driver should have to:
// a panic becomes an error, a missing result is composed, usage that cannot be
// is an estimate, and what the provider has to offer is remembered for a while.
type Runner struct {
	id       string
	provider Provider
	info     Info
	catalog  catalog
	health   health
}

// NewRunner returns the only way to run p. id is its name among providers.
func NewRunner(id string, p Provider) *Runner {
	info := InfoOf(p)
	info.Kinds = slices.Clone(info.Kinds)
	return &Runner{id: id, provider: p, info: info}
}

func (r *Runner) ID() string { return r.id }
func (r *Runner) Info() Info { return r.info }

// Can reports whether the provider can do kind of work.
func (r *Runner) Can(kind Kind) bool { return slices.Contains(r.info.Kinds, kind) }

// Run performs req, paid from hold: see [Provider]. The caller settles hold
// with what the Usage comes to, also when Run fails. The last chunk of a run
// that succeeds has the Result.
func (r *Runner) Run(ctx context.Context, hold *budget.Hold, req Request, emit func(Chunk) error) (usage Usage, err error) {
	if hold == nil {
		return Usage{}, fsys.E(fsys.Permission, "no money was set aside for this")
	}
	if hold.Waits() {
		return Usage{}, fsys.E(fsys.Permission, "this waits for an approval")
	}
	if !r.Can(req.Kind) {
		return Usage{}, fsys.E(fsys.Unsupported, "the provider "+r.id+" cannot do "+string(req.Kind))
	}
	if ctx.Err() != nil {
		return Usage{}, context.Cause(ctx)
	}
	answer := NewAnswer(req)
	begun := time.Now()
	var first time.Duration // until something came
	var mu sync.Mutex
	var unheard error // why emit did not take something
	said := 0         // bytes
	over := false     // a provider that goes on emitting is not heard
	collect := func(c Chunk) error {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return fsys.E(fsys.Internal, "the run is over")
		}
		if err := answer.Add(c); err != nil {
			return err
		}
		if first == 0 && c.Says() {
			first = max(time.Since(begun), 1)
		}
		if said += int(c.Bytes()); c.Usage != nil {
			u := c.Usage.judged(req, said, false)
			c.Usage = &u
		}
		if err := emit(c); err != nil {
			unheard = err
			return err
		}
		return nil
	}
	usage, err = r.run(ctx, req, answer, collect)
	mu.Lock()
	over = true
	usage = usage.judged(req, said, err == nil)
	mu.Unlock()
	if unheard == nil && (err == nil || ctx.Err() == nil) {
		r.catalog.ran(err)
		r.health.ran(err)
	}
	if took := time.Since(begun); err == nil {
		if first == 0 {
			first = took
		}
		r.health.measured(req.Model, first, took)
	}
	if err != nil || answer.whole {
		return usage, err
	}
	if req.Kind != Chat && req.Kind != Complete {
		return usage, fsys.E(fsys.Unavailable, "the provider "+r.id+" gave no result")
	}
	result := answer.Result(usage)
	if len(result) > MaxResult {
		return usage, errTooLong
	}
	return usage, emit(Chunk{Result: result})
}

// run calls the provider and turns its panic into an error. What a run that
// panicked has used is estimated from what it has emitted.
func (r *Runner) run(ctx context.Context, req Request, answer *Answer, emit func(Chunk) error) (usage Usage, err error) {
	defer func() {
		if p := recover(); p != nil {
			usage = Estimate(req, answer.Size())
			err = &fsys.Error{Code: fsys.Internal, Reason: "the provider " + r.id + " crashed", Err: fmt.Errorf("panic: %v", p)}
		}
	}()
	usage, err = r.provider.Run(ctx, req, emit)
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = context.Cause(ctx)
	}
	return usage, err
}

// Estimate is what req and an answer of n bytes come to in tokens when nobody
// counted: a token for every three bytes, and eight for each message. For
// prose in most languages that is more than the truth.
func Estimate(req Request, n int) Usage {
	in := len(req.Prompt)
	for _, m := range req.Messages {
		in += len(m.Text) + 24
	}
	return Usage{Input: int64(in+2) / 3, Output: int64(n+2) / 3, Estimated: true}
}
