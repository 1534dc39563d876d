package budget_test

import (
	"context"
	"strings"
	"testing"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/store"
	"agent9/store/mem"
)

func (b *bank) in(f func(ctx context.Context, tx store.Store) error) error {
	ctx := fsys.WithCaller(b.Context(), fsys.Operator)
	return b.s.Update(ctx, func(tx store.Store) error { return f(ctx, tx) })
}

func TestClose(t *testing.T) {
	b := newBank(t, mem.New())
	team := b.open("team", budget.Limits{})
	a := b.open("alice", budget.Limits{Parent: "team", ApprovalThreshold: new(budget.Micros(50))})
	p := b.asking(a)
	ran := b.mustTake(a, 40)
	_, err := b.ask(p, 60)
	b.must(err)
	b.want(team, 100, 0, 0, 0)
	if err := b.in(a.Close); fsys.CodeOf(err) != fsys.Busy || fsys.ReasonOf(err) != "2 holds of account alice are open" {
		t.Errorf("Close: got %v", err)
	}
	b.must(b.in(func(ctx context.Context, tx store.Store) error {
		if err := a.SettleAll(ctx, tx, "gone"); err != nil {
			return err
		}
		return a.Close(ctx, tx)
	}))
	b.want(team, 0, 40, 40, 40) // what waited cost nothing
	b.settle(ran, 10)           // too late
	b.want(team, 0, 40, 40, 40)
	for what, err := range map[string]error{
		"Take":   func() error { _, err := b.take(a, 0); return err }(),
		"Admit":  b.admit(a),
		"Usage":  func() error { _, err := a.Usage(t.Context()); return err }(),
		"limits": fsys.WriteFile(t.Context(), a.Root(), "limits", []byte(`{}`)),
		"Close":  b.in(a.Close),
	} {
		if fsys.CodeOf(err) != fsys.NotExist || fsys.ReasonOf(err) != "the account alice is gone" {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if got := strings.Join(b.moves, ", "); got != "alice: team to " {
		t.Errorf("moved %s", got)
	}
	b.replay(team)
	a.End()
	if text, err := fsys.ReadFile(t.Context(), a.Root(), "ledger"); err != nil || !strings.HasSuffix(string(text), `"kind":"close","by":"operator"}`+"\n") {
		t.Errorf("the ledger ends with %q, %v", text, err)
	}
}

func TestMoved(t *testing.T) {
	b := newBank(t, mem.New())
	b.open("x", budget.Limits{})
	b.open("y", budget.Limits{})
	a := b.open("a", budget.Limits{})
	for _, doc := range []string{`{"parent":"x"}`, `{"parent":"x","total_microusd":5}`, `{"parent":"y"}`, `{}`} {
		b.must(fsys.WriteFile(t.Context(), a.Root(), "limits", []byte(doc)))
	}
	if err := fsys.WriteFile(t.Context(), a.Root(), "limits", []byte(`{"parent":"none"}`)); fsys.CodeOf(err) != fsys.Invalid {
		t.Errorf("got %v", err)
	}
	if got := strings.Join(b.moves, ", "); got != "a:  to x, a: x to y, a: y to " {
		t.Errorf("moved %s", got)
	}
}
