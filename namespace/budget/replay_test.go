package budget_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/store"
	"agent9/store/mem"
)

func (b *bank) ledger(a *budget.Account) string {
	b.Helper()
	n, err := fsys.Walk(b.Context(), a.Root(), "ledger")
	b.must(err)
	info, err := n.Stat(b.Context())
	b.must(err)
	h, err := n.Open(b.Context(), fsys.Read)
	b.must(err)
	var all []byte
	p := make([]byte, 1<<16)
	for int64(len(all)) < info.Size {
		m, err := fsys.ReadAt(b.Context(), h, p, int64(len(all)))
		b.must(err)
		all = append(all, p[:m]...)
	}
	return string(all)
}

// replay adds up the ledger of a, by nothing but what its lines say, and
// compares the sums with its usage.
func (b *bank) replay(a *budget.Account) {
	b.Helper()
	var tick, day, all int64
	var today string
	open := make(map[string]int64)
	for line := range strings.Lines(b.ledger(a)) {
		var e struct {
			Time, Kind, Hold string
			Max              int64 `json:"max_microusd"`
			Cost             int64 `json:"cost_microusd"`
		}
		b.must(json.Unmarshal([]byte(line), &e))
		if date := e.Time[:len("2026-01-02")]; date > today {
			today, day = date, 0
		}
		switch e.Kind {
		case "hold":
			if _, twice := open[e.Hold]; twice {
				b.Errorf("hold %s was taken twice", e.Hold)
			}
			open[e.Hold] = e.Max
		case "settle", "release":
			if max, ok := open[e.Hold]; !ok || max != e.Max {
				b.Errorf("hold %s of %d was settled, which was not open: %s", e.Hold, max, line)
			}
			delete(open, e.Hold)
			tick, day, all = tick+e.Cost, day+e.Cost, all+e.Cost
		case "tick":
			tick = 0
		}
	}
	held := int64(0)
	for _, max := range open {
		held += max
	}
	u := b.usage(a)
	if u.Day.Window > today {
		day = 0
	}
	got := fmt.Sprint(len(open), held, tick, day, all)
	want := fmt.Sprint(u.Holds, u.Held, u.Tick.Spent, u.Day.Spent, u.Total.Spent)
	if got != want {
		b.Errorf("%s: the ledger adds up to %s, usage says %s", a.Name(), got, want)
	}
	holds, err := a.Holds(b.Context())
	b.must(err)
	for _, h := range holds {
		if open[h.ID()] != int64(h.Max()) {
			b.Errorf("hold %s of %d is not in the ledger", h.ID(), h.Max())
		}
		delete(open, h.ID())
	}
	if len(open) > 0 {
		b.Errorf("holds %v are open in the ledger only", open)
	}
}

func TestLedgerAddsUp(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 9))
		b := newBank(t, mem.New())
		team := b.open("team", budget.Limits{PerDay: new(budget.Micros(2000)), ApprovalThreshold: new(budget.Micros(80))})
		a := b.open("alice", budget.Limits{PerTick: new(budget.Micros(300)), PerDay: new(budget.Micros(1000)), Parent: "team"})
		asking := b.asking(a)
		var open []*budget.Hold
		asking.Tell("test", func(_ context.Context, tx store.Store, _ int64, h *budget.Hold, refused error) error {
			if refused != nil {
				return h.Settle(tx, 0, fsys.ReasonOf(refused))
			}
			open = append(open, h)
			return nil
		})
		paid, asked := 0, 0
		for i := range 300 {
			switch r.IntN(10) {
			case 0:
				b.tick(a, fmt.Sprint(i))
			case 1:
				b.setClock(fmt.Sprintf("2026-01-%02dT%02d:00:00Z", 1+i/30, r.IntN(24)))
			case 2, 3, 4, 5:
				h, err := b.ask(asking, budget.Micros(r.IntN(100)))
				if err == nil && h.Waits() {
					asked++
				} else if err == nil {
					open = append(open, h)
					paid++
				} else if fsys.CodeOf(err) != fsys.Exhausted {
					t.Fatal(err)
				}
			case 6:
				for _, id := range b.names(asking.Root()) {
					if err := b.decide(asking, id, []string{"approve", "deny"}[r.IntN(2)]); err != nil && fsys.CodeOf(err) != fsys.Busy { // expired
						t.Fatal(err)
					}
				}
			default:
				if len(open) > 0 {
					i := r.IntN(len(open))
					b.settle(open[i], budget.Micros(r.IntN(120)))
					open = append(open[:i], open[i+1:]...)
				}
			}
		}
		b.replay(a)
		b.replay(team)
		if paid < 20 || asked == 0 {
			t.Errorf("seed %d: only %d holds, %d of them asked for, the test says little", seed, paid, asked)
		}
	}
}
