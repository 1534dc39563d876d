package budget_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/store"
	"agent9/store/mem"
)

func TestHoldThenSettle(t *testing.T) {
	b := newBank(t, mem.New())
	a := b.open("alice", total(100))
	h := b.mustTake(a, 60)
	if h.ID() != "1" || h.Max() != 60 || h.What() != "job 7" || !h.Since().Equal(*b.now.Load()) {
		t.Errorf("got hold %q %d %q %v", h.ID(), h.Max(), h.What(), h.Since())
	}
	b.want(a, 60, 0, 0, 0)
	b.refused(a, 41, "the work may cost $0.000041, and $0.00004 is left in total in account alice")
	h2 := b.mustTake(a, 40)
	b.settle(h, 10)
	b.settle(h, 10) // once is enough
	b.want(a, 40, 10, 10, 10)
	b.settle(h2, 0)
	b.want(a, 0, 10, 10, 10)
	if h = b.mustTake(a, 90); h.ID() != "3" {
		t.Errorf("got id %s, want 3: an id is never used again", h.ID())
	}
	if got, want := strings.Join(b.noted, ","), "budget.hold 1,budget.hold 2,budget.settle 1,budget.release 2,budget.hold 3"; got != want {
		t.Errorf("noted %s, want %s", got, want)
	}
}

func TestUndoneTransactionTakesNothing(t *testing.T) {
	b := newBank(t, mem.New())
	a := b.open("alice", total(100))
	h := b.mustTake(a, 10)
	ctx := budget.With(t.Context(), a)
	b.s.Update(ctx, func(tx store.Store) error {
		_, err := budget.Take(ctx, tx, 20, "job 8")
		b.must(err)
		b.must(h.Settle(tx, 5, "done"))
		return fsys.Busy
	})
	b.want(a, 10, 0, 0, 0)
	b.must(b.s.Update(ctx, func(tx store.Store) error {
		_, err := budget.Take(ctx, tx, 20, "job 8")
		b.must(err)
		_, err = budget.Take(ctx, tx, 71, "job 9") // sees the one before
		if fsys.CodeOf(err) != fsys.Exhausted {
			t.Errorf("got %v, want Exhausted", err)
		}
		return h.Settle(tx, 5, "done")
	}))
	b.want(a, 20, 5, 5, 5)
}

func TestOverdrawn(t *testing.T) {
	b := newBank(t, mem.New())
	a := b.open("alice", total(100))
	b.must(b.admit(a))
	h, free := b.mustTake(a, 50), b.mustTake(a, 50)
	if err := b.admit(a); fsys.CodeOf(err) != fsys.Exhausted || fsys.ReasonOf(err) != "nothing is left in total in account alice" {
		t.Errorf("Admit: got %v", err)
	}
	b.settle(b.mustTake(a, 0), 0) // free work goes on
	b.settle(h, 130)
	b.settle(free, 0)
	b.want(a, 0, 130, 130, 130)
	if u := b.usage(a); !u.Overdrawn || *u.Left != -30 {
		t.Errorf("got %+v, want overdrawn by 30", u)
	}
	reason := "overdrawn by $0.00003 in total in account alice"
	b.refused(a, 0, reason)
	b.refused(a, 1, reason)
	if err := b.admit(a); fsys.CodeOf(err) != fsys.Exhausted || fsys.ReasonOf(err) != reason {
		t.Errorf("Admit: got %v", err)
	}
}

func TestNoAccount(t *testing.T) {
	s := mem.New()
	for what, err := range map[string]error{
		"Admit": budget.Admit(t.Context()),
		"Take": s.Update(t.Context(), func(tx store.Store) error {
			_, err := budget.Take(t.Context(), tx, 0, "job")
			return err
		}),
	} {
		if fsys.CodeOf(err) != fsys.Exhausted || fsys.ReasonOf(err) != "no budget is mounted here" {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if _, ok := budget.From(t.Context()); ok {
		t.Error("From: got an account")
	}
}

func TestAmounts(t *testing.T) {
	b := newBank(t, mem.New())
	a := b.open("alice", budget.Limits{})
	for _, m := range []budget.Micros{-1, budget.Most + 1, -1 << 63, 1<<63 - 1} {
		if _, err := b.take(a, m); fsys.CodeOf(err) != fsys.Invalid {
			t.Errorf("Take(%d): got %v, want Invalid", m, err)
		}
		h := b.mustTake(a, 1)
		err := b.s.Update(t.Context(), func(tx store.Store) error { return h.Settle(tx, m, "") })
		if fsys.CodeOf(err) != fsys.Invalid {
			t.Errorf("Settle(%d): got %v, want Invalid", m, err)
		}
		b.settle(h, 0)
	}
	b.settle(b.mustTake(a, budget.Most), budget.Most)
	b.want(a, 0, budget.Most, budget.Most, budget.Most)
	if u := b.usage(a); u.Left != nil {
		t.Errorf("without limits: %d left, want no limit", *u.Left)
	}
}

func TestWindows(t *testing.T) {
	b := newBank(t, mem.New())
	a := b.open("alice", budget.Limits{PerTick: new(budget.Micros(50)), PerDay: new(budget.Micros(100))})
	b.setClock("2026-01-01T23:59:59Z")
	b.tick(a, "1")
	open := b.mustTake(a, 40)
	b.settle(b.mustTake(a, 10), 10)
	b.refused(a, 1, "the work may cost $0.000001, and $0.00 is left since the last tick began in account alice")
	b.tick(a, "2") // the open hold counts on
	b.want(a, 40, 0, 10, 10)
	b.refused(a, 11, "the work may cost $0.000011, and $0.00001 is left since the last tick began in account alice")
	b.settle(b.mustTake(a, 10), 10)
	b.tick(a, "3")
	b.settle(open, 100) // is spent in the tick in which it is settled
	b.want(a, 0, 100, 120, 120)
	b.tick(a, "4")
	b.refused(a, 0, "overdrawn by $0.00002 today in account alice (resets 2026-01-02T00:00Z)")

	b.setClock("2026-01-02T00:00:00Z")
	b.want(a, 0, 0, 0, 120)
	open = b.mustTake(a, 50)
	b.setClock("2026-01-01T23:59:59Z") // a clock set back gives nothing back
	b.settle(open, 50)
	b.want(a, 0, 50, 50, 170)
	b.tick(a, "5")
	b.refused(a, 51, "the work may cost $0.000051, and $0.00005 is left today in account alice (resets 2026-01-03T00:00Z)")
	if u := b.usage(a); u.Day.Window != "2026-01-02" || u.Day.Resets != "2026-01-03T00:00Z" || u.Tick.Window != "5" {
		t.Errorf("got day %+v, tick %+v", u.Day, u.Tick)
	}
	open = b.mustTake(a, 50)
	b.setClock("2026-01-03T08:00:00Z") // a hold from yesterday counts today
	b.tick(a, "6")
	b.refused(a, 1, "the work may cost $0.000001, and $0.00 is left since the last tick began in account alice")
	b.settle(open, 20)
	b.want(a, 0, 20, 20, 190)
}

func TestNoteRefuses(t *testing.T) {
	s := mem.New()
	a, err := budget.Open(t.Context(), s, budget.Options{
		Note: func(store.Store, string, any) error { return fsys.E(fsys.Busy, "no events") },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx := budget.With(t.Context(), a)
	err = s.Update(ctx, func(tx store.Store) error {
		_, err := budget.Take(ctx, tx, 1, "job")
		return err
	})
	if u, uerr := a.Usage(ctx); fsys.CodeOf(err) != fsys.Busy || uerr != nil || u.Held != 0 {
		t.Errorf("got %v, held %d, %v; want Busy and nothing held", err, u.Held, uerr)
	}
}

func ExampleTake() {
	ctx, s := context.Background(), mem.New()
	account, _ := budget.Open(ctx, store.Sub(s, "budget/"), budget.Options{
		Defaults: budget.Limits{PerDay: new(budget.Micros(1000000))},
		Now:      func() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) },
	})
	ctx = budget.With(ctx, account) // the mount does this
	var holds []*budget.Hold
	submit := func(tx store.Store) error {
		hold, err := budget.Take(ctx, tx, 600000, "a job")
		if err == nil {
			holds = append(holds, hold)
		}
		return err
	}
	fmt.Println(s.Update(ctx, submit))
	fmt.Println(fsys.ReasonOf(s.Update(ctx, submit)))
	s.Update(ctx, func(tx store.Store) error { return holds[0].Settle(tx, 250000, "done") })
	u, _ := account.Usage(ctx)
	fmt.Println(u.Held, *u.Left)
	// Output:
	// <nil>
	// the work may cost $0.60, and $0.40 is left today (resets 2026-01-02T00:00Z)
	// 0 750000
}
