package containers

import (
	"context"
	"slices"
	"time"

	"agent9/services/internal/keep"
	"agent9/store"
)

// overhead is what a session counts besides its request and output.
const overhead = 1 << 10

// hide takes a file out of the directory of w.
func (s *Service) hide(ctx context.Context, w *session, name string) error {
	return s.st.Update(ctx, func(tx store.Store) error {
		return s.change(ctx, tx, w, func(r *record) {
			if !slices.Contains(r.Hidden, name) {
				r.Hidden = append(r.Hidden, name)
			}
		})
	})
}

// remove takes w out of the list, at once; one that has not ended is stopped,
// and removed when it has.
func (s *Service) remove(ctx context.Context, w *session) error {
	if err := w.open(ctx); err != nil {
		return err
	}
	running := false
	err := s.st.Update(ctx, func(tx store.Store) error {
		r, err := store.GetJSON[record](ctx, tx, recordKey(w.n))
		if err != nil {
			return err
		}
		if r.State == Awaiting {
			if r, err = s.withdraw(ctx, tx, w, errStopped); err != nil {
				return err
			}
		}
		if running = !r.State.ended(); !running {
			return s.delete(ctx, tx, w, r, "")
		}
		if err := s.unlist(ctx, tx, r); err != nil {
			return err
		}
		return s.change(ctx, tx, w, func(r *record) { r.Removing = true })
	})
	if err != nil {
		return err
	}
	if running {
		return s.stop(w, errStopped)
	}
	s.emptyTrash()
	return nil
}

// unlist takes away the names of r's session.
func (s *Service) unlist(ctx context.Context, tx store.Store, r record) error {
	if r.Key != "" && !r.Removing {
		if err := s.keys.Forget(ctx, tx, r.Key, r.Number, time.Time{}); err != nil {
			return err
		}
	}
	return tx.Delete(ctx, listKey(r.Number))
}

// removed is the event of a session that is no longer there.
type removed struct {
	Session int64  `json:"session"`
	Why     string `json:"why,omitempty"` // swept, or it was asked for
}

// delete deletes all that is stored of r, whose session has ended and is w if
// it is in memory, and throws its sandbox away.
func (s *Service) delete(ctx context.Context, tx store.Store, w *session, r record, why string) error {
	if err := s.unlist(ctx, tx, r); err != nil {
		return err
	}
	for _, key := range []string{recordKey(r.Number), requestKey(r.Number), keep.EndedKey(r.Ended, r.Number)} {
		if err := tx.Delete(ctx, key); err != nil {
			return err
		}
	}
	if err := s.dropOutput(ctx, tx, w, r); err != nil {
		return err
	}
	if r.Sandbox != "" {
		if err := tx.Put(ctx, trashPref+r.Provider+"/"+r.Sandbox, nil); err != nil {
			return err
		}
	}
	err := s.count(ctx, tx, func(t *totals) {
		t.Kept, t.Ended = max(t.Kept-r.Size, 0), max(t.Ended-1, 0)
		t.Sessions[r.State]--
	})
	if err != nil {
		return err
	}
	store.After(tx, func() { s.vanish(r.Number) })
	return s.config.Note(tx, "containers.removed", removed{r.Number, why})
}

// dropOutput deletes the streams of r's session and its execs.
func (s *Service) dropOutput(ctx context.Context, tx store.Store, w *session, r record) error {
	if w != nil {
		w.mu.Lock()
		output := w.output
		w.mu.Unlock()
		if output != nil {
			if err := output.drop(tx); err != nil {
				return err
			}
		}
		for m := int64(1); m <= r.Execs; m++ {
			if x := w.execs.Known(m); x != nil {
				if err := x.drop(tx); err != nil {
					return err
				}
			}
		}
	}
	for _, part := range []string{outputView(r.Number), execsPart(r.Number)} {
		if err := deleteAll(ctx, tx, part); err != nil {
			return err
		}
	}
	return nil
}

func deleteAll(ctx context.Context, tx store.Store, prefix string) error {
	for p, err := range store.All(ctx, tx, prefix) {
		if err != nil {
			return err
		}
		if err := tx.Delete(ctx, p.Key); err != nil {
			return err
		}
	}
	return nil
}

// vanish makes session n, if it is in memory, one that is no longer there.
func (s *Service) vanish(n int64) {
	w := s.sessions.Remove(n)
	if w == nil {
		return
	}
	w.mu.Lock()
	w.gone = true
	output := w.output
	w.mu.Unlock()
	if output != nil {
		output.end()
	}
}
