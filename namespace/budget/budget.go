// Package budget sets money aside before it is spent, and keeps the books.
//
//	limits   how much may be spent: JSON, written by the operator, effective at once
//	usage    what is held, spent and left, as JSON
//	ledger   a stream of JSON lines: every hold, settle, release, change of limits
//
// and, beside them, approvals/:
//
//	<id>     what waits for a person's agreement, as JSON; write approve, or
//	         deny [REASON]
//
// Work that costs money takes a [Hold] on the most that it may cost, in the
// transaction that records the work, and settles it in the one that records
// how it ended. Everything lies in the store and is read and written inside
// these transactions, of which one runs at a time: so no two works can have
// the same money, and after a crash the books are what the disk says.
//
// Limits are for windows: a tick, a UTC day, all time. A hold counts against
// the windows in which it is open, whenever it was taken, and its cost is
// spent in the windows in which it is settled; so a turn-over neither forgets
// a hold nor charges the day before. A window never turns back, whatever the
// clock does. A cost above its hold is recorded, as the money is gone: the
// account may then be overdrawn, and gives nothing, not even a hold of zero,
// until the window turns or the limit is raised. An account that is not
// overdrawn always gives a hold of zero.
//
// Accounts form a tree by the parent that limits name: a hold is taken from
// an account and all those above it, or from none.
//
// Above the lowest approval threshold of these accounts, work that can wait
// does, with its money held: see [Approvals]. Other work is refused.
package budget

import (
	"context"
	"sync/atomic"
	"time"

	"agent9/fsys"
	"agent9/store"
)

// Micros is an amount of money in millionths of a US dollar.
type Micros int64

// Most is the largest amount of one hold, cost or limit: a thousand million
// dollars.
const Most Micros = 1e15

// Limits say how much an account may spend; nil is no limit.
type Limits struct {
	PerTick *Micros `json:"per_tick_microusd"` // from the beginning of a tick to that of the next
	PerDay  *Micros `json:"per_day_microusd"`
	Total   *Micros `json:"total_microusd"`
	// ApprovalThreshold is the most that one piece of work may cost without a
	// person's agreement, and ApprovalExpires, in milliseconds, how long that
	// is waited for; nil is a day.
	ApprovalThreshold *Micros `json:"approval_threshold_microusd"`
	ApprovalExpires   *int64  `json:"approval_expires_ms"`
	Parent            string  `json:"parent,omitempty"`
}

// Options are what an account does not know by itself.
type Options struct {
	// Name is what reasons and the ledger of a parent call this account.
	Name string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Defaults hold until limits have been written.
	Defaults Limits
	// Note, if set, is told every line of the ledger in its transaction, with
	// event "budget." and the kind. An error undoes the transaction.
	Note store.Note
	// Parent returns the account that limits name, as it is in the
	// transaction that tx belongs to, or, if tx is nil, in none; it must not
	// block. NotExist of an account that held money means that it was deleted,
	// and its holds with it.
	Parent func(ctx context.Context, tx store.Store, name string) (*Account, error)
	// Moved, if set, is told in the transaction that another parent was set,
	// or none. An error undoes the transaction.
	Moved func(ctx context.Context, tx store.Store, from, to string) error
}

// An Account is money with limits, in a view of a store. At any time there may
// be one Account on a view.
type Account struct {
	ctx    context.Context // for transactions; never ends
	st     store.Updater
	opts   Options
	ledger *store.Log
	root   fsys.Node
	ended  atomic.Bool
}

// Open returns the account that st holds. It writes nothing: a new account is
// an empty view.
func Open(ctx context.Context, st store.Updater, opts Options) (*Account, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	ledger, err := store.OpenLog(ctx, store.Sub(st, "ledger/"))
	if err != nil {
		return nil, err
	}
	a := &Account{ctx: context.WithoutCancel(ctx), st: st, opts: opts, ledger: ledger}
	a.root = fsys.NewTable(
		fsys.Entry{Name: "limits", Node: &fsys.Doc{Load: a.loadLimits, Save: a.saveLimits}},
		fsys.Entry{Name: "usage", Node: fsys.JSON(a.Usage)},
		fsys.Entry{Name: "ledger", Node: ledger.Tape()},
	)
	return a, nil
}

// End says that nothing more will come: the ledger has ended, and the account
// gives nothing.
func (a *Account) End() {
	a.ended.Store(true)
	a.ledger.Tape().End()
}

// Root returns the files of the account.
func (a *Account) Root() fsys.Node { return a.root }

// Name returns the name that the account was opened with.
func (a *Account) Name() string { return a.opts.Name }

type accountKey struct{}

// With returns a context whose work a pays for.
func With(ctx context.Context, a *Account) context.Context {
	return context.WithValue(ctx, accountKey{}, a)
}

// From returns who pays for the work of ctx.
func From(ctx context.Context) (*Account, bool) {
	a, ok := ctx.Value(accountKey{}).(*Account)
	return a, ok && a != nil
}

var errNoBudget = fsys.E(fsys.Exhausted, "no budget is mounted here")

// Admit refuses work before there is a request: with fsys.Exhausted if the
// account of ctx, or one above it, is overdrawn or has nothing left, or if
// nobody pays here.
func Admit(ctx context.Context) error {
	a, ok := From(ctx)
	if !ok {
		return errNoBudget
	}
	chain, err := a.chain(ctx, nil)
	if err != nil {
		return err
	}
	for _, l := range chain {
		if err := l.admit(); err != nil {
			return err
		}
	}
	return nil
}

// Tick begins the window of a tick. Id tells it apart from the one before it.
func (a *Account) Tick(tx store.Store, id string) error {
	b, err := a.books(a.ctx, tx)
	if err != nil {
		return err
	}
	return b.enter(tx, Entry{Kind: "tick", Tick: id})
}
