package budget

import (
	"context"
	"fmt"

	"agent9/fsys"
	"agent9/store"
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
	in := a.in(tx)
	for p, err := range store.All(ctx, in, holdPrefix) {
		if err != nil {
			return err
		}
		r, err := store.GetJSON[record](ctx, in, p.Key)
		if err != nil {
			return err
		}
		cost := r.Max
		if r.Waits {
			cost = 0
		}
		if err := (&Hold{a, p.Key[len(holdPrefix):], r}).Settle(tx, cost, reason); err != nil {
			return err
		}
	}
	return nil
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
