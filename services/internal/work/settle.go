package work

import (
	"context"
	"strconv"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/store"
)

// End records how w ended, with its money, in one transaction, and lets its
// readers go. Its streams are open.
func (l *Ledger[R, T, W, P]) End(ctx context.Context, w P, how How[R]) error {
	return l.Store.Update(ctx, func(tx store.Store) error {
		_, err := l.end(ctx, tx, w, w.Base().Holds(), how)
		return err
	})
}

// end records how w ended and returns its record. It is the one place where the
// holds of work are settled.
func (l *Ledger[R, T, W, P]) end(ctx context.Context, tx store.Store, w P, holds []*budget.Hold, how How[R]) (R, error) {
	before, err := l.Read(ctx, tx, w.Base().N)
	if err != nil {
		return before, err
	}
	r := before
	reason, err := how(ctx, tx, &r)
	if err != nil {
		return r, err
	}
	is := l.Standing(&r)
	if err := settle(tx, holds, is.Spent-l.Standing(&before).Spent, reason); err != nil {
		return r, err
	}
	if err := l.Put(ctx, tx, &before, &r); err != nil {
		return r, err
	}
	old := func(age time.Duration) (bool, error) { return l.Old(ctx, tx, age) }
	if err := SweepEnded(ctx, tx, l.Now(), old, func(n int64) error { return l.sweep(ctx, tx, n) }); err != nil {
		return r, err
	}
	if err := l.Ended(ctx, tx, &r); err != nil {
		return r, err
	}
	store.After(tx, func() {
		w.Base().set(r)
		l.Cache.Leave(is.Number)
		l.release(w)
	})
	if is.Listing.Removing {
		return r, l.delete(ctx, tx, w, &r, "", time.Time{})
	}
	return r, nil
}

// settle ends holds at cost. The last one has what the others do not cover.
func settle(tx store.Store, holds []*budget.Hold, cost budget.Micros, reason string) error {
	for i, h := range holds {
		part := cost
		if i < len(holds)-1 {
			part = min(part, h.Max())
		}
		if err := h.Settle(tx, part, reason); err != nil {
			return err
		}
		cost -= part
	}
	return nil
}

// Leave lets the readers of w go, whose end could not be recorded: they see the
// record that alter makes. What is stored stays open, for the next start to
// settle.
func (l *Ledger[R, T, W, P]) Leave(w P, alter func(*R)) {
	r := w.Base().Record()
	alter(&r)
	w.Base().set(r)
	l.release(w)
}

func (l *Ledger[R, T, W, P]) release(w P) {
	close(w.Base().Done)
	w.Release()
	w.Base().Cancel(nil)
}

// Recover ends the work that the end of the program cut off, as cut says, and
// lets that wait on which waits for an approval, unless again says why it could
// not begin any more.
func (l *Ledger[R, T, W, P]) Recover(ctx context.Context, again func(ctx context.Context, w P) error, cut func(w P) How[R]) error {
	for p, err := range store.All(ctx, store.Forgiving(l.Store), OpenPrefix) {
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(p.Key[len(OpenPrefix):], 10, 64)
		if err != nil {
			return fsys.E(fsys.Internal, "the database has an open "+l.What+" that is called "+p.Key)
		}
		err = l.recover(ctx, n, again, cut)
		if store.IsDamaged(err) { // it holds what it holds until it is removed
			l.Log.Error("a "+l.What+" cannot be ended, as what there is of it is damaged; remove it", l.What, n, "err", err)
			continue
		}
		if err != nil {
			return fsys.Wrap(fsys.Internal, l.For(n), err)
		}
	}
	return nil
}

func (l *Ledger[R, T, W, P]) recover(ctx context.Context, n int64, again func(ctx context.Context, w P) error, cut func(w P) How[R]) error {
	rec, err := l.Read(ctx, l.Store, n)
	if err != nil {
		return err
	}
	w := l.Live(l.Life, rec)
	if l.Standing(&rec).Awaiting && l.Approvals != nil {
		why := again(ctx, w)
		if why == nil {
			l.Cache.Enter(n, w)
			return nil
		}
		return l.Store.Update(ctx, func(tx store.Store) error {
			_, err := l.withdraw(ctx, tx, w, why)
			return err
		})
	}
	holds, err := l.resume(ctx, rec)
	if err != nil {
		return err
	}
	w.Base().SetHolds(holds...)
	if err := w.Open(ctx); err != nil {
		return err
	}
	return l.End(ctx, w, cut(w))
}

// resume returns the holds of rec that are still open.
func (l *Ledger[R, T, W, P]) resume(ctx context.Context, rec R) ([]*budget.Hold, error) {
	if l.Account == nil {
		return nil, fsys.E(fsys.Internal, "there is no account to settle it with")
	}
	var holds []*budget.Hold
	for _, id := range l.Standing(&rec).Holds {
		h, err := l.Account.Resume(ctx, id)
		if missing(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		holds = append(holds, h)
	}
	return holds, nil
}
