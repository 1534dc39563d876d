package budget_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/store"
	"agent9/store/mem"
)

func (b *bank) asking(a *budget.Account) *budget.Approvals {
	p := budget.NewApprovals(b.Context(), a)
	b.Cleanup(p.End)
	b.of = map[*budget.Approvals]*budget.Account{p: a}
	return p
}

// ask takes a hold for which a person can be asked.
func (b *bank) ask(p *budget.Approvals, max budget.Micros) (h *budget.Hold, err error) {
	ctx := budget.With(fsys.WithCaller(b.Context(), "alice"), b.of[p])
	err = b.s.Update(ctx, func(tx store.Store) error {
		h, err = p.Take(ctx, tx, max, "job 7", budget.Question{Service: "test", Job: 7, Model: "m"})
		return err
	})
	return h, err
}

func (b *bank) decide(p *budget.Approvals, id, words string) error {
	return fsys.WriteFile(fsys.WithCaller(b.Context(), fsys.Operator), p.Root(), id, []byte(words))
}

func (b *bank) names(dir fsys.Node) (names []string) {
	b.Helper()
	list, err := fsys.List(b.Context(), dir)
	b.must(err)
	for _, e := range list {
		names = append(names, e.Name)
	}
	return names
}

// verdict is what a service was told.
type verdict struct {
	hold    *budget.Hold
	refused error
}

// listen lets what the service test is told come out of a channel.
func listen(p *budget.Approvals) <-chan verdict {
	c := make(chan verdict, 10)
	p.Tell("test", func(_ context.Context, tx store.Store, job int64, h *budget.Hold, refused error) error {
		if job != 7 {
			return fsys.E(fsys.Internal, "another job")
		}
		store.After(tx, func() { c <- verdict{h, refused} })
		return nil
	})
	return c
}

// settling is listen for a service that settles what is refused, as it should.
func settling(p *budget.Approvals) <-chan verdict {
	c := make(chan verdict, 10)
	p.Tell("test", func(_ context.Context, tx store.Store, _ int64, h *budget.Hold, refused error) error {
		err := h.Settle(tx, 0, fsys.ReasonOf(refused))
		store.After(tx, func() { c <- verdict{h, refused} })
		return err
	})
	return c
}

func threshold(m budget.Micros) budget.Limits { return budget.Limits{ApprovalThreshold: &m} }

// The lowest threshold of all accounts above counts.
func TestThreshold(t *testing.T) {
	b := newBank(t, mem.New())
	b.open("org", threshold(50))
	team := b.open("team", budget.Limits{Parent: "org", ApprovalThreshold: new(budget.Micros(200)), Total: new(budget.Micros(500))})
	a := b.open("alice", budget.Limits{Parent: "team", ApprovalThreshold: new(budget.Micros(100))})
	p := b.asking(a)
	told := listen(p)

	if _, err := b.take(a, 51); fsys.CodeOf(err) != fsys.Permission || !strings.Contains(fsys.ReasonOf(err), "above $0.00005 it needs an approval") {
		t.Errorf("Take: got %v", err)
	}
	b.want(a, 0, 0, 0, 0)
	h, err := b.ask(p, 50)
	b.must(err)
	if h.Waits() {
		t.Error("50 µ$ wait")
	}
	b.settle(h, 50)
	h, err = b.ask(p, 400)
	b.must(err)
	if !h.Waits() {
		t.Error("400 µ$ do not wait")
	}
	b.want(a, 400, 50, 50, 50)
	b.want(team, 400, 50, 50, 50)
	if _, err := b.ask(p, 60); fsys.CodeOf(err) != fsys.Exhausted {
		t.Errorf("what waits holds its money: got %v", err)
	}
	line, err := fsys.ReadFile(t.Context(), p.Root(), h.ID())
	b.must(err)
	want := `{"id":"2","service":"test","job":7,"model":"m","what":"job 7","max_microusd":400,"threshold_microusd":50,"account":"org",` +
		`"asked":"2026-01-01T12:00:00.000Z","expires":"2026-01-02T12:00:00.000Z","by":"alice"}` + "\n"
	if string(line) != want {
		t.Errorf("got %swant %s", line, want)
	}
	b.must(b.decide(p, h.ID(), "approve"))
	v := <-told
	if v.refused != nil || v.hold.Waits() || v.hold.ID() != h.ID() || v.hold.Max() != 400 {
		t.Errorf("told %+v", v)
	}
	if n, err := p.Waiting(t.Context()); n != 0 || err != nil {
		t.Errorf("%d wait, %v", n, err)
	}
	b.settle(v.hold, 30)
	b.want(team, 0, 80, 80, 80)
	b.replay(a)
	b.replay(team)
}

func TestDenied(t *testing.T) {
	b := newBank(t, mem.New())
	a := b.open("alice", threshold(0))
	p := b.asking(a)
	told := listen(p)
	for _, c := range []struct{ words, reason, event string }{
		{"deny", "the approval was denied by operator", "approval.denied"},
		{"deny not  now", "the approval was denied by operator: not now", "approval.denied"},
	} {
		h, err := b.ask(p, 10)
		b.must(err)
		b.must(b.decide(p, h.ID(), c.words))
		if v := <-told; fsys.CodeOf(v.refused) != fsys.Permission || fsys.ReasonOf(v.refused) != c.reason {
			t.Errorf("%s: told %+v", c.words, v)
		}
		b.want(a, 0, 0, 0, 0) // also if the service does not settle
		if got := b.noted[len(b.noted)-2]; got != c.event+" "+h.ID() {
			t.Errorf("noted %s", got)
		}
	}
	for _, words := range []string{"yes", "approve please", "Approve"} {
		h, err := b.ask(p, 10)
		b.must(err)
		if err := b.decide(p, h.ID(), words); fsys.CodeOf(err) != fsys.Invalid {
			t.Errorf("%s: got %v", words, err)
		}
	}
	b.want(a, 30, 0, 0, 0)
}

// Time goes on while nothing runs; who comes too late is told.
func TestExpired(t *testing.T) {
	b := newBank(t, mem.New())
	a := b.open("alice", threshold(0))
	b.must(fsys.WriteFile(t.Context(), a.Root(), "limits", []byte(`{"approval_threshold_microusd":0,"approval_expires_ms":3600000}`)))
	p := b.asking(a)
	told := listen(p)
	first, err := b.ask(p, 10)
	b.must(err)
	b.setClock("2026-01-01T12:59:59.999Z")
	second, err := b.ask(p, 10)
	b.must(err)
	b.setClock("2026-01-01T13:00:00Z")
	if err := b.decide(p, first.ID(), "approve"); fsys.CodeOf(err) != fsys.Busy || fsys.ReasonOf(err) != "approval 1 has expired" {
		t.Errorf("got %v", err)
	}
	if v := <-told; fsys.CodeOf(v.refused) != fsys.Timeout || fsys.ReasonOf(v.refused) != "no approval was given by 2026-01-01T13:00:00.000Z" {
		t.Errorf("told %+v", v)
	}
	b.want(a, 10, 0, 0, 0)
	p.End()

	p = b.asking(a)
	listen(p)
	b.must(p.Start(t.Context()))
	b.want(a, 10, 0, 0, 0)
	p.End()
	b.setClock("2026-01-01T14:00:00Z")
	p = b.asking(a)
	told = settling(p)
	b.must(p.Start(t.Context()))
	if v := <-told; fsys.CodeOf(v.refused) != fsys.Timeout || v.hold.ID() != second.ID() {
		t.Errorf("told %+v", v)
	}
	b.want(a, 0, 0, 0, 0)
	if got := b.names(p.Root()); len(got) != 0 {
		t.Errorf("%v wait", got)
	}
	b.replay(a)
}

func TestNobodyToTell(t *testing.T) {
	b := newBank(t, mem.New())
	a := b.open("alice", threshold(0))
	p := b.asking(a)
	h, err := b.ask(p, 10)
	b.must(err)
	if err := b.decide(p, h.ID(), "approve"); fsys.CodeOf(err) != fsys.Unavailable {
		t.Errorf("got %v", err)
	}
	b.want(a, 10, 0, 0, 0)
	b.must(b.decide(p, h.ID(), "deny"))
	b.want(a, 0, 0, 0, 0)
}

func TestTooManyWait(t *testing.T) {
	b := newBank(t, mem.New())
	a := b.open("alice", threshold(0))
	p := b.asking(a)
	for range 256 {
		_, err := b.ask(p, 1)
		b.must(err)
	}
	if _, err := b.ask(p, 1); fsys.CodeOf(err) != fsys.Busy || !strings.Contains(fsys.ReasonOf(err), "256 requests for approval are already waiting") {
		t.Errorf("got %v", err)
	}
	b.want(a, 256, 0, 0, 0)
	for _, id := range []string{"0", "01", "257", "x", "+1"} {
		if _, err := fsys.Walk(t.Context(), p.Root(), id); fsys.CodeOf(err) != fsys.NotExist {
			t.Errorf("Walk(%q): got %v", id, err)
		}
	}
	if _, err := b.ask(p, 0); err != nil { // as nothing is no cost
		t.Error(err)
	}
}

func TestApprovalLimits(t *testing.T) {
	b := newBank(t, mem.New())
	a := b.open("alice", budget.Limits{})
	for doc, reason := range map[string]string{
		`{"approval_expires_ms": 0}`:           "approval_expires_ms must be from 1 to 31536000000, not 0",
		`{"approval_expires_ms": 31536000001}`: "approval_expires_ms must be from 1 to 31536000000, not 31536000001",
		`{"approval_expires_ms": "1h"}`:        "approval_expires_ms must be a whole number of milliseconds, not string",
	} {
		err := fsys.WriteFile(t.Context(), a.Root(), "limits", []byte(doc))
		if fsys.CodeOf(err) != fsys.Invalid || fsys.ReasonOf(err) != reason {
			t.Errorf("%s: got %v, want Invalid: %s", doc, err, reason)
		}
	}
	var l budget.Limits
	doc, err := fsys.ReadFile(t.Context(), a.Root(), "limits")
	b.must(err)
	b.must(json.Unmarshal(doc, &l))
	if l.ApprovalExpires != nil {
		t.Errorf("got %s", doc)
	}
}
