package compute

import (
	"context"
	"log/slog"
	"strconv"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/models"
	"agent9/store"
)

// recover ends the jobs that the end of the program cut off, and lets those
// wait on that wait for an approval.
func (s *Service) recover(ctx context.Context) error {
	for p, err := range store.All(ctx, store.Forgiving(s.st), openPrefix) {
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(p.Key[len(openPrefix):], 10, 64)
		if err != nil {
			return fsys.E(fsys.Internal, "the database has an open job that is called "+p.Key)
		}
		err = s.interrupted(ctx, n)
		if store.IsDamaged(err) { // it holds what it holds until it is removed
			slog.Error("a job cannot be ended, as what there is of it is damaged; remove it", "job", n, "err", err)
			continue
		}
		if err != nil {
			return fsys.Wrap(fsys.Internal, "compute job "+strconv.FormatInt(n, 10), err)
		}
	}
	return nil
}

func (s *Service) interrupted(ctx context.Context, n int64) error {
	rec, err := store.GetJSON[record](ctx, s.st, recordKey(n))
	if err != nil {
		return err
	}
	if rec.State == Awaiting && s.config.Approvals != nil {
		return s.await(ctx, rec)
	}
	hold, err := s.resume(ctx, rec)
	if err != nil {
		return err
	}
	j := &job{s: s, n: n, rec: rec}
	if err := j.open(ctx); err != nil {
		return err
	}
	return s.st.Update(ctx, func(tx store.Store) error {
		r := rec
		r.end(s.config.Now(), models.Usage{}, errInterrupted)
		r.Size += j.streamed()
		waiting := len(rec.Attempts) > 0 && rec.Begun.IsZero()
		if rec.State == Running && !waiting && !r.Free {
			r.Cost = min(r.Paid+r.Held, budget.Most)
		}
		if hold != nil {
			if err := hold.Settle(tx, r.Cost-r.Paid, errInterrupted.Error()); err != nil {
				return err
			}
		}
		if err := s.putEnd(ctx, tx, rec, r); err != nil || !r.Removing {
			return err
		}
		return s.delete(ctx, tx, j, r, "")
	})
}

// resume returns the hold of rec, or nil if it is open no longer.
func (s *Service) resume(ctx context.Context, rec record) (*budget.Hold, error) {
	if s.config.Account == nil {
		return nil, fsys.E(fsys.Internal, "there is no account to settle it with")
	}
	hold, err := s.config.Account.Resume(ctx, rec.Hold)
	if missing(err) {
		return nil, nil
	}
	return hold, err
}
