package sessions

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/services/internal/work"
	"agent9/store"
)

// record is what the store has of a session, apart from what was said and
// what waits.
type record struct {
	Number  int64       `json:"number"`
	Title   string      `json:"title,omitempty"`
	Profile string      `json:"profile,omitempty"`
	By      fsys.Caller `json:"by,omitempty"` // who began it
	Created time.Time   `json:"created"`
	Active  time.Time   `json:"active"` // the last prompt, answer or command
	Ends    time.Time   `json:"ends"`   // if nothing happens
	Warned  bool        `json:"warned,omitempty"`
	Paused  bool        `json:"paused,omitempty"`
	Ended   time.Time   `json:"ended,omitzero"`
	Why     string      `json:"why,omitempty"` // it has ended

	Prompts int64         `json:"prompts"` // the last number that was given
	Waiting int           `json:"waiting"` // without the one that is being answered
	Queued  int64         `json:"queued"`  // bytes of those
	Lines   int64         `json:"lines"`   // of the transcript
	Size    int64         `json:"size"`    // of transcript and answers
	Cost    budget.Micros `json:"cost"`

	// The prompt that is being answered; 0 is none.
	Running   int64     `json:"running,omitempty"`
	Begun     time.Time `json:"begun,omitzero"`
	Attempt   int       `json:"attempt,omitempty"`
	From      int64     `json:"from,omitempty"`      // where the attempt begins in the stream
	Cancelled string    `json:"cancelled,omitempty"` // it is to end, and why
	Ending    string    `json:"ending,omitempty"`    // the session is to end with it, and why
	Removing  bool      `json:"removing,omitempty"`  // and to be removed

	Hidden []string `json:"hidden,omitempty"` // files that were removed
}

func (r *record) ended() bool { return !r.Ended.IsZero() }

// runnable reports whether there is something to do.
func (r *record) runnable() bool {
	return r.Running != 0 || r.Waiting > 0 && !r.Paused && !r.ended()
}

// idle reports whether the session ends if nothing happens.
func (r *record) idle() bool { return !r.ended() && r.Running == 0 && r.Waiting == 0 }

// warning is how long before the end there is an event, for a session that
// may be idle for so long.
func (r *record) warning() time.Duration { return min(time.Minute, r.Ends.Sub(r.Active)/5) }

// due is when something is to be done about an idle session.
func (r *record) due() time.Time {
	if r.Warned {
		return r.Ends
	}
	return r.Ends.Add(-r.warning())
}

// The keys of the records. Numbers are padded, so that they sort.
const (
	nextKey    = "next"
	totalsKey  = "totals"
	listPrefix = "list/" // sessions that are shown: nothing
	workPrefix = "work/" // those with something to do: nothing
	idlePrefix = "idle/" // those that will end by themselves, by when that is due: nothing

	recPrefix    = "rec/"   // the record
	queuePref    = "q/"     // the prompts that wait
	shownPrefix  = "shown/" // see [Answer]
	streamPrefix = "out/"   // the log of the answers
	saidPrefix   = "said/"  // the log of the transcript
)

// Arrive returns what becomes of a record that comes from elsewhere.
func Arrive(p store.Pair) ([]store.Pair, error) { return work.Arrive(p, queuePref) }

func recordKey(n int64) string         { return recPrefix + work.Padded(n) }
func queuePrefix(n int64) string       { return queuePref + work.Padded(n) + "/" }
func promptKey(n, prompt int64) string { return queuePrefix(n) + work.Padded(prompt) }
func shownKey(n int64) string          { return shownPrefix + work.Padded(n) }
func streamView(n int64) string        { return streamPrefix + work.Padded(n) + "/" }
func transcriptView(n int64) string    { return saidPrefix + work.Padded(n) + "/" }
func idleKey(due time.Time, n int64) string {
	return idlePrefix + work.Padded(due.UnixMilli()) + "/" + work.Padded(n)
}

// index is where r can be found besides its record.
func (r *record) index() map[string]bool {
	keys := map[string]bool{}
	if r.Number == 0 {
		return keys
	}
	if !r.Removing {
		keys[listPrefix+work.Padded(r.Number)] = true
	}
	switch {
	case r.runnable():
		keys[workPrefix+work.Padded(r.Number)] = true
	case r.ended():
		keys[work.EndedKey(r.Ended, r.Number)] = true
	case r.idle():
		keys[idleKey(r.due(), r.Number)] = true
	}
	return keys
}

// numberIn reads the number in a key of prefix.
func numberIn(key, prefix string) (int64, error) {
	n, err := strconv.ParseInt(key[len(prefix):], 10, 64)
	if err != nil {
		return 0, errKey(key)
	}
	return n, nil
}

// parseIdle reads the time and the number in an [idleKey].
func parseIdle(key string) (due time.Time, n int64, err error) {
	ms, number, _ := strings.Cut(key[len(idlePrefix):], "/")
	milli, err := strconv.ParseInt(ms, 10, 64)
	if err == nil {
		n, err = strconv.ParseInt(number, 10, 64)
	}
	if err != nil {
		return due, 0, errKey(key)
	}
	return time.UnixMilli(milli), n, nil
}

func errKey(key string) error {
	return fsys.E(fsys.Internal, fmt.Sprintf("the database has a session that is called %q", key))
}

// overhead is what a session counts besides what was said.
const overhead = 1 << 10

// totals are sums over all sessions that there are.
type totals struct {
	Open int64 `json:"open"` // that have not ended
	Kept int64 `json:"kept"` // bytes of those that have
}

func loadTotals(ctx context.Context, st store.Store) (totals, error) {
	t, err := store.GetJSON[totals](ctx, store.Forgiving(st), totalsKey)
	switch {
	case missing(err):
		err = nil
	case store.IsDamaged(err):
		t, err = sum(ctx, st)
	}
	return t, err
}

// count adds r to t as often as n says.
func (t *totals) count(r *record, n int64) {
	switch {
	case r.Number == 0:
	case r.ended():
		t.Kept += n * (r.Size + overhead)
	default:
		t.Open += n
	}
}

// put stores after, which was before until now: with the record, its index and
// the totals change. Of a number 0, before was not there yet, or after is gone.
func put(ctx context.Context, tx store.Store, before, after *record) error {
	was, is := before.index(), after.index()
	for key := range maps.Keys(was) {
		if !is[key] {
			if err := tx.Delete(ctx, key); err != nil {
				return err
			}
		}
	}
	for key := range maps.Keys(is) {
		if !was[key] {
			if err := tx.Put(ctx, key, nil); err != nil {
				return err
			}
		}
	}
	t, err := loadTotals(ctx, tx)
	if err != nil {
		return err
	}
	now := t
	now.count(before, -1)
	now.count(after, 1)
	if now != t {
		if err := store.PutJSON(ctx, tx, totalsKey, now); err != nil {
			return err
		}
	}
	if after.Number == 0 {
		return tx.Delete(ctx, recordKey(before.Number))
	}
	return store.PutJSON(ctx, tx, recordKey(after.Number), after)
}
