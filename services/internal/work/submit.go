package work

import (
	"context"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/store"
)

// An Order is a request for work, and what it takes.
type Order[R, W any] struct {
	Raw  []byte          // the request
	Asks budget.Question // of whoever approves it
	Max  budget.Micros   // held
	TTL  time.Duration   // of the idempotency key
	// Record returns work n, in the transaction of tx, and notes the event. It
	// calls hold once. now says whether it begins at once.
	Record func(ctx context.Context, tx store.Store, n int64, now bool, hold func() (*budget.Hold, error)) (*W, error)
}

// Submit makes the request of key and hash work, or finds the work that it
// already is, and returns its number. An empty key stands for nothing. plan says
// what a new one takes, and refuses what nobody can or may do.
func (l *Ledger[R, T, W, P]) Submit(ctx context.Context, key, hash string, plan func() (Order[R, W], error)) (int64, error) {
	if n, err := l.Keys.Prior(ctx, l.Store, key, hash); n != 0 || err != nil {
		return n, err
	}
	o, err := plan()
	if err != nil {
		return 0, err
	}
	now, err := l.Crew.Claim()
	if err != nil {
		return 0, err
	}
	n, fresh, err := l.record(ctx, key, hash, o, now)
	if !fresh {
		l.Crew.Unclaim(now)
	}
	return n, err
}

// record writes down new work with its money, in one transaction with the look
// at what the key stands for, and starts it when that is on disk. It returns
// the number, and whether it is a new one.
func (l *Ledger[R, T, W, P]) record(ctx context.Context, key, hash string, o Order[R, W], now bool) (n int64, fresh bool, err error) {
	var w *W
	err = l.Store.Update(ctx, func(tx store.Store) error {
		if n, err = l.Keys.Prior(ctx, tx, key, hash); n != 0 || err != nil {
			return err
		}
		if err := l.Allowed(ctx); err != nil {
			return err
		}
		if n, err = Next(ctx, tx, nextKey); err != nil {
			return err
		}
		var hold *budget.Hold
		w, err = o.Record(ctx, tx, n, now, func() (taken *budget.Hold, err error) {
			hold, err = l.take(ctx, tx, n, o)
			return hold, err
		})
		if err != nil {
			return err
		}
		i := P(w).Base()
		i.SetHolds(hold)
		if err := l.Put(ctx, tx, nil, &i.rec); err != nil {
			return err
		}
		if err := tx.Put(ctx, RequestKey(n), o.Raw); err != nil {
			return err
		}
		if err := l.Keys.Enter(ctx, tx, key, Key{Number: n, Hash: hash, Expires: l.Now().Add(o.TTL)}); err != nil {
			return err
		}
		if err := l.Keys.Sweep(ctx, tx); err != nil {
			return err
		}
		l.Cache.Enter(n, w)
		store.After(tx, func() {
			fresh = true
			if hold.Waits() {
				l.Crew.Unclaim(now)
			} else {
				l.Crew.Launch(w, now)
			}
		})
		return nil
	})
	if err == nil {
		return n, fresh, nil
	}
	if w != nil {
		l.Cache.Undo(n, w)
		P(w).Base().Cancel(err)
	}
	return 0, false, err
}

// take takes the money of work n. If it waits, the work does: a person is asked.
func (l *Ledger[R, T, W, P]) take(ctx context.Context, tx store.Store, n int64, o Order[R, W]) (*budget.Hold, error) {
	if l.Approvals == nil {
		return budget.Take(ctx, tx, o.Max, l.For(n))
	}
	o.Asks.Service, o.Asks.Job = l.Service, n
	return l.Approvals.Take(ctx, tx, o.Max, l.For(n), o.Asks)
}

// approved is told of what a person decided, or nobody in time, about work that
// waits: it is queued with its hold, or it has ended.
func (l *Ledger[R, T, W, P]) approved(ctx context.Context, tx store.Store, n int64, hold *budget.Hold, refused error) error {
	w := P(l.Cache.Live(n))
	tx = store.In(tx, l.Store)
	switch {
	case w == nil:
		return fsys.E(fsys.Internal, "the "+l.What+" that waits for this is not there")
	case refused != nil:
		_, err := l.end(ctx, tx, w, []*budget.Hold{hold}, l.refused(refused))
		return err
	case l.Life.Err() != nil:
		return fsys.E(fsys.Unavailable, "the daemon is shutting down")
	}
	if err := l.Change(ctx, tx, w, l.Queue); err != nil {
		return err
	}
	store.After(tx, func() { l.Crew.Enqueue(w, func() { w.Base().SetHolds(hold) }) })
	return nil
}

// refused is how work ends that has not begun.
func (l *Ledger[R, T, W, P]) refused(why error) How[R] {
	return func(_ context.Context, _ store.Store, r *R) (string, error) {
		l.Refuse(r, why)
		return fsys.ReasonOf(why), nil
	}
}

// withdraw ends w with why if it waits for an approval, and returns its record;
// NotExist if it does not wait, or not any longer.
func (l *Ledger[R, T, W, P]) withdraw(ctx context.Context, tx store.Store, w P, why error) (r R, err error) {
	r = w.Base().Record()
	s := l.Standing(&r)
	if !s.Awaiting {
		return r, fsys.NotExist
	}
	hold, err := l.Approvals.Withdraw(ctx, tx, s.Holds[0])
	if err != nil {
		return r, err
	}
	return l.end(ctx, tx, w, []*budget.Hold{hold}, l.refused(why))
}

// stopWaiting ends w with why if it waits for an approval, and reports whether
// it did.
func (l *Ledger[R, T, W, P]) stopWaiting(w P, why error) (bool, error) {
	r := w.Base().Record()
	if !l.Standing(&r).Awaiting {
		return false, nil
	}
	ctx := context.WithoutCancel(l.Life)
	err := l.Store.Update(ctx, func(tx store.Store) error {
		_, err := l.withdraw(ctx, tx, w, why)
		return err
	})
	if missing(err) {
		return false, nil
	}
	return err == nil, err
}
