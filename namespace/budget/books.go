package budget

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"agent9/fsys"
	"agent9/store"
)

// The records of an account: "limits", "totals", "hold/<id>", and the ledger.
const (
	limitsKey  = "limits"
	totalsKey  = "totals"
	holdPrefix = "hold/"
)

// totals is what the entries of a ledger add up to.
type totals struct {
	Held  Micros `json:"held"`
	Holds int    `json:"holds"` // open ones
	Last  uint64 `json:"last"`  // id of the last hold
	Tick  string `json:"tick"`  // the tick that runs or ran last
	// Closed says that the account is being removed.
	Closed bool   `json:"closed,omitempty"`
	Day    string `json:"day"` // UTC, as 2026-01-02; the greatest there was
	// Spent in the window of that name, and in all.
	TickSpent  Micros `json:"tick_spent"`
	DaySpent   Micros `json:"day_spent"`
	TotalSpent Micros `json:"total_spent"`
}

// ceiling is where sums end, so that none overflows.
const ceiling = 1 << 61

func add(sum, amount Micros) Micros { return min(sum+amount, ceiling) }

// turn makes the window of now the current one.
func (t *totals) turn(now time.Time) {
	if day := now.UTC().Format(time.DateOnly); day > t.Day {
		t.Day, t.DaySpent = day, 0
	}
}

// apply is the only place where totals change.
func (t *totals) apply(now time.Time, e Entry) {
	t.turn(now)
	switch e.Kind {
	case "hold":
		t.Held, t.Holds = add(t.Held, *e.Max), t.Holds+1
	case "settle", "release":
		t.Held, t.Holds = t.Held-*e.Max, t.Holds-1
		t.TickSpent = add(t.TickSpent, *e.Cost)
		t.DaySpent = add(t.DaySpent, *e.Cost)
		t.TotalSpent = add(t.TotalSpent, *e.Cost)
	case "tick":
		t.Tick, t.TickSpent = e.Tick, 0
	case "close":
		t.Closed = true
	}
}

// books are the records of an account as one moment, or one transaction, sees
// them.
type books struct {
	a      *Account
	now    time.Time
	limits Limits
	totals totals
}

// in returns the records as tx sees them, which is nil if there is none.
func (a *Account) in(tx store.Store) store.Store {
	if tx == nil {
		return a.st
	}
	return store.In(tx, a.st)
}

func (a *Account) books(ctx context.Context, tx store.Store) (*books, error) {
	s := a.in(tx)
	b := &books{a: a, now: a.opts.Now()}
	var err error
	if b.limits, err = a.limits(ctx, s); err != nil {
		return nil, err
	}
	b.totals, err = store.GetJSON[totals](ctx, s, totalsKey)
	if err != nil && !errors.Is(err, fsys.NotExist) {
		return nil, err
	}
	if b.totals.Closed || a.ended.Load() {
		return nil, fsys.E(fsys.NotExist, fmt.Sprintf("the account %s is gone", a.opts.Name))
	}
	b.totals.turn(b.now)
	return b, nil
}

// enter writes e, with its time, to the books of the transaction tx.
func (b *books) enter(tx store.Store, e Entry) error {
	e.Time = fsys.Stamp(b.now)
	b.totals.apply(b.now, e)
	if err := store.PutJSON(b.a.ctx, store.In(tx, b.a.st), totalsKey, b.totals); err != nil {
		return err
	}
	if err := b.a.ledger.Append(tx, fsys.Line(e)); err != nil {
		return err
	}
	e.Time = "" // an event has a time of its own
	return b.a.opts.Note.Record(tx, "budget."+e.Kind, e)
}

// maxDepth is how many accounts may lie one above the other.
const maxDepth = 8

// chain returns the books of a and of the accounts above it, as tx sees them.
func (a *Account) chain(ctx context.Context, tx store.Store) ([]*books, error) {
	var chain []*books
	for at := a; ; {
		b, err := at.books(ctx, tx)
		if err != nil {
			return nil, err
		}
		chain = append(chain, b)
		name := b.limits.Parent
		if name == "" {
			return chain, nil
		}
		if at, err = at.parent(ctx, tx, name); err != nil {
			return nil, err
		}
		if len(chain) == maxDepth || slices.ContainsFunc(chain, func(b *books) bool { return b.a == at }) {
			return nil, fsys.E(fsys.Invalid, fmt.Sprintf("account %q is its own ancestor, or has more than %d accounts above it", name, maxDepth))
		}
	}
}

func (a *Account) parent(ctx context.Context, tx store.Store, name string) (*Account, error) {
	if a.opts.Parent == nil {
		return nil, fsys.E(fsys.NotExist, fmt.Sprintf("there is no account %q", name))
	}
	p, err := a.opts.Parent(ctx, tx, name)
	return p, fsys.Wrap(fsys.Internal, fmt.Sprintf("the parent account %q", name), err)
}

// A Window is what was spent in a tick, a day, or in all.
type Window struct {
	Window string  `json:"window,omitempty"` // the tick's id, or the date
	Spent  Micros  `json:"spent_microusd"`
	Limit  *Micros `json:"limit_microusd"` // null: none
	Left   *Micros `json:"left_microusd"`  // less what is held; negative when overdrawn
	Resets string  `json:"resets,omitempty"`

	when string // in a reason: "left today"
}

func (b *books) windows() (tick, day, total Window) {
	t := b.totals
	window := func(name, when string, spent Micros, limit *Micros) Window {
		w := Window{Window: name, Spent: spent, Limit: limit, when: when}
		if limit != nil {
			w.Left = new(*limit - spent - t.Held)
		}
		return w
	}
	tick = window(t.Tick, "since the last tick began", t.TickSpent, b.limits.PerTick)
	day = window(t.Day, "today", t.DaySpent, b.limits.PerDay)
	if date, err := time.Parse(time.DateOnly, t.Day); err == nil {
		day.Resets = date.AddDate(0, 0, 1).Format("2006-01-02T15:04Z07:00")
	}
	return tick, day, window("", "in total", t.TotalSpent, b.limits.Total)
}

// tightest returns the window that has the least left, if any is limited.
func (b *books) tightest() (w Window, limited bool) {
	tick, day, total := b.windows()
	for _, next := range []Window{total, day, tick} {
		if next.Left != nil && (!limited || *next.Left < *w.Left) {
			w, limited = next, true
		}
	}
	return w, limited
}

// where says which window, whose, and when it turns.
func (b *books) where(w Window) string {
	s := w.when
	if b.a.opts.Name != "" {
		s += " in account " + b.a.opts.Name
	}
	if w.Resets != "" {
		s += " (resets " + w.Resets + ")"
	}
	return s
}

// room reports whether max can be set aside.
func (b *books) room(max Micros) error {
	w, limited := b.tightest()
	switch {
	case limited && *w.Left < 0:
		return b.overdrawn(w)
	case limited && max > *w.Left:
		return fsys.E(fsys.Exhausted, fmt.Sprintf("the work may cost %s, and %s is left %s", max.Dollars(), w.Left.Dollars(), b.where(w)))
	case b.totals.Held > ceiling-max:
		return fsys.E(fsys.Exhausted, "the sum of all holds is too large to count")
	}
	return nil
}

// admit reports whether anything can be set aside at all.
func (b *books) admit() error {
	w, limited := b.tightest()
	switch {
	case limited && *w.Left < 0:
		return b.overdrawn(w)
	case limited && *w.Left == 0:
		return fsys.E(fsys.Exhausted, "nothing is left "+b.where(w))
	}
	return nil
}

func (b *books) overdrawn(w Window) error {
	return fsys.E(fsys.Exhausted, fmt.Sprintf("overdrawn by %s %s", (-*w.Left).Dollars(), b.where(w)))
}
