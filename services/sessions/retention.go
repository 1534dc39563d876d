package sessions

import (
	"context"
	"time"

	"agent9/services/internal/keep"
	"agent9/store"
)

// sweep removes the oldest of what has ended that are too old or too much.
func (s *Service) sweep(ctx context.Context, tx store.Store, config Config, now time.Time) error {
	old := func(age time.Duration) (bool, error) {
		t, err := loadTotals(ctx, tx)
		return age >= config.Keep || t.Kept > config.KeepBytes, err
	}
	return keep.SweepEnded(ctx, tx, now, old, func(n int64) error {
		r, err := store.GetJSON[record](ctx, tx, recordKey(n))
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
		for p, err := range store.All(ctx, tx, view) {
			if err != nil {
				return err
			}
			if err := tx.Delete(ctx, p.Key); err != nil {
				return err
			}
		}
	}
	if err := tx.Delete(ctx, shownKey(r.Number)); err != nil {
		return err
	}
	store.After(tx, x.ended)
	if err := put(ctx, tx, &r, &record{}); err != nil {
		return err
	}
	return s.opts.Note(tx, "sessions.removed", told{Session: r.Number, Reason: why})
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
