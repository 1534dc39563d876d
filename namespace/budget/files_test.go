package budget_test

import (
	"strings"
	"testing"

	"agent9/fsys"
	"agent9/store/mem"
)

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
	first := `{"per_tick_microusd":null,"per_day_microusd":null,"total_microusd":100,"approval_threshold_microusd":null,"approval_expires_ms":null}` + "\n"
	if got := read(); got != first {
		t.Errorf("got %s, want %s", got, first)
	}
	const fields = "there are per_tick_microusd, per_day_microusd, total_microusd, approval_threshold_microusd, approval_expires_ms, parent"
	for doc, reason := range map[string]string{
		`{"per_day_microusd": 5, "per_week_microusd": 1}`: `unknown field "per_week_microusd"; ` + fields,
		`{"per_day_microusd": 1.5}`:                       "per_day_microusd must be a whole number of millionths of a dollar, or null for no limit, not number 1.5",
		`{"total_microusd": "5"}`:                         "total_microusd must be a whole number of millionths of a dollar, or null for no limit, not string",
		`{"total_microusd": -5}`:                          "an amount of money must be from 0 to 1000000000000000 micro-dollars ($1000000000.00), not -5",
		`{"total_microusd": 1000000000000001}`:            "an amount of money must be from 0 to 1000000000000000 micro-dollars ($1000000000.00), not 1000000000000001",
		`{"parent": 5}`:                                   "parent: a string is expected, not a number",
		`[]`:                                              `limits must be one JSON object, such as {"per_day_microusd": 5000000}`,
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
	b.refused(a, 1, "the work may cost $0.000001, and $0.00 is left today in account alice (resets 2026-01-02T00:00Z)")
	l, err := a.Limits(ctx)
	b.must(err)
	if l.Total != nil || *l.PerDay != 120 || *l.ApprovalThreshold != 1000 {
		t.Errorf("got limits %s", fsys.Line(l))
	}
	want := `{"time":"2026-01-01T12:00:00.000Z","kind":"limits","limits":{"per_tick_microusd":null,"per_day_microusd":120,"total_microusd":null,"approval_threshold_microusd":1000,"approval_expires_ms":null},"by":"operator"}`
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
