package compute

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
	sub, err := parseSubmission(raw)
	if err != nil {
		return nil, err
	}
	return s.submit(ctx, sub)
}

// submit makes sub a job, or finds the one that it already is, and replies
// with its number.
func (s *Service) submit(ctx context.Context, sub *submission) ([]byte, error) {
	if n, err := s.keys.Prior(ctx, s.st, sub.key, sub.hash); n != 0 || err != nil {
		return work.Reply(n), err
	}
	p, err := s.policies.Read(ctx, s.st)
	if err != nil {
		return nil, err
	}
	pl, err := s.plan(ctx, p, sub)
	if err != nil {
		return nil, err
	}
	now, err := s.crew.Claim()
	if err != nil {
		return nil, err
	}
	n, fresh, err := s.record(ctx, sub, pl, now)
	if !fresh {
		s.crew.Unclaim(now)
	}
	return work.Reply(n), err
}

// record writes down a job with its money, in one transaction with the look
// into the journal, and starts it when that is on disk. It returns the job's
// number, and whether it is a new one.
func (s *Service) record(ctx context.Context, sub *submission, pl plan, now bool) (n int64, fresh bool, err error) {
	var j *job
	err = s.st.Update(ctx, func(tx store.Store) error {
		if n, err = s.keys.Prior(ctx, tx, sub.key, sub.hash); n != 0 || err != nil {
			return err
		}
		if err := s.config.Allowed(ctx); err != nil {
			return err
		}
		if n, err = work.Next(ctx, tx, nextKey); err != nil {
			return err
		}
		counted, err := s.pace(ctx, tx, pl.rates, sub.req)
		if err != nil {
			return err
		}
		hold, err := s.hold(ctx, tx, n, pl)
		if err != nil {
			return err
		}
		name, err := s.claimDraft(ctx, tx, sub.key)
		if err != nil {
			return err
		}
		j = s.newJob(ctx, n, name, sub, pl, hold, now)
		j.rec.Counted = counted
		if err := s.putNew(ctx, tx, j.rec, sub); err != nil {
			return err
		}
		s.jobs.Enter(n, j)
		store.After(tx, func() {
			fresh = true
			if hold.Waits() {
				s.crew.Unclaim(now)
			} else {
				s.crew.Launch(j, now)
			}
		})
		return nil
	})
	if err != nil {
		s.jobs.Undo(n, j)
		if j != nil {
			j.spanEnd(fsys.Outcome(err))
		}
		return 0, false, err
	}
	return n, fresh, nil
}

// submitted is the event of a new job.
type submitted struct {
	Job      int64         `json:"job"`
	Provider string        `json:"provider"`
	Model    string        `json:"model"`
	Held     budget.Micros `json:"held_microusd"`
	By       fsys.Caller   `json:"by,omitempty"`
}

// putNew stores all that there is of a new job.
func (s *Service) putNew(ctx context.Context, tx store.Store, r record, sub *submission) error {
	err := s.count(ctx, tx, func(t *totals) {
		t.Held += r.Held
		t.Jobs[r.State]++
	})
	if err != nil {
		return err
	}
	if err := s.enterKey(ctx, tx, r, sub.hash); err != nil {
		return err
	}
	if err := s.keys.Sweep(ctx, tx); err != nil {
		return err
	}
	for _, put := range []struct {
		key   string
		value []byte
	}{
		{recordKey(r.Number), fsys.Line(r)},
		{requestKey(r.Number), sub.raw},
		{listKey(r.Number), []byte(r.Name)},
		{openKey(r.Number), nil},
	} {
		if err := tx.Put(ctx, put.key, put.value); err != nil {
			return err
		}
	}
	return s.config.Note(tx, "compute.submitted", submitted{r.Number, r.Provider, r.Model, r.Held, fsys.CallerOf(ctx)})
}

// enterKey makes the key of r stand for its job.
func (s *Service) enterKey(ctx context.Context, tx store.Store, r record, hash string) error {
	p, err := s.policies.Read(ctx, tx)
	if err != nil {
		return err
	}
	return s.keys.Enter(ctx, tx, r.Key, work.Key{Number: r.Number, Hash: hash, Expires: r.Created.Add(time.Duration(p.IdempotencyTTL))})
}

// count changes the totals.
func (s *Service) count(ctx context.Context, tx store.Store, change func(*totals)) error {
	t, err := s.totals(ctx, tx)
	if err != nil {
		return err
	}
	change(&t)
	return store.PutJSON(ctx, tx, totalsKey, t)
}

func (s *Service) totals(ctx context.Context, st store.Store) (totals, error) {
	t, err := store.GetJSON[totals](ctx, store.Forgiving(st), totalsKey)
	switch {
	case missing(err):
		err = nil
	case store.IsDamaged(err): // what was spent on jobs that are gone is in the account
		t, err = sum(ctx, st)
	}
	if t.Jobs == nil {
		t.Jobs = make(map[State]int64)
	}
	return t, err
}
