package budget

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"agent9/fsys"
	"agent9/store"
)

// A Hold is money that was set aside for one piece of work.
type Hold struct {
	a      *Account
	id     string
	record record
}

// record is a Hold in the store, under "hold/" and its id.
type record struct {
	Max   Micros    `json:"max"`
	What  string    `json:"what"`
	Since time.Time `json:"since"`
	// Above are the holds of the same work in the accounts above.
	Above []above `json:"above,omitempty"`
	// Waits says that the work waits for an approval.
	Waits bool `json:"waits,omitempty"`
}

type above struct {
	Account string `json:"account"`
	Hold    string `json:"hold"`
}

// ID tells the hold apart from all others of its account, now and later.
func (h *Hold) ID() string { return h.id }

// Max is how much is held.
func (h *Hold) Max() Micros { return h.record.Max }

// What says what the money is for.
func (h *Hold) What() string { return h.record.What }

// Since is when the hold was taken.
func (h *Hold) Since() time.Time { return h.record.Since }

// Waits reports whether the work may not begin yet, because a person must
// agree first: see [Approvals].
func (h *Hold) Waits() bool { return h.record.Waits }

// Take sets max aside for what, from the account of ctx and all those above
// it, in the transaction that tx belongs to. It refuses with fsys.Exhausted,
// and a reason that says what is left, and with fsys.Permission above the
// approval threshold of any of them; the caller then undoes the transaction.
func Take(ctx context.Context, tx store.Store, max Micros, what string) (*Hold, error) {
	return TakeMore(ctx, tx, max, 0, what)
}

// TakeMore is Take for work that holds so much already: the threshold is for
// what it may cost in all.
func TakeMore(ctx context.Context, tx store.Store, more, held Micros, what string) (*Hold, error) {
	a, ok := From(ctx)
	if !ok {
		return nil, errNoBudget
	}
	h, err := a.take(context.WithoutCancel(ctx), tx, more, what, nil)
	if err != nil {
		return nil, err
	}
	chain, err := a.chain(ctx, tx)
	if err != nil {
		return nil, err
	}
	if over := strictest(chain, more+held); over != nil {
		return nil, fsys.E(fsys.Permission, fmt.Sprintf("the work may cost %s, and above %s it needs an approval, which cannot be asked for here", (more+held).Dollars(), over.limits.ApprovalThreshold.Dollars()))
	}
	return h, nil
}

// Ready refuses to begin the work of h, whose money was set aside before: with
// fsys.Exhausted if its account, or one above it, is overdrawn by now, and with
// fsys.Permission as long as it waits.
func (h *Hold) Ready(tx store.Store) error {
	if h.Waits() {
		return fsys.E(fsys.Permission, "this waits for an approval")
	}
	chain, err := h.a.chain(h.a.ctx, tx)
	if err != nil {
		return err
	}
	for _, up := range h.record.Above { // which may lie above no more
		var b *books
		p, err := h.a.parent(h.a.ctx, tx, up.Account)
		if err == nil {
			b, err = p.books(h.a.ctx, tx)
		}
		if errors.Is(err, fsys.NotExist) {
			continue
		}
		if err != nil {
			return err
		}
		chain = append(chain, b)
	}
	for _, b := range chain {
		if w, limited := b.tightest(); limited && *w.Left < 0 {
			return b.overdrawn(w)
		}
	}
	return nil
}

// take is Take; above a threshold of the account that over has the books of,
// ask decides about the hold, which waits; with a nil ask it was decided before.
func (a *Account) take(ctx context.Context, tx store.Store, max Micros, what string, ask func(h *Hold, over *books) error) (*Hold, error) {
	if err := checkAmount(max); err != nil {
		return nil, err
	}
	chain, err := a.chain(ctx, tx)
	if err != nil {
		return nil, err
	}
	for _, b := range chain {
		if err := b.room(max); err != nil {
			return nil, err
		}
	}
	var held []above
	for i := len(chain) - 1; i > 0; i-- {
		id, err := chain[i].hold(ctx, tx, a.opts.Name, record{Max: max, What: what})
		if err != nil {
			return nil, err
		}
		held = append(held, above{chain[i-1].limits.Parent, id})
	}
	over := strictest(chain, max)
	if ask == nil {
		over = nil
	}
	r := record{Max: max, What: what, Since: chain[0].now, Above: held, Waits: over != nil}
	id, err := chain[0].hold(ctx, tx, "", r)
	if err != nil {
		return nil, err
	}
	h := &Hold{a, id, r}
	if over != nil {
		return h, ask(h, over)
	}
	return h, nil
}

// strictest returns the books with the lowest approval threshold, if max is
// above one.
func strictest(chain []*books, max Micros) *books {
	var over *books
	for _, b := range chain {
		t := b.limits.ApprovalThreshold
		if t != nil && max > *t && (over == nil || *t < *over.limits.ApprovalThreshold) {
			over = b
		}
	}
	return over
}

// hold writes r to the books, on behalf of the account below that is named.
func (b *books) hold(ctx context.Context, tx store.Store, below string, r record) (id string, err error) {
	b.totals.Last++
	id = strconv.FormatUint(b.totals.Last, 10)
	r.Since = b.now
	if err := store.PutJSON(ctx, store.In(tx, b.a.st), holdPrefix+id, r); err != nil {
		return "", err
	}
	return id, b.enter(tx, Entry{Kind: "hold", Hold: id, Max: &r.Max, What: r.What, Account: below})
}

// Settle ends the hold in the transaction that tx belongs to: cost is spent,
// whatever was held, and the rest is free again. Settling what was settled
// before, also by another run of the program, does nothing.
func (h *Hold) Settle(tx store.Store, cost Micros, reason string) error {
	if err := checkAmount(cost); err != nil {
		return err
	}
	for _, up := range h.record.Above {
		p, err := h.a.parent(h.a.ctx, tx, up.Account)
		if errors.Is(err, fsys.NotExist) {
			continue // deleted, with all its books
		}
		if err == nil {
			err = p.settle(tx, up.Hold, cost, reason, h.a.opts.Name)
		}
		if err != nil {
			return err
		}
	}
	return h.a.settle(tx, h.id, cost, reason, "")
}

// Renew settles the hold at cost and holds what is left of it on, in the
// transaction that tx belongs to: for work of several parts, each of which is
// to be in the ledger. Nobody is asked again for an approval; if the limits have
// no room for the new hold any more, Renew refuses with fsys.Exhausted.
func (h *Hold) Renew(tx store.Store, cost Micros, reason string) (*Hold, error) {
	if err := h.Settle(tx, cost, reason); err != nil {
		return nil, err
	}
	return h.a.take(h.a.ctx, tx, max(h.record.Max-cost, 0), h.record.What, nil)
}

func (a *Account) settle(tx store.Store, id string, cost Micros, reason, below string) error {
	in := store.In(tx, a.st)
	r, err := store.GetJSON[record](a.ctx, in, holdPrefix+id)
	if errors.Is(err, fsys.NotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := in.Delete(a.ctx, holdPrefix+id); err != nil {
		return err
	}
	b, err := a.books(a.ctx, tx)
	if err != nil {
		return err
	}
	kind := "settle"
	if cost == 0 {
		kind = "release"
	}
	return b.enter(tx, Entry{Kind: kind, Hold: id, Max: &r.Max, Cost: &cost, What: r.What, Reason: reason, Account: below})
}

func checkAmount(m Micros) error {
	if m < 0 || m > Most {
		return fsys.E(fsys.Invalid, fmt.Sprintf("an amount of money must be from 0 to %d micro-dollars (%s), not %d", Most, Most.Dollars(), m))
	}
	return nil
}

// Resume returns the open hold id, for work that goes on after a restart;
// fsys.NotExist if it has been settled.
func (a *Account) Resume(ctx context.Context, id string) (*Hold, error) {
	r, err := store.GetJSON[record](ctx, a.st, holdPrefix+id)
	if errors.Is(err, fsys.NotExist) {
		return nil, fsys.E(fsys.NotExist, fmt.Sprintf("hold %s is not open", id))
	}
	if err != nil {
		return nil, err
	}
	return &Hold{a, id, r}, nil
}

// Holds returns the holds that are open.
func (a *Account) Holds(ctx context.Context) ([]*Hold, error) {
	var holds []*Hold
	for p, err := range store.All(ctx, a.st, holdPrefix) {
		if err != nil {
			return nil, err
		}
		h, err := a.Resume(ctx, p.Key[len(holdPrefix):])
		switch {
		case errors.Is(err, fsys.NotExist): // settled since
		case err != nil:
			return nil, err
		default:
			holds = append(holds, h)
		}
	}
	return holds, nil
}
