package containers

import (
	"context"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/services/internal/work"
	"agent9/store"
)

// submitNew is what a write to new does.
func (s *Service) submitNew(ctx context.Context, raw []byte) ([]byte, error) {
	n, err := s.Submit(ctx, raw, nil)
	return work.Reply(n), err
}

// Submit makes a request, as it is written to new, a session, or finds the one
// that it already is, and returns its number. serve, if not nil, is asked
// instead of Config.Serve when a program in the session dials.
func (s *Service) Submit(ctx context.Context, raw []byte, serve Serve) (int64, error) {
	sub, err := parseSubmission(raw)
	if err != nil {
		return 0, err
	}
	sub.serve = serve
	return s.ledger.Submit(ctx, sub.key, sub.hash, func() (work.Order[record, session], error) {
		p, err := s.policies.Read(ctx, s.st)
		if err != nil {
			return work.Order[record, session]{}, err
		}
		pl, err := s.plan(ctx, p, sub)
		if err != nil {
			return work.Order[record, session]{}, err
		}
		return work.Order[record, session]{
			Raw: sub.raw, Max: pl.max, TTL: time.Duration(p.IdempotencyTTL),
			Asks: budget.Question{Provider: pl.runner.ID(), Model: pl.image},
			Record: func(ctx context.Context, tx store.Store, n int64, now bool, hold func() (*budget.Hold, error)) (*session, error) {
				return s.newSession(ctx, tx, n, now, hold, sub, pl)
			},
		}, nil
	})
}

// submitted is the event of a new session.
type submitted struct {
	Session  int64         `json:"session"`
	Provider string        `json:"provider"`
	Image    string        `json:"image,omitempty"`
	Held     budget.Micros `json:"held_microusd"`
	By       fsys.Caller   `json:"by,omitempty"`
}

// newSession is session n, which is being recorded in the transaction of tx.
func (s *Service) newSession(ctx context.Context, tx store.Store, n int64, now bool, take func() (*budget.Hold, error), sub *submission, pl plan) (*session, error) {
	if err := s.lockWorkspace(ctx, tx, pl, n); err != nil {
		return nil, err
	}
	hold, err := take()
	if err != nil {
		return nil, err
	}
	r := record{
		Number: n, Key: sub.key, Token: fsys.TokenOf(ctx), State: Queued,
		Provider: pl.runner.ID(), Image: pl.image, Limits: pl.limits, Network: pl.network,
		Keep: sub.req.Keep, Workspace: string(sub.req.Workspace), Commands: len(sub.req.Commands),
		Created: s.config.Now(), Holds: []string{hold.ID()}, Held: hold.Max(), Price: pl.price,
		Size: int64(len(sub.raw)) + overhead,
	}
	switch {
	case hold.Waits():
		r.State = Awaiting
	case now:
		r.State, r.Started = Provisioning, r.Created
	}
	w := s.ledger.Live(s.life, r)
	w.plan = pl
	if sub.serve != nil {
		w.serves = sub.serve
	}
	return w, s.config.Note.Record(tx, "containers.submitted", submitted{n, r.Provider, r.Image, r.Held, fsys.CallerOf(ctx)})
}
