package budget_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/store"
	"agent9/store/bolt"
	"agent9/store/mem"
)

// A bank is accounts in one database, with a clock that the test sets.
type bank struct {
	*testing.T
	s        store.Updater
	now      atomic.Pointer[time.Time]
	accounts map[string]*budget.Account
	noted    []string
}

func newBank(t *testing.T, s store.Updater) *bank {
	b := &bank{T: t, s: s, accounts: make(map[string]*budget.Account)}
	b.setClock("2026-01-01T12:00:00Z")
	return b
}

func (b *bank) setClock(s string) {
	now, err := time.Parse(time.RFC3339, s)
	b.must(err)
	b.now.Store(&now)
}

func (b *bank) open(name string, limits budget.Limits) *budget.Account {
	b.Helper()
	a, err := budget.Open(b.Context(), store.Sub(b.s, "accounts/"+name+"/"), budget.Options{
		Name:     name,
		Now:      func() time.Time { return *b.now.Load() },
		Defaults: limits,
		Note: func(_ store.Store, event string, detail any) error {
			b.noted = append(b.noted, event+" "+detail.(budget.Entry).Hold)
			return nil
		},
		Parent: func(_ context.Context, name string) (*budget.Account, error) {
			if a := b.accounts[name]; a != nil {
				return a, nil
			}
			return nil, fsys.NotExist
		},
	})
	b.must(err)
	b.accounts[name] = a
	return a
}

func (b *bank) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bank) take(a *budget.Account, max budget.Micros) (h *budget.Hold, err error) {
	ctx := budget.With(b.Context(), a)
	err = b.s.Update(ctx, func(tx store.Store) error {
		h, err = budget.Take(ctx, tx, max, "job 7")
		return err
	})
	return h, err
}

func (b *bank) mustTake(a *budget.Account, max budget.Micros) *budget.Hold {
	b.Helper()
	h, err := b.take(a, max)
	b.must(err)
	return h
}

func (b *bank) refused(a *budget.Account, max budget.Micros, reason string) {
	b.Helper()
	_, err := b.take(a, max)
	if fsys.CodeOf(err) != fsys.Exhausted || fsys.ReasonOf(err) != reason {
		b.Errorf("Take(%d): got %v, want Exhausted: %s", max, err, reason)
	}
}

func (b *bank) settle(h *budget.Hold, cost budget.Micros) {
	b.Helper()
	b.must(b.s.Update(b.Context(), func(tx store.Store) error { return h.Settle(tx, cost, "done") }))
}

func (b *bank) tick(a *budget.Account, id string) {
	b.Helper()
	b.must(b.s.Update(b.Context(), func(tx store.Store) error { return a.Tick(tx, id) }))
}

func (b *bank) usage(a *budget.Account) budget.Usage {
	b.Helper()
	u, err := a.Usage(b.Context())
	b.must(err)
	return u
}

// want checks what is held, and what was spent in the tick, the day, in all.
func (b *bank) want(a *budget.Account, held, tick, day, total budget.Micros) {
	b.Helper()
	u := b.usage(a)
	if u.Held != held || u.Tick.Spent != tick || u.Day.Spent != day || u.Total.Spent != total {
		b.Errorf("%s: got held %d, spent %d in the tick, %d today, %d in all; want %d, %d, %d, %d",
			a.Name(), u.Held, u.Tick.Spent, u.Day.Spent, u.Total.Spent, held, tick, day, total)
	}
}

func (b *bank) admit(a *budget.Account) error { return budget.Admit(budget.With(b.Context(), a)) }

func total(m budget.Micros) budget.Limits { return budget.Limits{Total: &m} }

func TestHoldThenSettle(t *testing.T) {
	b := newBank(t, mem.New())
	a := b.open("alice", total(100))
	h := b.mustTake(a, 60)
	if h.ID() != "1" || h.Max() != 60 || h.What() != "job 7" || !h.Since().Equal(*b.now.Load()) {
		t.Errorf("got hold %q %d %q %v", h.ID(), h.Max(), h.What(), h.Since())
	}
	b.want(a, 60, 0, 0, 0)
	b.refused(a, 41, "the job may cost 41 µ$, and 40 µ$ are left in all in account alice")
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
	if err := b.admit(a); fsys.CodeOf(err) != fsys.Exhausted || fsys.ReasonOf(err) != "nothing is left in all in account alice" {
		t.Errorf("Admit: got %v", err)
	}
	b.settle(b.mustTake(a, 0), 0) // free work goes on
	b.settle(h, 130)
	b.settle(free, 0)
	b.want(a, 0, 130, 130, 130)
	if u := b.usage(a); !u.Overdrawn || *u.Left != -30 {
		t.Errorf("got %+v, want overdrawn by 30", u)
	}
	reason := "the account is overdrawn by 30 µ$ in all in account alice"
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
	b.refused(a, 1, "the job may cost 1 µ$, and 0 µ$ are left in this tick in account alice")
	b.tick(a, "2") // the open hold counts on
	b.want(a, 40, 0, 10, 10)
	b.refused(a, 11, "the job may cost 11 µ$, and 10 µ$ are left in this tick in account alice")
	b.settle(b.mustTake(a, 10), 10)
	b.tick(a, "3")
	b.settle(open, 100) // is spent in the tick in which it is settled
	b.want(a, 0, 100, 120, 120)
	b.tick(a, "4")
	b.refused(a, 0, "the account is overdrawn by 20 µ$ today in account alice (resets 2026-01-02T00:00Z)")

	b.setClock("2026-01-02T00:00:00Z")
	b.want(a, 0, 0, 0, 120)
	open = b.mustTake(a, 50)
	b.setClock("2026-01-01T23:59:59Z") // a clock set back gives nothing back
	b.settle(open, 50)
	b.want(a, 0, 50, 50, 170)
	b.tick(a, "5")
	b.refused(a, 51, "the job may cost 51 µ$, and 50 µ$ are left today in account alice (resets 2026-01-03T00:00Z)")
	if u := b.usage(a); u.Day.Window != "2026-01-02" || u.Day.Resets != "2026-01-03T00:00Z" || u.Tick.Window != "5" {
		t.Errorf("got day %+v, tick %+v", u.Day, u.Tick)
	}
	open = b.mustTake(a, 50)
	b.setClock("2026-01-03T08:00:00Z") // a hold from yesterday counts today
	b.tick(a, "6")
	b.refused(a, 1, "the job may cost 1 µ$, and 0 µ$ are left in this tick in account alice")
	b.settle(open, 20)
	b.want(a, 0, 20, 20, 190)
}

func TestParents(t *testing.T) {
	b := newBank(t, mem.New())
	org := b.open("org", total(100))
	team := b.open("team", budget.Limits{Total: new(budget.Micros(80)), Parent: "org"})
	alice := b.open("alice", budget.Limits{Total: new(budget.Micros(60)), Parent: "team"})
	bob := b.open("bob", budget.Limits{Parent: "team"})

	ha := b.mustTake(alice, 50)
	for _, a := range []*budget.Account{alice, team, org} {
		b.want(a, 50, 0, 0, 0)
	}
	b.refused(bob, 31, "the job may cost 31 µ$, and 30 µ$ are left in all in account team")
	b.settle(b.mustTake(org, 30), 30)
	b.refused(bob, 21, "the job may cost 21 µ$, and 20 µ$ are left in all in account org")
	b.want(bob, 0, 0, 0, 0) // from all or from none
	b.want(team, 50, 0, 0, 0)
	if err := b.admit(bob); err != nil {
		t.Errorf("Admit: got %v", err)
	}
	hb := b.mustTake(bob, 20)
	if err := b.admit(bob); fsys.ReasonOf(err) != "nothing is left in all in account org" {
		t.Errorf("Admit: got %v", err)
	}

	// Who moves to another parent settles where the money was held.
	b.must(fsys.WriteFile(t.Context(), alice.Root(), "limits", []byte(`{"total_microusd": 60}`)))
	ha, err := alice.Resume(t.Context(), ha.ID())
	b.must(err)
	b.settle(ha, 5)
	b.want(alice, 0, 5, 5, 5)
	b.want(team, 20, 5, 5, 5)
	b.want(org, 20, 35, 35, 35)
	delete(b.accounts, "org") // what held money is gone: the rest is settled
	b.settle(hb, 20)
	b.want(team, 0, 25, 25, 25)
	b.want(bob, 0, 20, 20, 20)
	if _, err := b.take(bob, 1); fsys.CodeOf(err) != fsys.NotExist {
		t.Errorf("Take below an account that is gone: got %v, want NotExist", err)
	}
	ledger := b.ledger(team)
	if !strings.Contains(ledger, `"kind":"settle","hold":"1","account":"alice","max_microusd":50,"cost_microusd":5,"what":"job 7","reason":"done"`) {
		t.Errorf("the team's ledger does not say whose work it was:\n%s", ledger)
	}
}

func TestAboveItself(t *testing.T) {
	b := newBank(t, mem.New())
	a, c := b.open("a", budget.Limits{}), b.open("c", budget.Limits{Parent: "a"})
	for doc, reason := range map[string]string{
		`{"parent": "c"}`:    `account "a" is above itself, or more than 8 accounts lie one above the other`,
		`{"parent": "a"}`:    `account "a" is above itself, or more than 8 accounts lie one above the other`,
		`{"parent": "none"}`: `the parent account "none"`,
	} {
		err := fsys.WriteFile(t.Context(), a.Root(), "limits", []byte(doc))
		if fsys.CodeOf(err) != fsys.Invalid || fsys.ReasonOf(err) != reason {
			t.Errorf("%s: got %v, want Invalid: %s", doc, err, reason)
		}
	}
	b.mustTake(c, 1)
	b.want(a, 1, 0, 0, 0)
}

func TestRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	d, err := bolt.Open(path)
	b := newBank(t, d)
	b.must(err)
	a := b.open("alice", total(100))
	done, open := b.mustTake(a, 30), b.mustTake(a, 40)
	b.settle(done, 30)
	ledger := b.ledger(a)
	b.must(d.Close())

	d, err = bolt.Open(path)
	b.must(err)
	t.Cleanup(func() { d.Close() })
	b = newBank(t, d)
	a = b.open("alice", total(100))
	b.want(a, 40, 30, 30, 30)
	if got := b.ledger(a); got != ledger {
		t.Errorf("the ledger was\n%sand is\n%s", ledger, got)
	}
	holds, err := a.Holds(t.Context())
	b.must(err)
	if len(holds) != 1 || holds[0].ID() != open.ID() || holds[0].Max() != 40 || holds[0].What() != "job 7" {
		t.Fatalf("got holds %v, want the open one", holds)
	}
	if _, err := a.Resume(t.Context(), done.ID()); !errors.Is(err, fsys.NotExist) {
		t.Errorf("Resume of what was settled: got %v, want NotExist", err)
	}
	h, err := a.Resume(t.Context(), open.ID())
	b.must(err)
	b.settle(h, 10)
	b.settle(holds[0], 10) // the same one
	b.want(a, 0, 40, 40, 40)
	if h := b.mustTake(a, 60); h.ID() != "3" {
		t.Errorf("got id %s, want 3", h.ID())
	}
}

func TestManyAtOnce(t *testing.T) {
	for name, open := range map[string]func(*testing.T) store.Updater{
		"mem": func(*testing.T) store.Updater { return mem.New() },
		"bolt": func(t *testing.T) store.Updater {
			d, err := bolt.Open(filepath.Join(t.TempDir(), "db"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { d.Close() })
			return d
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t, open(t))
			b.open("team", total(50*7))
			a := b.open("alice", budget.Limits{Parent: "team"})
			var got, refused atomic.Int32
			var wg sync.WaitGroup
			for range 200 {
				wg.Go(func() {
					h, err := b.take(a, 7)
					switch {
					case err == nil:
						got.Add(1)
						b.settle(h, 7)
					case fsys.CodeOf(err) == fsys.Exhausted:
						refused.Add(1)
					default:
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if got.Load() != 50 || refused.Load() != 150 {
				t.Errorf("%d were paid and %d refused, want 50 and 150", got.Load(), refused.Load())
			}
			b.want(a, 0, 350, 350, 350)
			b.want(b.accounts["team"], 0, 350, 350, 350)
			b.replay(a)
			b.replay(b.accounts["team"])
		})
	}
}

func TestLimitsFile(t *testing.T) {
	b := newBank(t, mem.New())
	a := b.open("alice", total(100))
	ctx := fsys.WithCaller(t.Context(), fsys.Operator)
	read := func() string {
		t.Helper()
		doc, err := fsys.ReadFile(ctx, a.Root(), "limits")
		b.must(err)
		return string(doc)
	}
	first := `{"per_tick_microusd":null,"per_day_microusd":null,"total_microusd":100,"approval_threshold_microusd":null}` + "\n"
	if got := read(); got != first {
		t.Errorf("got %s, want %s", got, first)
	}
	const fields = "there are per_tick_microusd, per_day_microusd, total_microusd, approval_threshold_microusd and parent"
	for doc, reason := range map[string]string{
		`{"per_day_microusd": 5, "per_week_microusd": 1}`: `unknown field "per_week_microusd": ` + fields,
		`{"per_day_microusd": 1.5}`:                       "per_day_microusd is a whole number of millionths of a dollar, or null for no limit, not number 1.5",
		`{"total_microusd": "5"}`:                         "total_microusd is a whole number of millionths of a dollar, or null for no limit, not string",
		`{"total_microusd": -5}`:                          "an amount of money is from 0 to 1000000000000000 µ$, not -5",
		`{"total_microusd": 1000000000000001}`:            "an amount of money is from 0 to 1000000000000000 µ$, not 1000000000000001",
		`{"parent": 5}`:                                   "parent cannot be a number",
		`[]`:                                              `limits are one JSON object, such as {"per_day_microusd": 5000000}`,
	} {
		err := fsys.WriteFile(ctx, a.Root(), "limits", []byte(doc))
		if fsys.CodeOf(err) != fsys.Invalid || fsys.ReasonOf(err) != reason {
			t.Errorf("%s: got %v, want Invalid: %s", doc, err, reason)
		}
	}
	for _, doc := range []string{`null`, `5`, `{"total_microusd": 1`} {
		if err := fsys.WriteFile(ctx, a.Root(), "limits", []byte(doc)); fsys.CodeOf(err) != fsys.Invalid {
			t.Errorf("%s: got %v, want Invalid", doc, err)
		}
	}
	if got := read(); got != first {
		t.Errorf("after refusals: got %s, want %s", got, first)
	}
	h := b.mustTake(a, 100)
	b.must(fsys.WriteFile(ctx, a.Root(), "limits", []byte(`{"per_day_microusd": 120, "approval_threshold_microusd": 1000}`+"\n")))
	b.settle(b.mustTake(a, 20), 20) // at once
	b.settle(h, 100)
	b.refused(a, 1, "the job may cost 1 µ$, and 0 µ$ are left today in account alice (resets 2026-01-02T00:00Z)")
	l, err := a.Limits(ctx)
	b.must(err)
	if l.Total != nil || *l.PerDay != 120 || *l.ApprovalThreshold != 1000 {
		t.Errorf("got limits %s", fsys.Line(l))
	}
	want := `{"time":"2026-01-01T12:00:00.000Z","kind":"limits","limits":{"per_tick_microusd":null,"per_day_microusd":120,"total_microusd":null,"approval_threshold_microusd":1000},"by":"operator"}`
	if got := b.ledger(a); !strings.Contains(got, want) {
		t.Errorf("the ledger\n%slacks\n%s", got, want)
	}
	usage, err := fsys.ReadFile(ctx, a.Root(), "usage")
	b.must(err)
	want = `{"held_microusd":0,"holds":0,"left_microusd":0,"overdrawn":false,` +
		`"tick":{"spent_microusd":120,"limit_microusd":null,"left_microusd":null},` +
		`"day":{"window":"2026-01-01","spent_microusd":120,"limit_microusd":120,"left_microusd":0,"resets":"2026-01-02T00:00Z"},` +
		`"total":{"spent_microusd":120,"limit_microusd":null,"left_microusd":null}}` + "\n"
	if string(usage) != want {
		t.Errorf("usage is\n%swant\n%s", usage, want)
	}
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
	// the job may cost 600000 µ$, and 400000 µ$ are left today (resets 2026-01-02T00:00Z)
	// 0 750000
}
