package compute

import (
	"context"
	"strconv"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/models"
	"agent9/store"
)

// approvalService is what [budget.Approvals] call this service.
const approvalService = "compute"

// hold takes the money of job n. If it waits, the job does: a person is asked.
func (s *Service) hold(ctx context.Context, tx store.Store, n int64, pl plan) (*budget.Hold, error) {
	what := heldFor(n)
	if s.config.Approvals == nil {
		return budget.Take(ctx, tx, pl.max, what)
	}
	return s.config.Approvals.Take(ctx, tx, pl.max, what, budget.Question{
		Service: approvalService, Job: n, Provider: pl.chain[0].runner.ID(), Model: pl.chain[0].model.Name,
	})
}

// heldFor says in the account what money is for.
func heldFor(n int64) string { return "compute job " + strconv.FormatInt(n, 10) }

// approved is told of what a person decided, or nobody in time, about a job
// that waits: it is queued with its hold, or it has failed.
func (s *Service) approved(ctx context.Context, tx store.Store, n int64, hold *budget.Hold, refused error) error {
	j := s.jobs.Live(n)
	tx = store.In(tx, s.st)
	switch {
	case j == nil:
		return fsys.E(fsys.Internal, "the job that waits for this is not there")
	case refused != nil:
		_, err := s.endWaiting(ctx, tx, j, hold, refused)
		return err
	case s.life.Err() != nil:
		return fsys.E(fsys.Unavailable, "the daemon is shutting down")
	}
	err := s.count(ctx, tx, func(t *totals) { t.Jobs[Awaiting]--; t.Jobs[Queued]++ })
	if err != nil {
		return err
	}
	if err := s.change(ctx, tx, j, func(r *record) { r.State = Queued }); err != nil {
		return err
	}
	store.After(tx, func() { s.crew.Enqueue(j, func() { j.hold = hold }) })
	return nil
}

// endWaiting records that j, which waited for an approval and has not run,
// ended with why, and returns its record.
func (s *Service) endWaiting(ctx context.Context, tx store.Store, j *job, hold *budget.Hold, why error) (record, error) {
	before, err := store.GetJSON[record](ctx, tx, recordKey(j.n))
	if err != nil {
		return before, err
	}
	r := before
	r.end(s.config.Now(), models.Usage{}, why)
	if err := hold.Settle(tx, r.Cost, fsys.ReasonOf(why)); err != nil {
		return r, err
	}
	store.After(tx, func() {
		j.cancel(nil)
		j.ended(r)
	})
	return r, s.putEnd(ctx, tx, before, r)
}

// withdraw ends j with why if it waits for an approval; NotExist if it does
// not, or not any longer.
func (s *Service) withdraw(ctx context.Context, tx store.Store, j *job, why error) (record, error) {
	r := j.record()
	if r.State != Awaiting {
		return r, fsys.NotExist
	}
	hold, err := s.config.Approvals.Withdraw(ctx, tx, r.Hold)
	if err != nil {
		return r, err
	}
	return s.endWaiting(ctx, tx, j, hold, why)
}

// cancelWaiting ends j with why if it waits for an approval, and reports whether
// it did.
func (s *Service) cancelWaiting(j *job, why error) (bool, error) {
	if j.record().State != Awaiting {
		return false, nil
	}
	ctx := context.WithoutCancel(s.life)
	err := s.st.Update(ctx, func(tx store.Store) error {
		_, err := s.withdraw(ctx, tx, j, why)
		return err
	})
	if missing(err) {
		return false, nil
	}
	return err == nil, err
}

// await makes rec, whose job waited for an approval when the program ended,
// wait on. A job that nobody could do any more has failed.
func (s *Service) await(ctx context.Context, rec record) error {
	j := &job{s: s, n: rec.Number, rec: rec, done: make(chan struct{})}
	j.ctx, j.cancel = context.WithCancelCause(s.life)
	var failed error
	if _, failed = s.planAgain(ctx, rec); failed == nil {
		s.jobs.Enter(j.n, j)
		return nil
	}
	return s.st.Update(ctx, func(tx store.Store) error {
		_, err := s.withdraw(ctx, tx, j, failed)
		return err
	})
}

// planAgain is the plan that rec was made of.
func (s *Service) planAgain(ctx context.Context, rec record) (plan, error) {
	raw, err := s.st.Get(ctx, requestKey(rec.Number))
	if err != nil {
		return plan{}, err
	}
	sub, err := parseSubmission(raw)
	if err != nil {
		return plan{}, err
	}
	p, err := s.policies.Read(ctx, s.st)
	if err != nil {
		return plan{}, err
	}
	pl := plan{max: rec.Held, timeout: rec.Timeout, retry: p.retry()}
	why := fsys.E(fsys.Unavailable, s.config.Providers.None(rec.Provider))
	for _, l := range rec.Chain {
		c, err := s.linked(p, l, sub)
		if err == nil {
			pl.chain = append(pl.chain, c)
		} else if c.runner != nil {
			why = err
		}
	}
	if len(pl.chain) == 0 {
		return plan{}, why
	}
	return pl, nil
}

// link is a candidate in the record of a job that waits.
type link struct {
	Provider string        `json:"provider"`
	Model    string        `json:"model"`
	Context  int           `json:"context,omitempty"`
	Free     bool          `json:"free,omitempty"`
	Price    *models.Price `json:"price,omitempty"`
}

// links are those of the chain of pl.
func (pl plan) links() []link {
	var links []link
	for _, c := range pl.chain {
		links = append(links, link{c.runner.ID(), c.model.Name, c.model.Context, c.free, c.list})
	}
	return links
}

// linked is the candidate that l stands for, measured anew at its old price. It
// has no runner if the provider is gone.
func (s *Service) linked(p Policy, l link, sub *submission) (candidate, error) {
	c := candidate{runner: s.config.Providers.Get(l.Provider), model: models.Model{Name: l.Model, Context: l.Context}, free: l.Free}
	if c.runner == nil {
		return c, fsys.NotExist
	}
	c.named(sub)
	if c.free {
		return c, nil
	}
	c.list = l.Price
	if err := c.measure(p, true); err != nil {
		return c, err
	}
	return c, nil
}
