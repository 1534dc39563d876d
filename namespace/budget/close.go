package budget

import (
	"context"
	"fmt"
	"strings"

	"agent9/fsys"
	"agent9/store"
	"agent9/store/check"
)

func (a *Account) moved(ctx context.Context, tx store.Store, from, to string) error {
	if a.opts.Moved == nil || from == to {
		return nil
	}
	return a.opts.Moved(ctx, tx, from, to)
}

// SettleAll settles the holds that are open, for reason, because nobody will:
// what waits for an approval costs nothing, the rest all that was held, as
// nobody knows.
func (a *Account) SettleAll(ctx context.Context, tx store.Store, reason string) error {
	_, err := a.settleFor(ctx, tx, func(string) bool { return true }, reason)
	return err
}

// SettleLost is SettleAll of what is held for the work that is called what,
// which cannot be read any more. It returns what that has cost.
func (a *Account) SettleLost(ctx context.Context, tx store.Store, what, reason string) (sum Micros, err error) {
	return a.settleFor(ctx, tx, func(w string) bool { return w == what || strings.HasPrefix(w, what+",") }, reason)
}

// SettleBelow returns what settles, at all that was held, what the account below that
// is called name has open here, except for the holds in but: nobody knows what that
// cost.
func (a *Account) SettleBelow(ctx context.Context, name string, but map[string]string, reason string) (func(tx store.Store) error, error) {
	ledger := &auditing{st: a.st, r: check.New(), open: map[string]Entry{}}
	if err := ledger.replay(ctx); err != nil {
		return nil, err
	}
	return func(tx store.Store) error {
		for id, e := range ledger.open {
			if _, ok := but[id]; ok || e.Account != name {
				continue
			}
			if err := a.settle(tx, id, *e.Max, reason, name); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

func (a *Account) settleFor(ctx context.Context, tx store.Store, is func(what string) bool, reason string) (sum Micros, err error) {
	in := a.in(tx)
	for p, err := range store.All(ctx, store.Forgiving(in), holdPrefix) {
		if err != nil {
			return sum, err
		}
		r, err := store.GetJSON[record](ctx, store.Forgiving(in), p.Key)
		if store.IsDamaged(err) {
			continue // agentd fsck names it
		}
		if err != nil {
			return sum, err
		}
		if !is(r.What) {
			continue
		}
		id, cost := p.Key[len(holdPrefix):], r.Max
		if r.Waits {
			cost = 0
			if key, err := waitKey(id); err == nil {
				err = in.Delete(ctx, key)
				if err != nil {
					return sum, err
				}
			}
		}
		if err := (&Hold{a, id, r}).Settle(tx, cost, reason); err != nil {
			return sum, err
		}
		sum = add(sum, cost)
	}
	return sum, nil
}

// Close ends the account in the transaction that tx belongs to: from then on
// it gives nothing and is below no other. Busy if holds are open. Its records
// remain, for who removes it.
func (a *Account) Close(ctx context.Context, tx store.Store) error {
	b, err := a.books(ctx, tx)
	if err != nil {
		return err
	}
	if n := b.totals.Holds; n > 0 {
		return fsys.E(fsys.Busy, fmt.Sprintf("%d holds of account %s are open", n, a.opts.Name))
	}
	if err := b.enter(tx, Entry{Kind: "close", By: string(fsys.CallerOf(ctx))}); err != nil {
		return err
	}
	return a.moved(ctx, tx, b.limits.Parent, "")
}
