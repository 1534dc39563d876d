package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"agent9/fsys"
	"agent9/services/internal/work"
	"agent9/store"
)

// sweep removes the oldest of what has ended that are too old or too much.
func (s *Service) sweep(ctx context.Context, tx store.Store, config Config, now time.Time) error {
	old := func(age time.Duration) (bool, error) {
		t, err := loadTotals(ctx, tx)
		return age >= config.Keep || t.Kept > config.KeepBytes, err
	}
	return work.SweepEnded(ctx, tx, now, old, func(n int64) error {
		r, err := store.GetJSON[record](ctx, store.Forgiving(tx), recordKey(n))
		if store.IsDamaged(err) {
			return s.erase(ctx, tx, n, "swept: "+work.Why)
		}
		if err != nil {
			return err
		}
		return s.drop(ctx, tx, r, "swept")
	})
}

// drop removes the session of r, in which nothing runs, with all that it has.
func (s *Service) drop(ctx context.Context, tx store.Store, r record, why string) error {
	x := s.session(r.Number)
	if err := x.drop(tx); err != nil {
		return err
	}
	for _, view := range []string{queuePrefix(r.Number), streamView(r.Number), transcriptView(r.Number)} {
		if err := store.DeleteAll(ctx, tx, view); err != nil {
			return err
		}
	}
	if err := tx.Delete(ctx, shownKey(r.Number)); err != nil {
		return err
	}
	store.After(tx, x.ended)
	if err := put(ctx, tx, &r, &record{}); err != nil {
		return err
	}
	return s.opts.Note.Record(tx, "sessions.removed", told{Session: r.Number, Reason: why})
}

// erase deletes all that is stored of session n, whose record is damaged. What it
// cost is in the account, and the job of a prompt is among the jobs.
func (s *Service) erase(ctx context.Context, tx store.Store, n int64, why string) error {
	x := s.session(n)
	if x.works(0) {
		return fsys.E(fsys.Busy, "a prompt of the session is being answered, and its record is damaged; remove it when that has ended, or after the next start")
	}
	if err := x.drop(tx); err != nil {
		return err
	}
	prefixes := []string{recPrefix, queuePref, shownPrefix, streamPrefix, saidPrefix, listPrefix, workPrefix}
	if err := work.Erase(ctx, tx, n, prefixes, []string{work.EndedPrefix, idlePrefix}); err != nil {
		return err
	}
	t, err := sum(ctx, tx)
	if err != nil {
		return err
	}
	store.After(tx, x.ended)
	return errors.Join(store.PutJSON(ctx, tx, totalsKey, t), s.opts.Note.Record(tx, "sessions.removed", told{Session: n, Reason: why}))
}

// sum returns the totals of the sessions in st whose records are whole.
func sum(ctx context.Context, st store.Store) (t totals, err error) {
	for p, err := range store.All(ctx, store.Forgiving(st), recPrefix) {
		var r record
		if err != nil {
			return t, err
		}
		if json.Unmarshal(p.Value, &r) == nil {
			t.count(&r, 1)
		}
	}
	return t, nil
}

// drop removes what was said, if it has been opened.
func (x *session) drop(tx store.Store) error {
	x.mu.Lock()
	transcript, stream := x.transcript, x.stream
	x.mu.Unlock()
	if transcript == nil {
		return nil
	}
	if err := transcript.Drop(tx); err != nil {
		return err
	}
	return stream.Drop(tx)
}
