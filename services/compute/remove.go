package compute

import (
	"context"
	"slices"

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
			return s.delete(ctx, tx, j, r)
		}
		if err := s.unlist(ctx, tx, r); err != nil {
			return err
		}
		return s.change(ctx, tx, j, func(r *record) { r.Removing = true })
	})
	if err != nil || !running {
		return err
	}
	return s.cancel(j)
}

// unlist takes away the names of r's job.
func (s *Service) unlist(ctx context.Context, tx store.Store, r record) error {
	if r.Key != "" && !r.Removing {
		if err := tx.Delete(ctx, keyPrefix+r.Key); err != nil {
			return err
		}
	}
	return tx.Delete(ctx, listKey(r.Number))
}

// removed is the event of a job that is no longer there.
type removed struct {
	Job int64 `json:"job"`
}

// delete deletes all that is stored of j, whose record is r and whose streams
// are open.
func (s *Service) delete(ctx context.Context, tx store.Store, j *job, r record) error {
	if err := s.unlist(ctx, tx, r); err != nil {
		return err
	}
	for _, key := range []string{recordKey(j.n), requestKey(j.n), resultKey(j.n)} {
		if err := tx.Delete(ctx, key); err != nil {
			return err
		}
	}
	if err := j.output.Drop(tx); err != nil {
		return err
	}
	if err := j.chunks.Drop(tx); err != nil {
		return err
	}
	if err := s.count(ctx, tx, func(t *totals) { t.Jobs[r.State]-- }); err != nil {
		return err
	}
	store.After(tx, func() {
		j.mu.Lock()
		j.gone = true
		j.mu.Unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.removed++
		delete(s.known, j.n)
	})
	return s.config.Note(tx, "compute.removed", removed{j.n})
}
