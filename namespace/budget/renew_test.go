package budget_test

import (
	"testing"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/store"
	"agent9/store/mem"
)

func TestRenew(t *testing.T) {
	b := newBank(t, mem.New())
	a := b.open("alice", total(100))
	renew := func(h *budget.Hold, cost budget.Micros) (next *budget.Hold, err error) {
		err = b.s.Update(t.Context(), func(tx store.Store) error {
			next, err = h.Renew(tx, cost, "a part")
			return err
		})
		return next, err
	}
	h, err := renew(b.mustTake(a, 60), 10)
	b.must(err)
	if h.ID() != "2" || h.Max() != 50 || h.What() != "job 7" {
		t.Errorf("got hold %s of %d for %s", h.ID(), h.Max(), h.What())
	}
	b.want(a, 50, 10, 10, 10)
	// What was agreed to needs no second approval.
	l := total(100)
	l.ApprovalThreshold = new(budget.Micros(1))
	b.must(b.s.Update(t.Context(), func(tx store.Store) error { return a.SetLimits(t.Context(), tx, l) }))
	h, err = renew(h, 20)
	b.must(err)
	if h.Waits() || h.Max() != 30 {
		t.Errorf("waits %v for %d", h.Waits(), h.Max())
	}
	b.want(a, 30, 30, 30, 30)
	// A limit that was lowered holds; nothing is done then.
	b.must(b.s.Update(t.Context(), func(tx store.Store) error { return a.SetLimits(t.Context(), tx, total(59)) }))
	if _, err := renew(h, 5); fsys.CodeOf(err) != fsys.Exhausted {
		t.Errorf("got %v", err)
	}
	b.want(a, 30, 30, 30, 30)
	b.settle(h, 100) // more than was held
	b.want(a, 0, 130, 130, 130)
}
