package budget_test

import (
	"strings"
	"testing"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/store"
	"agent9/store/mem"
)

// What was held before may not begin when its account is overdrawn, or one
// above it, also one that lies above no more.
func TestReady(t *testing.T) {
	b := newBank(t, mem.New())
	team := b.open("team", total(100))
	b.open("other", budget.Limits{})
	alice := b.open("alice", budget.Limits{Parent: "team"})
	bob := b.open("bob", budget.Limits{Parent: "team"})
	ready := func(h *budget.Hold) error {
		return b.s.Update(t.Context(), func(tx store.Store) error { return h.Ready(tx) })
	}
	queued, running := b.mustTake(alice, 20), b.mustTake(bob, 20)
	b.must(ready(queued))
	b.settle(running, 90)
	b.must(fsys.WriteFile(t.Context(), alice.Root(), "limits", []byte(`{"parent":"other"}`)))
	if err := ready(queued); fsys.CodeOf(err) != fsys.Exhausted || !strings.Contains(fsys.ReasonOf(err), "overdrawn by $0.00001 in total in account team") {
		t.Errorf("got %v", err)
	}
	b.must(fsys.WriteFile(t.Context(), team.Root(), "limits", []byte(`{"total_microusd":110}`)))
	b.must(ready(queued))
}

// More of what holds something already is measured with that.
func TestTakeMore(t *testing.T) {
	b := newBank(t, mem.New())
	l := total(1000)
	l.ApprovalThreshold = new(budget.Micros(100))
	a := b.open("alice", l)
	ctx := budget.With(t.Context(), a)
	take := func(more, held budget.Micros) error {
		return b.s.Update(ctx, func(tx store.Store) error {
			_, err := budget.TakeMore(ctx, tx, more, held, "more")
			return err
		})
	}
	b.must(take(60, 40))
	if err := take(1, 100); fsys.CodeOf(err) != fsys.Permission {
		t.Errorf("got %v", err)
	}
	b.want(a, 60, 0, 0, 0)
}
