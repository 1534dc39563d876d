package work

import (
	"context"
	"errors"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/store"
)

// Removed is the event of work that is no longer there.
type Removed struct {
	Number int64
	Why    string // swept, or it was asked for
	// Of work whose record was damaged.
	Reason string
	Cost   *budget.Micros // all that was held for it
}

// Remove takes w out of the list, at once. If it has not ended it is stopped
// with why, and removed when it has.
func (l *Ledger[R, T, W, P]) Remove(ctx context.Context, w P, why error) error {
	err := l.removeWhole(ctx, w, why)
	if store.IsDamaged(err) {
		err = l.RemoveDamaged(ctx, w.Base().N)
	}
	return err
}

// RemoveDamaged removes work n, whose record is damaged.
func (l *Ledger[R, T, W, P]) RemoveDamaged(ctx context.Context, n int64) error {
	return l.Store.Update(ctx, func(tx store.Store) error { return l.erase(ctx, tx, n, "") })
}

func (l *Ledger[R, T, W, P]) removeWhole(ctx context.Context, w P, why error) error {
	if err := w.Open(ctx); err != nil {
		return err
	}
	running := false
	err := l.Store.Update(ctx, func(tx store.Store) error {
		r, err := l.Read(ctx, tx, w.Base().N)
		if err != nil {
			return err
		}
		if l.Standing(&r).Awaiting {
			if r, err = l.withdraw(ctx, tx, w, why); err != nil {
				return err
			}
		}
		s := l.Standing(&r)
		if running = s.Open; !running {
			return l.delete(ctx, tx, w, &r, "", time.Time{})
		}
		if err := l.forget(ctx, tx, s, time.Time{}); err != nil {
			return err
		}
		return l.Change(ctx, tx, w, func(r *R) { l.Standing(r).Listing.Removing = true })
	})
	if err != nil || !running {
		return err
	}
	return l.Stop(w, why)
}

// forget takes the idempotency key of work away, with a time if it stands for
// the work no longer then.
func (l *Ledger[R, T, W, P]) forget(ctx context.Context, tx store.Store, s Standing, at time.Time) error {
	if s.Key == "" || s.Listing.Removing {
		return nil
	}
	return l.Keys.Forget(ctx, tx, s.Key, s.Number, at)
}

// delete deletes all that is stored of w, which has ended as r says.
func (l *Ledger[R, T, W, P]) delete(ctx context.Context, tx store.Store, w P, r *R, why string, at time.Time) error {
	s := l.Standing(r)
	if err := l.forget(ctx, tx, s, at); err != nil {
		return err
	}
	if err := w.Drop(ctx, tx, r); err != nil {
		return err
	}
	if err := l.Put(ctx, tx, r, nil); err != nil {
		return err
	}
	if err := tx.Delete(ctx, RequestKey(s.Number)); err != nil {
		return err
	}
	store.After(tx, func() { l.vanish(s.Number) })
	return l.Note.Record(tx, l.Service+".removed", l.Removed(Removed{Number: s.Number, Why: why}))
}

// sweep removes work n, which has ended. Its key stands for it as long as it
// would otherwise.
func (l *Ledger[R, T, W, P]) sweep(ctx context.Context, tx store.Store, n int64) error {
	r, err := l.Read(ctx, store.Forgiving(tx), n)
	if store.IsDamaged(err) {
		return l.erase(ctx, tx, n, "swept")
	}
	if err != nil {
		return err
	}
	w := P(l.Cache.Known(n))
	if w == nil {
		w = l.past(n, r)
	}
	return l.delete(ctx, tx, w, &r, "swept", l.Now())
}

// erase deletes all that is stored of work n, whose record is damaged and which
// nobody works on. What was held for it counts as spent, as nobody knows.
func (l *Ledger[R, T, W, P]) erase(ctx context.Context, tx store.Store, n int64, why string) error {
	if l.Cache.Live(n) != nil {
		return fsys.E(fsys.Busy, "the "+l.What+" runs, and its record is damaged; remove it when it has ended, or after the next start")
	}
	r := Removed{Number: n, Why: why, Reason: Why + l.Lost}
	lost := budget.Micros(0)
	if l.Account != nil {
		var err error
		if lost, err = l.Account.SettleLost(ctx, tx, l.For(n), Why); err != nil {
			return err
		}
		r.Cost = &lost
	}
	prefixes := append([]string{RecPrefix, reqPrefix, ListPrefix, OpenPrefix}, l.Data...)
	if err := Erase(ctx, tx, n, prefixes, []string{EndedPrefix}); err != nil {
		return err
	}
	was, err := l.Totals(ctx, tx)
	if err != nil {
		return err
	}
	t, err := l.sum(ctx, tx)
	if err != nil {
		return err
	}
	l.Sums(&t).Spent = l.Sums(&was).Spent + lost
	store.After(tx, func() { l.vanish(n) })
	return errors.Join(store.PutJSON(ctx, tx, totalsKey, t), l.Note.Record(tx, l.Service+".removed", l.Removed(r)))
}

// vanish makes work n, if it is in memory, one that is no longer there.
func (l *Ledger[R, T, W, P]) vanish(n int64) {
	w := P(l.Cache.Remove(n))
	if w == nil {
		return
	}
	i := w.Base()
	i.mu.Lock()
	i.gone = true
	i.mu.Unlock()
	w.Release()
}
