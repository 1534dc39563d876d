package work

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"agent9/namespace/budget"
	"agent9/store"
)

// The keys of a table. Numbers are padded, so that they sort.
const (
	nextKey   = "next"   // the number of the latest
	totalsKey = "totals" // sums over all

	RecPrefix  = "rec/"  // the record
	reqPrefix  = "req/"  // the request
	ListPrefix = "list/" // what is shown: its name, if it has one
	OpenPrefix = "open/" // what has not ended: nothing
)

// RecordKey is where the record of work n is.
func RecordKey(n int64) string { return RecPrefix + Padded(n) }

// RequestKey is where the request of work n is, as it was submitted.
func RequestKey(n int64) string { return reqPrefix + Padded(n) }

// ListKey is where work n is that is shown.
func ListKey(n int64) string { return ListPrefix + Padded(n) }

// OpenKey is where work n is that has not ended.
func OpenKey(n int64) string { return OpenPrefix + Padded(n) }

// A Listing is the part of a record that says what of it is shown.
type Listing struct {
	Removing bool     `json:"removing,omitempty"` // it is removed when it has ended
	Hidden   []string `json:"hidden,omitempty"`   // files that were removed
}

// Entry is what the list has of work of this name; nil if that is not shown.
func (l *Listing) Entry(name string) []byte {
	if l.Removing {
		return nil
	}
	return []byte(name)
}

// Standing is what a record says to the ledger.
type Standing struct {
	Number   int64
	Listed   []byte // its entry in the list; nil: none
	Key      string // the idempotency key; empty: none
	Holds    []string
	Held     budget.Micros
	Spent    budget.Micros // of what was held: settled
	Size     int64         // bytes that count when it has ended
	Awaiting bool          // an approval
	Open     bool          // it has not ended
	Ended    time.Time
	Listing  *Listing
}

// Sums are the part of the totals that every service has.
type Sums struct {
	Held  budget.Micros `json:"held"`
	Spent budget.Micros `json:"spent"` // also on what is gone
}

// A Table stores records R, with indexes of them and totals T.
type Table[R, T any] struct {
	// What one is called, such as job.
	What string
	// Data are the prefixes below which other data of the work is, by number.
	Data []string
	// Standing reads a record. Its Listing is that of the record.
	Standing func(*R) Standing
	// New returns totals of nothing.
	New func() T
	// Sums returns those in the totals.
	Sums func(*T) *Sums
	// Count adds a record n times to the rest of the totals; n may be -1.
	Count func(t *T, r *R, n int64)
	// Besides, if set, counts what the totals have that is in no record.
	Besides func(ctx context.Context, st store.Store, t *T) error
}

// Read returns the record of work n, or NotExist.
func (tb *Table[R, T]) Read(ctx context.Context, st store.Store, n int64) (R, error) {
	return store.GetJSON[R](ctx, st, RecordKey(n))
}

// Put stores after, which was before until now: with the record, its indexes
// and the totals change. A nil before was not there; a nil after is gone, and
// what was spent on it stays spent.
func (tb *Table[R, T]) Put(ctx context.Context, tx store.Store, before, after *R) error {
	was, is := tb.index(before), tb.index(after)
	for key := range was {
		if _, ok := is[key]; !ok {
			if err := tx.Delete(ctx, key); err != nil {
				return err
			}
		}
	}
	for key, value := range is {
		if _, ok := was[key]; !ok {
			if err := tx.Put(ctx, key, value); err != nil {
				return err
			}
		}
	}
	if err := tb.recount(ctx, tx, before, after); err != nil {
		return err
	}
	if after == nil {
		return tx.Delete(ctx, RecordKey(tb.Standing(before).Number))
	}
	return store.PutJSON(ctx, tx, RecordKey(tb.Standing(after).Number), after)
}

func (tb *Table[R, T]) index(r *R) map[string][]byte {
	if r == nil {
		return nil
	}
	return tb.Standing(r).index()
}

// index is where work can be found besides its record.
func (s Standing) index() map[string][]byte {
	keys := map[string][]byte{}
	if s.Listed != nil {
		keys[ListKey(s.Number)] = s.Listed
	}
	if s.Open {
		keys[OpenKey(s.Number)] = []byte{}
	} else {
		keys[EndedKey(s.Ended, s.Number)] = []byte{}
	}
	return keys
}

// recount makes the totals those with after instead of before.
func (tb *Table[R, T]) recount(ctx context.Context, tx store.Store, before, after *R) error {
	was, is := tb.New(), tb.New()
	tb.add(&was, before, 1)
	tb.add(&is, after, 1)
	if reflect.DeepEqual(was, is) {
		return nil
	}
	return tb.Change(ctx, tx, func(t *T) {
		spent := tb.Sums(t).Spent
		tb.add(t, before, -1)
		tb.add(t, after, 1)
		if after == nil {
			tb.Sums(t).Spent = spent
		}
	})
}

// add adds r, if it is not nil, n times to t.
func (tb *Table[R, T]) add(t *T, r *R, n int64) {
	if r == nil {
		return
	}
	s, sums := tb.Standing(r), tb.Sums(t)
	if s.Open {
		sums.Held += budget.Micros(n) * s.Held
	}
	sums.Spent += budget.Micros(n) * s.Spent
	tb.Count(t, r, n)
}

// Change changes the totals.
func (tb *Table[R, T]) Change(ctx context.Context, tx store.Store, change func(*T)) error {
	t, err := tb.Totals(ctx, tx)
	if err != nil {
		return err
	}
	change(&t)
	return store.PutJSON(ctx, tx, totalsKey, t)
}

// Totals returns the totals. If they are damaged they are added up anew, and
// what was spent on work that is gone is only in the account.
func (tb *Table[R, T]) Totals(ctx context.Context, st store.Store) (T, error) {
	t := tb.New()
	raw, err := store.Forgiving(st).Get(ctx, totalsKey)
	switch {
	case missing(err):
		return t, nil
	case store.IsDamaged(err), err == nil && json.Unmarshal(raw, &t) != nil:
		return tb.sum(ctx, st)
	}
	return t, err
}

// sum returns the totals of the records in st that are whole.
func (tb *Table[R, T]) sum(ctx context.Context, st store.Store) (T, error) {
	t := tb.New()
	for p, err := range store.All(ctx, store.Forgiving(st), RecPrefix) {
		var r R
		if err != nil {
			return t, err
		}
		if json.Unmarshal(p.Value, &r) == nil {
			tb.add(&t, &r, 1)
		}
	}
	return t, tb.besides(ctx, st, &t)
}

func (tb *Table[R, T]) besides(ctx context.Context, st store.Store, t *T) error {
	if tb.Besides == nil {
		return nil
	}
	return tb.Besides(ctx, store.Forgiving(st), t)
}

// Holds returns what the work in st that has not ended holds of the account: by
// the id of the hold, what it is for.
func (tb *Table[R, T]) Holds(ctx context.Context, st store.Store, service string) (map[string]string, error) {
	holds := map[string]string{}
	for p, err := range store.All(ctx, st, RecPrefix) {
		var r R
		if err != nil {
			return nil, err
		}
		if json.Unmarshal(p.Value, &r) != nil {
			continue // what cannot be read is a finding of its own
		}
		if s := tb.Standing(&r); s.Open {
			for _, id := range s.Holds {
				holds[id] = fmt.Sprintf("%s %s %d", service, tb.What, s.Number)
			}
		}
	}
	return holds, nil
}

// AnyOpen reports whether st has work that has not ended.
func AnyOpen(ctx context.Context, st store.Store) (bool, error) {
	page, err := store.Forgiving(st).List(ctx, OpenPrefix, "", 1)
	return len(page) > 0, err
}
