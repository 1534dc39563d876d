package containers

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
	err := s.removeWhole(ctx, w)
	if store.IsDamaged(err) {
		err = s.removeDamaged(ctx, w.n)
	}
	return err
}

func (s *Service) removeDamaged(ctx context.Context, n int64) error {
	return s.st.Update(ctx, func(tx store.Store) error { return s.erase(ctx, tx, n, "") })
}

func (s *Service) removeWhole(ctx context.Context, w *session) error {
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
	// Of a session whose record was damaged.
	Reason string         `json:"reason,omitempty"`
	Cost   *budget.Micros `json:"cost_microusd,omitempty"` // all that was held for it
}

// delete deletes all that is stored of r, whose session has ended and is w if
// it is in memory, and throws its sandbox away.
func (s *Service) delete(ctx context.Context, tx store.Store, w *session, r record, why string) error {
	if err := s.unlist(ctx, tx, r); err != nil {
		return err
	}
	for _, key := range []string{recordKey(r.Number), requestKey(r.Number), work.EndedKey(r.Ended, r.Number)} {
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
	return s.config.Note(tx, "containers.removed", removed{Session: r.Number, Why: why})
}

// erase deletes all that is stored of session n, whose record is damaged and which
// nobody works on. What was held for it counts as spent, as nobody knows; which
// sandbox it had nobody knows either, until the next start of the daemon removes
// those that are in no session.
func (s *Service) erase(ctx context.Context, tx store.Store, n int64, why string) error {
	if s.sessions.Live(n) != nil {
		return fsys.E(fsys.Busy, "the session runs, and its record is damaged; remove it when it has ended, or after the next start")
	}
	r := removed{Session: n, Why: why, Reason: work.Why + "; its sandbox is removed when the daemon starts again"}
	if s.config.Account != nil {
		cost, err := s.config.Account.SettleLost(ctx, tx, heldFor(n), work.Why)
		if err != nil {
			return err
		}
		r.Cost = &cost
	}
	prefixes := []string{recPrefix, reqPrefix, outPrefix, execPrefix, listPrefix, openPrefix}
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
	return errors.Join(store.PutJSON(ctx, tx, totalsKey, t), s.config.Note(tx, "containers.removed", r))
}

// add adds r to t.
func (t *totals) add(r *record) {
	t.Sessions[r.State]++
	if r.State.ended() {
		t.Kept += r.Size
		t.Spent += r.Cost
		t.Ended++
	} else {
		t.Held += r.Held
	}
}

// sum returns the totals of the sessions in st whose records are whole.
func sum(ctx context.Context, st store.Store) (totals, error) {
	t := totals{Sessions: map[State]int64{}}
	for p, err := range store.All(ctx, store.Forgiving(st), recPrefix) {
		var r record
		if err != nil {
			return t, err
		}
		if json.Unmarshal(p.Value, &r) == nil {
			t.add(&r)
		}
	}
	for _, err := range store.All(ctx, store.Forgiving(st), workPrefix) {
		if err != nil {
			return t, err
		}
		t.Works++
	}
	return t, nil
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
		if err := store.DeleteAll(ctx, tx, part); err != nil {
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
