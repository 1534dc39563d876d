package containers

import (
	"context"
	"strconv"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/store"
)

// approvalService is what [budget.Approvals] call this service.
const approvalService = "containers"

// hold takes the money of session n. If it waits, the session does: a person
// is asked.
func (s *Service) hold(ctx context.Context, tx store.Store, n int64, pl plan) (*budget.Hold, error) {
	what := heldFor(n)
	if s.config.Approvals == nil {
		return budget.Take(ctx, tx, pl.max, what)
	}
	return s.config.Approvals.Take(ctx, tx, pl.max, what, budget.Question{
		Service: approvalService, Job: n, Provider: pl.runner.ID(), Model: pl.image,
	})
}

// heldFor says in the account what money is for.
func heldFor(n int64) string { return "containers session " + strconv.FormatInt(n, 10) }

// approved is told of what a person decided, or nobody in time, about a
// session that waits: it is queued with its hold, or it has failed.
func (s *Service) approved(ctx context.Context, tx store.Store, n int64, hold *budget.Hold, refused error) error {
	w := s.sessions.Live(n)
	tx = store.In(tx, s.st)
	switch {
	case w == nil:
		return fsys.E(fsys.Internal, "the session that waits for this is not there")
	case refused != nil:
		_, err := s.endWaiting(ctx, tx, w, hold, refused)
		return err
	case s.life.Err() != nil:
		return fsys.E(fsys.Unavailable, "the daemon is shutting down")
	}
	if err := s.enterState(ctx, tx, w, Queued, nil); err != nil {
		return err
	}
	store.After(tx, func() { s.crew.Enqueue(w, func() { w.holds = []*budget.Hold{hold} }) })
	return nil
}

// endWaiting records that w, which waited for an approval and has not run,
// ended with why, and returns its record.
func (s *Service) endWaiting(ctx context.Context, tx store.Store, w *session, hold *budget.Hold, why error) (record, error) {
	before, err := store.GetJSON[record](ctx, tx, recordKey(w.n))
	if err != nil {
		return before, err
	}
	r := before
	r.end(s.config.Now(), 0, why)
	if err := hold.Settle(tx, r.Cost, fsys.ReasonOf(why)); err != nil {
		return r, err
	}
	store.After(tx, func() {
		w.cancel(nil)
		w.ended(r)
	})
	return r, s.putEnd(ctx, tx, before, r)
}

// withdraw ends w with why if it waits for an approval; NotExist if it does
// not, or not any longer.
func (s *Service) withdraw(ctx context.Context, tx store.Store, w *session, why error) (record, error) {
	r := w.record()
	if r.State != Awaiting {
		return r, fsys.NotExist
	}
	hold, err := s.config.Approvals.Withdraw(ctx, tx, r.Holds[0])
	if err != nil {
		return r, err
	}
	return s.endWaiting(ctx, tx, w, hold, why)
}

// cancelWaiting ends w with why if it waits for an approval, and reports whether it
// did.
func (s *Service) cancelWaiting(w *session, why error) (bool, error) {
	if w.record().State != Awaiting {
		return false, nil
	}
	ctx := context.WithoutCancel(s.life)
	err := s.st.Update(ctx, func(tx store.Store) error {
		_, err := s.withdraw(ctx, tx, w, why)
		return err
	})
	if missing(err) {
		return false, nil
	}
	return err == nil, err
}

// await makes rec, whose session waited for an approval when the program
// ended, wait on. One that nobody could run any more has failed.
func (s *Service) await(ctx context.Context, rec record) error {
	w := s.liveSession(rec.Number)
	w.rec = rec
	var failed error
	if w.plan, failed = s.planAgain(ctx, rec); failed == nil {
		s.sessions.Enter(rec.Number, w)
		return nil
	}
	return s.st.Update(ctx, func(tx store.Store) error {
		_, err := s.withdraw(ctx, tx, w, failed)
		return err
	})
}

// planAgain is the plan that rec was made of, under the policy of now but at
// the old price.
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
	sub.req.Provider = rec.Provider
	pl, err := s.plan(ctx, p, sub)
	pl.max, pl.price, pl.image = rec.Held, rec.Price, rec.Image
	return pl, err
}
