package compute

import (
	"context"
	"slices"
	"time"

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
	return s.config.Note(tx, "compute.removed", removed{r.Number, why})
}
