package budget_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/store"
)

// A bank is accounts in one database, with a clock that the test sets.
type bank struct {
	*testing.T
	s        store.Updater
	now      atomic.Pointer[time.Time]
	accounts map[string]*budget.Account
	noted    []string
	moves    []string
	of       map[*budget.Approvals]*budget.Account
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
			var d struct{ Hold, ID string }
			b.must(json.Unmarshal(fsys.Line(detail), &d))
			b.noted = append(b.noted, event+" "+d.Hold+d.ID)
			return nil
		},
		Moved: func(_ context.Context, _ store.Store, from, to string) error {
			b.moves = append(b.moves, name+": "+from+" to "+to)
			return nil
		},
		Parent: func(_ context.Context, _ store.Store, name string) (*budget.Account, error) {
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
