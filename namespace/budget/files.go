package budget

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"agent9/fsys"
	"agent9/store"
)

// An Entry is one line of the ledger.
type Entry struct {
	Time string `json:"time,omitempty"`
	// Kind is hold, settle, release (a settle at no cost), tick, limits or close.
	Kind string `json:"kind"`
	Hold string `json:"hold,omitempty"`
	// Account is the one below this one whose work it is, if it is not its own.
	Account string  `json:"account,omitempty"`
	Max     *Micros `json:"max_microusd,omitempty"`  // of the hold: hold, settle, release
	Cost    *Micros `json:"cost_microusd,omitempty"` // settle, release
	What    string  `json:"what,omitempty"`
	Reason  string  `json:"reason,omitempty"`
	Tick    string  `json:"tick,omitempty"`   // tick
	Limits  *Limits `json:"limits,omitempty"` // limits: the new ones
	By      string  `json:"by,omitempty"`     // limits: who set them
}

// Usage is what is held, spent and left.
type Usage struct {
	Held Micros `json:"held_microusd"`
	// Holds is how many are open.
	Holds int `json:"holds"`
	// Left is what [Account.Left] says, and Overdrawn that it is negative.
	Left      *Micros `json:"left_microusd"`
	Overdrawn bool    `json:"overdrawn"`
	Tick      Window  `json:"tick"`
	Day       Window  `json:"day"`
	Total     Window  `json:"total"`
	Parent    string  `json:"parent,omitempty"`
}

// Usage returns the books as they are now.
func (a *Account) Usage(ctx context.Context) (Usage, error) {
	b, err := a.books(ctx, nil)
	if err != nil {
		return Usage{}, err
	}
	u := Usage{Held: b.totals.Held, Holds: b.totals.Holds, Parent: b.limits.Parent}
	u.Tick, u.Day, u.Total = b.windows()
	if u.Left, err = a.Left(ctx); err != nil {
		return Usage{}, err
	}
	u.Overdrawn = u.Left != nil && *u.Left < 0
	return u, nil
}

// Left returns how much can really be set aside now: what is left of the
// tightest window of this account and of all those above it. nil is no limit,
// and a negative amount overdrawn. Below an account that is gone it is 0.
func (a *Account) Left(ctx context.Context) (*Micros, error) {
	chain, err := a.chain(ctx, nil)
	if errors.Is(err, fsys.NotExist) {
		return new(Micros(0)), nil
	}
	if err != nil {
		return nil, err
	}
	var left *Micros
	for _, b := range chain {
		if w, limited := b.tightest(); limited && (left == nil || *w.Left < *left) {
			left = w.Left
		}
	}
	return left, nil
}

// Limits returns what was last written to limits, or the defaults.
func (a *Account) Limits(ctx context.Context) (Limits, error) { return a.limits(ctx, a.st) }

func (a *Account) limits(ctx context.Context, s store.Store) (Limits, error) {
	l, err := store.GetJSON[Limits](ctx, s, limitsKey)
	if errors.Is(err, fsys.NotExist) {
		return a.opts.Defaults, nil
	}
	return l, err
}

// SetLimits sets l, in the transaction that tx belongs to.
func (a *Account) SetLimits(ctx context.Context, tx store.Store, l Limits) error {
	for _, m := range []*Micros{l.PerTick, l.PerDay, l.Total, l.ApprovalThreshold} {
		if m == nil {
			continue
		}
		if err := checkAmount(*m); err != nil {
			return err
		}
	}
	if ms := l.ApprovalExpires; ms != nil && (*ms < 1 || *ms > longestWait.Milliseconds()) {
		return fsys.E(fsys.Invalid, fmt.Sprintf("approval_expires_ms must be from 1 to %d, not %d", longestWait.Milliseconds(), *ms))
	}
	b, err := a.books(ctx, tx)
	if err != nil {
		return err
	}
	if err := store.PutJSON(ctx, a.in(tx), limitsKey, l); err != nil {
		return err
	}
	chain, err := a.chain(ctx, tx) // is there such a parent?
	if err != nil {
		return &fsys.Error{Code: fsys.Invalid, Reason: fsys.ReasonOf(err), Err: err}
	}
	if err := a.moved(ctx, tx, b.limits.Parent, l.Parent); err != nil {
		return err
	}
	return chain[0].enter(tx, Entry{Kind: "limits", Limits: &l, By: string(fsys.CallerOf(ctx))})
}

func (a *Account) loadLimits(ctx context.Context) ([]byte, error) {
	l, err := a.Limits(ctx)
	return fsys.Line(l), err
}

func (a *Account) saveLimits(ctx context.Context, doc []byte) error {
	l, err := parseLimits(doc)
	if err != nil {
		return err
	}
	return a.st.Update(ctx, func(tx store.Store) error { return a.SetLimits(ctx, tx, l) })
}

// IsSetting reports whether what is stored at key is what the operator has set,
// and not what was spent: a copy of an account is given it.
func IsSetting(key string) bool { return key == limitsKey }

// Adopt makes the records in s those of an account that comes from another
// daemon: what its holds have of the accounts above is not held here. It
// returns the name of the account above it, empty if there is none.
func Adopt(ctx context.Context, s store.Store) (parent string, err error) {
	for p, err := range store.All(ctx, s, holdPrefix) {
		if err != nil {
			return "", err
		}
		r, err := store.GetJSON[record](ctx, s, p.Key)
		if err != nil {
			return "", err
		}
		if r.Above == nil {
			continue
		}
		r.Above = nil
		if err := store.PutJSON(ctx, s, p.Key, r); err != nil {
			return "", err
		}
	}
	l, err := store.GetJSON[Limits](ctx, s, limitsKey)
	if errors.Is(err, fsys.NotExist) {
		return "", nil
	}
	return l.Parent, err
}

func parseLimits(doc []byte) (Limits, error) {
	var l Limits
	err := fsys.Strictly(doc, &l)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return l, nil
	case errors.As(err, &wrong) && strings.HasSuffix(wrong.Field, "_microusd"):
		return l, fsys.E(fsys.Invalid, fmt.Sprintf("%s must be a whole number of millionths of a dollar, or null for no limit, not %s", wrong.Field, wrong.Value))
	case errors.As(err, &wrong) && strings.HasSuffix(wrong.Field, "_ms"):
		return l, fsys.E(fsys.Invalid, fmt.Sprintf("%s must be a whole number of milliseconds, not %s", wrong.Field, wrong.Value))
	case wrong != nil && wrong.Field == "":
		return l, fsys.E(fsys.Invalid, "limits must be one JSON object, such as {\"per_day_microusd\": 5000000}")
	}
	return l, fsys.E(fsys.Invalid, err.Error())
}
