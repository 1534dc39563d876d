package work

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/store"
)

// A Piece is a service's type of work, which embeds [Item].
type Piece[R, W any] interface {
	*W
	Base() *Item[R]
	// Run does the work, which begins now, and records its end with
	// [Ledger.End] or [Ledger.Leave].
	Run()
	// Finish records that the work ended with why before it began.
	Finish(why error) error
	// Open opens the streams of the work, if they are not open.
	Open(ctx context.Context) error
	// Release lets readers go; the work has ended or is gone. It may be called
	// more than once.
	Release()
	// Drop deletes, in the transaction of tx, what is stored of the work, which
	// has ended, besides its record and request.
	Drop(ctx context.Context, tx store.Store, r *R) error
}

// How makes r, which has not ended, the record of work that has, in the
// transaction of tx. The reason is for the account.
type How[R any] func(ctx context.Context, tx store.Store, r *R) (reason string, err error)

// A Ledger has the work of a service: see the package's documentation.
type Ledger[R, T, W any, P Piece[R, W]] struct {
	*Table[R, T]
	// Service is the name of the service in events, accounts and approvals.
	Service string
	// Life ends what may begin.
	Life context.Context
	// Store is the service's own.
	Store store.Updater
	// Note records events.
	Note store.Note
	// Now is the clock.
	Now func() time.Time
	// Account pays for what the end of the program cut off.
	Account *budget.Account
	// Approvals ask for what costs much; nil: that is refused.
	Approvals *budget.Approvals
	// Allowed says why nothing may begin, or nil. It is asked in the transaction
	// that records work.
	Allowed func(ctx context.Context) error
	// Log is where the ledger tells of what it cannot mend.
	Log *slog.Logger

	// Make returns work that is nothing yet.
	Make func() P
	// Queue makes r, which was approved, one that waits to begin.
	Queue func(r *R)
	// Refuse makes r, which waits, one that has ended with why.
	Refuse func(r *R, why error)
	// Ended is called in the transaction that records the end r.
	Ended func(ctx context.Context, tx store.Store, r *R) error
	// Old reports whether what ended so long ago, as the oldest, is to go.
	Old func(ctx context.Context, tx store.Store, age time.Duration) (bool, error)
	// Removed is the event of work that is gone.
	Removed func(Removed) any
	// Lost, if set, is said of work that is gone with a damaged record.
	Lost string

	Keys  Keys
	Crew  Crew[W]
	Cache Cache[W]
}

// Begin makes the ledger ready. Its exported fields up to Keys are set.
func (l *Ledger[R, T, W, P]) Begin() {
	l.Keys = Keys{What: l.What, Now: l.Now, Lasts: l.lasts}
	l.Crew.Life, l.Crew.What = l.Life, l.What+"s"
	l.Crew.Do = func(w *W) { P(w).Run() }
	if l.Approvals != nil {
		l.Approvals.Tell(l.Service, l.approved)
	}
}

// For says in the account what money is for.
func (l *Ledger[R, T, W, P]) For(n int64) string {
	return l.Service + " " + l.What + " " + strconv.FormatInt(n, 10)
}

// lasts reports whether key stands for work n although its time is over: the
// work has not ended, or has a directory of that name.
func (l *Ledger[R, T, W, P]) lasts(ctx context.Context, st store.Store, key string, n int64) (bool, error) {
	if _, err := st.Get(ctx, OpenKey(n)); !missing(err) {
		return err == nil, err
	}
	name, err := st.Get(ctx, ListKey(n))
	if missing(err) {
		return false, nil
	}
	return string(name) == key, err
}

// Live returns work that has not ended, whose context is one of ctx.
func (l *Ledger[R, T, W, P]) Live(ctx context.Context, rec R) P {
	w := l.Make()
	i := w.Base()
	i.N, i.rec, i.standing, i.Done = l.Standing(&rec).Number, rec, l.Standing, make(chan struct{})
	i.Ctx, i.Cancel = context.WithCancelCause(ctx)
	return w
}

// past returns work n, which has ended.
func (l *Ledger[R, T, W, P]) past(n int64, rec R) P {
	w := l.Make()
	i := w.Base()
	i.N, i.rec, i.standing, i.Done = n, rec, l.Standing, make(chan struct{})
	close(i.Done)
	return w
}

// Find returns work n, or NotExist.
func (l *Ledger[R, T, W, P]) Find(ctx context.Context, n int64) (P, error) {
	w, err := l.Cache.Get(ctx, n, func() (*W, bool, error) {
		rec, err := l.Read(ctx, l.Store, n)
		if err != nil {
			return nil, false, err
		}
		return l.past(n, rec), !l.Standing(&rec).Open, nil
	})
	if err != nil {
		return nil, err
	}
	return w, P(w).Base().Present()
}

// Change alters the record of w in a transaction, and in memory when that is
// committed.
func (l *Ledger[R, T, W, P]) Change(ctx context.Context, tx store.Store, w P, alter func(*R)) error {
	i := w.Base()
	before, err := l.Read(ctx, tx, i.N)
	if err != nil {
		return err
	}
	after := before
	alter(&after)
	store.After(tx, func() { i.set(after) })
	return l.Put(ctx, tx, &before, &after)
}

// Hide takes a file out of the directory of w.
func (l *Ledger[R, T, W, P]) Hide(ctx context.Context, w P, name string) error {
	return l.Store.Update(ctx, func(tx store.Store) error {
		return l.Change(ctx, tx, w, func(r *R) {
			if of := l.Standing(r).Listing; !slices.Contains(of.Hidden, name) {
				of.Hidden = append(of.Hidden, name)
			}
		})
	})
}

// Request is the request of w, with a newline at its end.
func (l *Ledger[R, T, W, P]) Request(ctx context.Context, w P) ([]byte, error) {
	b, err := l.Store.Get(ctx, RequestKey(w.Base().N))
	if err == nil && (len(b) == 0 || b[len(b)-1] != '\n') {
		b = append(b, '\n')
	}
	return b, err
}

// List returns the names of what is shown; dir walks to them.
func (l *Ledger[R, T, W, P]) List(ctx context.Context, dir Walker) ([]fsys.Entry, error) {
	var list []fsys.Entry
	for p, err := range store.All(ctx, store.Forgiving(l.Store), ListPrefix) {
		if err != nil {
			return nil, err
		}
		name := string(p.Value)
		if name == "" {
			name = strings.TrimLeft(p.Key[len(ListPrefix):], "0")
		}
		list = append(list, fsys.Entry{Name: name, Node: Later(dir, name)})
	}
	return list, nil
}

// Unfinished returns how many pieces wait or run.
func (l *Ledger[R, T, W, P]) Unfinished() int { return l.Cache.Len() + l.Crew.Recording() }

// Stop ends w, which has not ended, with why. If it runs it is over when Run
// has returned.
func (l *Ledger[R, T, W, P]) Stop(w P, why error) error {
	if over, err := l.stopWaiting(w, why); over || err != nil {
		return err
	}
	_, err := l.Crew.Withdraw(w, func() { w.Base().Cancel(why) }, func() error { return w.Finish(why) })
	return err
}

// StopAll ends all that waits or runs with why, the last one first, so that
// none begins because another one ends.
func (l *Ledger[R, T, W, P]) StopAll(why error) error {
	var errs []error
	for _, w := range slices.Backward(l.Cache.AllLive()) {
		errs = append(errs, l.Stop(w, why))
	}
	return errors.Join(errs...)
}
