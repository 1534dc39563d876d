package compute

import (
	"context"
	"strconv"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/services/internal/work"
	"agent9/store"
)

// submitNew is what a write to new does.
func (s *Service) submitNew(ctx context.Context, raw []byte) ([]byte, error) {
	sub, err := parseSubmission(raw)
	if err != nil {
		return nil, err
	}
	return s.submit(ctx, sub)
}

// submit makes sub a job, or finds the one that it already is, and replies
// with its number.
func (s *Service) submit(ctx context.Context, sub *submission) ([]byte, error) {
	var j *job
	n, err := s.ledger.Submit(ctx, sub.key, sub.hash, func() (work.Order[record, job], error) {
		p, err := s.policies.Read(ctx, s.st)
		if err != nil {
			return work.Order[record, job]{}, err
		}
		pl, err := s.plan(ctx, p, sub)
		if err != nil {
			return work.Order[record, job]{}, err
		}
		first := pl.chain[0]
		return work.Order[record, job]{
			Raw: sub.raw, Max: pl.max, TTL: time.Duration(p.IdempotencyTTL),
			Asks: budget.Question{Provider: first.runner.ID(), Model: first.model.Name},
			Record: func(ctx context.Context, tx store.Store, n int64, now bool, hold func() (*budget.Hold, error)) (_ *job, err error) {
				j, err = s.newJob(ctx, tx, n, now, hold, sub, pl)
				return j, err
			},
		}, nil
	})
	if err != nil && j != nil {
		j.spanEnd(fsys.Outcome(err))
	}
	return work.Reply(n), err
}

// submitted is the event of a new job.
type submitted struct {
	Job      int64         `json:"job"`
	Provider string        `json:"provider"`
	Model    string        `json:"model"`
	Held     budget.Micros `json:"held_microusd"`
	By       fsys.Caller   `json:"by,omitempty"`
}

// newJob is job n, which is being recorded in the transaction of tx.
func (s *Service) newJob(ctx context.Context, tx store.Store, n int64, now bool, take func() (*budget.Hold, error), sub *submission, pl plan) (*job, error) {
	counted, err := s.pace(ctx, tx, pl.rates, sub.req)
	if err != nil {
		return nil, err
	}
	hold, err := take()
	if err != nil {
		return nil, err
	}
	name, err := s.claimDraft(ctx, tx, sub.key)
	if err != nil {
		return nil, err
	}
	r := record{
		Number:  n,
		Name:    name,
		Key:     sub.key,
		Token:   fsys.TokenOf(ctx),
		State:   Queued,
		Kind:    pl.chain[0].req.Kind,
		Timeout: pl.timeout,
		Size:    int64(len(sub.raw)) + jobOverhead,
		Created: s.config.Now(),
		Hold:    hold.ID(),
		Held:    hold.Max(),
		Counted: counted,
	}
	r.asks(&pl.chain[0])
	switch {
	case hold.Waits():
		r.State = Awaiting
	case now:
		r.State, r.Started = Running, r.Created
	}
	if r.State != Running { // the request is on disk, and is planned again when it begins
		r.Chain, pl = pl.links(), plan{}
	}
	err = s.config.Note.Record(tx, "compute.submitted", submitted{n, r.Provider, r.Model, r.Held, fsys.CallerOf(ctx)})
	if err != nil {
		return nil, err
	}
	traced, end := s.config.Trace.Begin(s.life, ctx, "compute job", "job", strconv.FormatInt(n, 10), "kind", string(r.Kind))
	j := s.ledger.Live(traced, r)
	j.plan, j.spanEnd = pl, end
	return j, nil
}
