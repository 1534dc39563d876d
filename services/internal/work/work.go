// Package work is the ledger of numbered work that costs money, and what services
// share that have such work.
//
// A [Table] stores records. Every change of one goes through [Table.Put], which is
// given the record before and after, and changes its indexes and the totals with
// it; the totals are never changed by hand for a record.
//
// A [Ledger] adds what becomes of work: [Ledger.Submit] makes a request work once,
// with its money held, and asks for an approval if it must; a [Crew] runs it; its
// end, whether it ran, was refused, stopped while it waited, or was cut off, is
// one transaction in one function, which settles its holds at what the record
// says was spent, sweeps what is too old, and removes the work if that was asked
// for. A hold is therefore settled exactly once: by that transaction, or by
// [Ledger.Recover] at the next start, if the program ended before it. What may
// have cost something then is for the service to say.
//
// A service says what a record is to the ledger ([Standing]), what it counts
// besides money, and, as methods of its type of work ([Piece]), how the work is
// done and where its streams are.
//
// Keys in the store are those of the view that the service was given:
//
//	next               the number of the latest
//	totals             sums over all
//	rec/N, req/N       the record, the request as it was submitted
//	list/N             what is shown: its name
//	open/N             what has not ended
//	end/TIME/N         what has
//	key/KEY, exp/TIME/KEY   idempotency keys, and when they expire
package work

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"agent9/fsys"
	"agent9/store"
)

// Day is the longest unit of a [Duration].
const Day = 24 * time.Hour

// Padded is n as part of a key, so that keys sort as numbers do.
func Padded(n int64) string { return fmt.Sprintf("%016d", n) }

// Number reads the name of a directory that is the number of a piece of work.
func Number(name string) (int64, bool) {
	if name == "" || name[0] == '0' || strings.Trim(name, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(name, 10, 64)
	return n, err == nil
}

// Reply is what a write that made work n is answered with; nothing for 0.
func Reply(n int64) []byte {
	if n == 0 {
		return nil
	}
	return append(strconv.AppendInt(nil, n, 10), '\n')
}

// Next returns a number that no work ever had, counted at key.
func Next(ctx context.Context, tx store.Store, key string) (int64, error) {
	last, err := store.GetJSON[int64](ctx, tx, key)
	if err != nil && !missing(err) {
		return 0, err
	}
	return last + 1, store.PutJSON(ctx, tx, key, last+1)
}

// Stamp is a time as files show it; empty for none.
func Stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fsys.Stamp(t)
}

// Failure is an error as files show it.
type Failure struct {
	Code   string `json:"code"`
	Reason string `json:"reason"`
}

// FailureOf returns err as files show it.
func FailureOf(err error) *Failure {
	f := &Failure{fsys.CodeOf(err).String(), fsys.ReasonOf(err)}
	if f.Reason == "" {
		f.Reason = f.Code
	}
	return f
}

func missing(err error) bool { return errors.Is(err, fsys.NotExist) }
