package compute

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/services/internal/work"
	"agent9/store"
)

// hide takes a file out of the directory of j.
func (s *Service) hide(ctx context.Context, j *job, name string) error {
	return s.st.Update(ctx, func(tx store.Store) error {
		return s.change(ctx, tx, j, func(r *record) {
			if !slices.Contains(r.Hidden, name) {
				r.Hidden = append(r.Hidden, name)
			}
		})
	})
}

// remove takes j out of the list, at once; one that has not ended is cancelled
// and removed when it has.
func (s *Service) remove(ctx context.Context, j *job) error {
	err := s.removeWhole(ctx, j)
	if store.IsDamaged(err) {
		err = s.removeDamaged(ctx, j.n)
	}
	return err
}

func (s *Service) removeDamaged(ctx context.Context, n int64) error {
	return s.st.Update(ctx, func(tx store.Store) error { return s.erase(ctx, tx, n, "") })
}

func (s *Service) removeWhole(ctx context.Context, j *job) error {
	if err := j.open(ctx); err != nil {
		return err
	}
	running := false
	err := s.st.Update(ctx, func(tx store.Store) error {
		r, err := store.GetJSON[record](ctx, tx, recordKey(j.n))
		if err != nil {
			return err
		}
		if r.State == Awaiting {
			if r, err = s.withdraw(ctx, tx, j, errCancelled); err != nil {
				return err
			}
		}
		if running = !r.State.ended(); !running {
			return s.delete(ctx, tx, j, r, "")
		}
		if err := s.unlist(ctx, tx, r); err != nil {
			return err
		}
		return s.change(ctx, tx, j, func(r *record) { r.Removing = true })
	})
	if err != nil || !running {
		return err
	}
	return s.cancel(j, errCancelled)
}

// unlist takes away the names of r's job.
func (s *Service) unlist(ctx context.Context, tx store.Store, r record) error {
	if r.Key != "" && !r.Removing {
		if err := s.keys.Forget(ctx, tx, r.Key, r.Number, time.Time{}); err != nil {
			return err
		}
	}
	return tx.Delete(ctx, listKey(r.Number))
}

// removed is the event of a job that is no longer there.
type removed struct {
	Job int64  `json:"job"`
	Why string `json:"why,omitempty"` // swept, or it was asked for
	// Of a job whose record was damaged.
	Reason string         `json:"reason,omitempty"`
	Cost   *budget.Micros `json:"cost_microusd,omitempty"` // all that was held for it
}

// delete deletes all that is stored of r, whose job has ended and is j if it
// is in memory.
func (s *Service) delete(ctx context.Context, tx store.Store, j *job, r record, why string) error {
	if err := s.unlist(ctx, tx, r); err != nil {
		return err
	}
	for _, key := range []string{recordKey(r.Number), requestKey(r.Number), resultKey(r.Number)} {
		if err := tx.Delete(ctx, key); err != nil {
			return err
		}
	}
	if err := s.dropLogs(ctx, tx, j, r); err != nil {
		return err
	}
	if err := s.unkeep(ctx, tx, r); err != nil {
		return err
	}
	if err := s.count(ctx, tx, func(t *totals) { t.Jobs[r.State]-- }); err != nil {
		return err
	}
	store.After(tx, func() { s.vanish(r.Number) })
	return s.config.Note(tx, "compute.removed", removed{Job: r.Number, Why: why})
}

// erase deletes all that is stored of job n, whose record is damaged and which
// nobody works on. What was held for it counts as spent, as nobody knows.
func (s *Service) erase(ctx context.Context, tx store.Store, n int64, why string) error {
	if s.jobs.Live(n) != nil {
		return fsys.E(fsys.Busy, "the job runs, and its record is damaged; remove it when it has ended, or after the next start")
	}
	r := removed{Job: n, Why: why, Reason: work.Why}
	if s.config.Account != nil {
		cost, err := s.config.Account.SettleLost(ctx, tx, heldFor(n), work.Why)
		if err != nil {
			return err
		}
		r.Cost = &cost
	}
	prefixes := []string{recPrefix, reqPrefix, resPrefix, outPrefix, chunksPrefix, listPrefix, openPrefix}
	if err := work.Erase(ctx, tx, n, prefixes, []string{work.EndedPrefix}); err != nil {
		return err
	}
	was, err := s.totals(ctx, tx)
	if err != nil {
		return err
	}
	t, err := sum(ctx, tx)
	if err != nil {
		return err
	}
	t.Spent = was.Spent
	if r.Cost != nil {
		t.Spent += *r.Cost
	}
	store.After(tx, func() { s.vanish(n) })
	return errors.Join(store.PutJSON(ctx, tx, totalsKey, t), s.config.Note(tx, "compute.removed", r))
}

// add adds r to t.
func (t *totals) add(r *record) {
	t.Jobs[r.State]++
	if r.State.ended() {
		t.Kept += r.Size
		t.Spent += r.Cost
	} else {
		t.Held += r.Held
		t.Spent += r.Paid
	}
}

// sum returns the totals of the jobs in st whose records are whole.
func sum(ctx context.Context, st store.Store) (totals, error) {
	t := totals{Jobs: map[State]int64{}}
	for p, err := range store.All(ctx, store.Forgiving(st), recPrefix) {
		var r record
		if err != nil {
			return t, err
		}
		if json.Unmarshal(p.Value, &r) == nil {
			t.add(&r)
		}
	}
	for _, err := range store.All(ctx, store.Forgiving(st), draftPref) {
		if err != nil {
			return t, err
		}
		t.Draft++
	}
	return t, nil
}
