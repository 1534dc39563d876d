package budget

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"agent9/fsys"
	"agent9/store"
	"agent9/store/check"
)

// checked is why the ledger has a line that a check has written.
const checked = "agentd fsck --repair"

// Check finds what is wrong with the account in st: whether its ledger comes
// to what its books say, and whether holds, approvals and limits can be read.
// works says whose each hold is that somebody works on; what others held is
// money that nobody would ever settle.
func Check(ctx context.Context, st store.Updater, r *check.Report, works map[string]string) error {
	a := &auditing{st: st, r: r, open: map[string]Entry{}}
	if err := a.replay(ctx); err != nil {
		return err
	}
	if err := a.checkHolds(ctx, works); err != nil {
		return err
	}
	if err := a.checkTotals(ctx); err != nil {
		return err
	}
	if _, _, err := check.Record[Limits](ctx, st, r, limitsKey, "the limits"); err != nil {
		return err
	}
	return a.checkApprovals(ctx)
}

// auditing is an account as its ledger tells of it.
type auditing struct {
	st    store.Updater
	r     *check.Report
	whole bool // the ledger is
	sum   totals
	open  map[string]Entry // the holds of the ledger that were not settled
	holds map[string]record
}

func (a *auditing) replay(ctx context.Context) (err error) {
	a.whole, err = check.Log(ctx, store.Sub(a.st, "ledger/"), a.r, "the ledger", func(line []byte) error {
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		at, err := time.Parse(fsys.TimeFormat, e.Time)
		if err != nil {
			return err
		}
		switch e.Kind {
		case "hold":
			if e.Max == nil || checkAmount(*e.Max) != nil {
				return fsys.E(fsys.Internal, "a hold has an impossible amount")
			}
			a.open[e.Hold] = e
			if n, err := strconv.ParseUint(e.Hold, 10, 64); err == nil {
				a.sum.Last = max(a.sum.Last, n)
			}
		case "settle", "release":
			if e.Max == nil || e.Cost == nil || checkAmount(*e.Max) != nil || checkAmount(*e.Cost) != nil {
				return fsys.E(fsys.Internal, "a settlement has an impossible amount")
			}
			delete(a.open, e.Hold)
		}
		a.sum.apply(at, e)
		return nil
	})
	return err
}

func (a *auditing) checkHolds(ctx context.Context, works map[string]string) error {
	stored, err := check.Records[record](ctx, a.st, a.r, holdPrefix, "hold")
	if err != nil {
		return err
	}
	a.holds = map[string]record{}
	for key, h := range stored {
		a.holds[key[len(holdPrefix):]] = h
	}
	for _, id := range slices.Sorted(maps.Keys(a.holds)) {
		h := a.holds[id]
		if err := checkAmount(h.Max); err != nil {
			a.r.Lost(fmt.Sprintf("hold %s: %s", id, fsys.ReasonOf(err)), check.FromBackup)
			continue
		}
		cost := h.Max
		if h.Waits {
			cost = 0
		}
		if _, ok := a.open[id]; a.whole && !ok {
			a.r.Money(fmt.Sprintf("%d µ$ are held (hold %s, %s), and the ledger has no line for it", h.Max, id, h.What), "writes a line for the hold to the ledger",
				a.enter(func(*books) Entry { return Entry{Kind: "hold", Hold: id, Max: &h.Max, What: h.What, Reason: checked} }))
			continue
		}
		if _, ok := works[id]; !ok {
			a.r.Money(fmt.Sprintf("%d µ$ are held (hold %s, %s) for work that does not exist, so nothing will settle it", h.Max, id, h.What),
				fmt.Sprintf("settles it at %d µ$: the real cost is unknown", cost), a.settle(id, cost))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(works)) {
		if _, ok := a.holds[id]; !ok {
			a.r.Ends(fmt.Sprintf("%s has not ended, and its hold %s is missing", works[id], id), "nothing: the next start of the daemon ends the work, and charges nothing for what was not settled")
		}
	}
	for _, id := range slices.Sorted(maps.Keys(a.open)) {
		e := a.open[id]
		if _, ok := a.holds[id]; !ok && a.whole {
			a.r.Money(fmt.Sprintf("the ledger has hold %s (%d µ$, %s) as open, and the hold is missing", id, *e.Max, e.What), "writes a line to the ledger that it was released at no cost",
				a.enter(func(*books) Entry {
					return Entry{Kind: "release", Hold: id, Max: e.Max, Cost: new(Micros(0)), What: e.What, Reason: checked}
				}))
		}
	}
	return nil
}

// account opens what is checked, for a fix.
func (a *auditing) account(ctx context.Context) (*Account, error) {
	return Open(ctx, a.st, Options{})
}

func (a *auditing) settle(id string, cost Micros) check.Fix {
	return func(ctx context.Context) error {
		account, err := a.account(ctx)
		if err != nil {
			return err
		}
		return a.st.Update(ctx, func(tx store.Store) error { return account.settle(tx, id, cost, checked, "") })
	}
}

func (a *auditing) enter(entry func(*books) Entry) check.Fix {
	return func(ctx context.Context) error {
		account, err := a.account(ctx)
		if err != nil {
			return err
		}
		return a.st.Update(ctx, func(tx store.Store) error {
			b, err := account.books(ctx, tx)
			if err != nil {
				return err
			}
			return b.enter(tx, entry(b))
		})
	}
}

// checkTotals compares the books with the ledger. What was spent is never
// lowered.
func (a *auditing) checkTotals(ctx context.Context) error {
	t, ok, err := check.Record[totals](ctx, a.st, a.r, totalsKey, "the books")
	if err != nil || !ok || !a.whole {
		return err
	}
	should := a.sum
	should.Last = max(should.Last, t.Last)
	if t == should {
		return nil
	}
	what := fmt.Sprintf("the books have %d µ$ spent and %d µ$ in %d holds, and the ledger comes to %d µ$, and %d µ$ in %d holds",
		t.TotalSpent, t.Held, t.Holds, should.TotalSpent, should.Held, should.Holds)
	if t.TotalSpent == should.TotalSpent && t.Held == should.Held && t.Holds == should.Holds {
		what = fmt.Sprintf("the books are of day %q and tick %q with %d and %d µ$ spent, and the ledger of %q and %q with %d and %d µ$",
			t.Day, t.Tick, t.DaySpent, t.TickSpent, should.Day, should.Tick, should.DaySpent, should.TickSpent)
	}
	if should.TotalSpent < t.TotalSpent {
		should.TotalSpent = t.TotalSpent
		if should.Held == t.Held && should.Holds == t.Holds {
			a.r.Lost(what, "look at the ledger: it lacks lines. Nothing lowers what was spent; "+check.FromBackup+" if it is wrong")
			return nil
		}
	}
	a.r.Money(what, "copies the ledger's totals to the books; the amount spent is never lowered", check.PutJSON(a.st, totalsKey, should))
	return nil
}

func (a *auditing) checkApprovals(ctx context.Context) error {
	waits, err := check.Records[Approval](ctx, a.st, a.r, waitPrefix, "approval")
	if err != nil {
		return err
	}
	asked := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(waits)) {
		w := waits[key]
		asked[w.ID] = true
		if h, ok := a.holds[w.ID]; !ok || !h.Waits {
			a.r.Mend(fmt.Sprintf("approval %s (%s) waits for an answer, and no money is held for it", w.ID, w.What), "removes the approval", check.Delete(a.st, key))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(a.holds)) {
		if h := a.holds[id]; h.Waits && !asked[id] {
			a.r.Money(fmt.Sprintf("hold %s (%d µ$, %s) waits for an approval that does not exist", id, h.Max, h.What), "releases it at no cost; the next start of the daemon ends the work", a.settle(id, 0))
		}
	}
	return nil
}

// Above returns what the account in st holds of accounts above it, by account
// and hold there; whose says of what.
func Above(ctx context.Context, st store.Store, whose string) (map[string]map[string]string, error) {
	all := map[string]map[string]string{}
	for p, err := range store.All(ctx, st, holdPrefix) {
		if err != nil {
			return nil, err
		}
		h, err := store.GetJSON[record](ctx, st, p.Key)
		if err != nil {
			continue // a finding of its own
		}
		for _, up := range h.Above {
			if all[up.Account] == nil {
				all[up.Account] = map[string]string{}
			}
			all[up.Account][up.Hold] = fmt.Sprintf("%s (hold %s there)", whose, p.Key[len(holdPrefix):])
		}
	}
	return all, nil
}

// ParentIn returns the account that the limits in st name; empty if none.
func ParentIn(ctx context.Context, st store.Store) (string, error) {
	l, err := store.GetJSON[Limits](ctx, st, limitsKey)
	if err != nil && fsys.CodeOf(err) == fsys.NotExist {
		return "", nil
	}
	return l.Parent, err
}
