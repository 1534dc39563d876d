package ticks

import (
	"context"
	"errors"
	"fmt"

	"agent9/fsys"
	"agent9/providers/programs"
	"agent9/store"
)

// The keys, in the view that the service is given:
//
//	record         record
//	mode           Mode
//	o/<n>          order: to tick, once
//	a/<id>         alarm
//	r/<key>        retry: of the message m/<id>, the order or the alarm key
//	out/<n>        what the last ticks printed
const (
	recordKey = "record"
	modeKey   = "mode"
	orders    = "o/"
	alarms    = "a/"
	retries   = "r/"
	outputs   = "out/"
	letters   = "m/" // only below retries
)

// A record is what is known of an agent's ticks.
type record struct {
	Count   uint64   `json:"count"`
	Failed  uint64   `json:"failed"`
	Last    *Last    `json:"last,omitempty"`
	Running *running `json:"running,omitempty"`
	GivenUp int      `json:"given_up,omitempty"` // in a row
	Broken  string   `json:"broken,omitempty"`   // why the agent has failed
	Asleep  bool     `json:"asleep,omitempty"`
	Alarm   uint64   `json:"alarm,omitempty"` // the latest alarm's number
	Order   uint64   `json:"order,omitempty"` // the latest order's
}

// running is a tick that has begun.
type running struct {
	ID      string         `json:"id"`
	Key     string         `json:"key"` // of the trigger
	Cause   programs.Cause `json:"cause"`
	Message string         `json:"message,omitempty"`
	From    fsys.Caller    `json:"from,omitempty"`
	Attempt int            `json:"attempt"`
	Start   int64          `json:"start"` // milliseconds since 1970
}

// Last is the tick that ended last, as status shows it.
type Last struct {
	ID       string         `json:"id"`
	Cause    programs.Cause `json:"cause"`
	Message  string         `json:"message,omitempty"`
	Attempt  int            `json:"attempt"`
	Start    string         `json:"start"`
	Duration int64          `json:"duration_ms"`
	Outcome  string         `json:"outcome"`
	Reason   string         `json:"reason,omitempty"`
}

// Mode is what of the agent's settings decides whether something is due. It is
// in the store so that it is read in the transaction that something happens in.
type Mode struct {
	Program  bool     `json:"program"`
	Messages bool     `json:"messages"`
	Watch    []string `json:"watch,omitempty"`
	Stopped  bool     `json:"stopped"`
}

// A retry is a trigger whose tick failed, or was cut off.
type retry struct {
	From      fsys.Caller `json:"from,omitempty"` // of a message
	Tries     int         `json:"tries"`          // that failed
	Cut       int         `json:"cut,omitempty"`  // that ended with the daemon
	NotBefore int64       `json:"not_before"`     // milliseconds since 1970
	// Full says that it was given up and found no room in deadletter: it waits
	// for that.
	Full bool `json:"full,omitempty"`
}

// maxCut is how often a daemon may end during a tick for one trigger until
// that counts as its failure.
const maxCut = 16

// An order is a tick that somebody or something asked for.
type order struct {
	Cause programs.Cause `json:"cause"`
	Text  string         `json:"text,omitempty"`
	Path  string         `json:"path,omitempty"`
	By    fsys.Caller    `json:"by,omitempty"`
}

// maxOrders is how many orders wait at most.
const maxOrders = 64

func orderKey(n uint64) string { return fmt.Sprintf("%s%016x", orders, n) }

func load[T any](ctx context.Context, s store.Store, key string) (T, error) {
	v, err := store.GetJSON[T](ctx, s, key)
	if errors.Is(err, fsys.NotExist) {
		return v, nil
	}
	return v, err
}

// loadRetry returns the retry at key, which begins anew if it is damaged.
func loadRetry(ctx context.Context, s store.Store, key string) (retry, error) {
	r, err := load[retry](ctx, store.Forgiving(s), key)
	if store.IsDamaged(err) {
		return retry{}, nil
	}
	return r, err
}

func loadRecord(ctx context.Context, s store.Store) (record, error) {
	return load[record](ctx, s, recordKey)
}

// change changes the record in a transaction.
func (s *Service) change(ctx context.Context, tx store.Store, f func(r *record) error) error {
	in := store.In(tx, s.st)
	r, err := loadRecord(ctx, in)
	if err != nil {
		return err
	}
	if err := f(&r); err != nil {
		return err
	}
	return store.PutJSON(ctx, in, recordKey, r)
}

// Summary is what status shows.
type Summary struct {
	Mode
	Count, Failed   uint64
	Last            *Last
	Running         string // the id of the tick that runs
	Broken          string // why the agent has failed
	Asleep, Pending bool   // something is due
	Alarms          int
}

// Summary returns how things stand.
func (s *Service) Summary(ctx context.Context) (Summary, error) {
	r, err := loadRecord(ctx, s.st)
	if err != nil {
		return Summary{}, err
	}
	sum := Summary{Count: r.Count, Failed: r.Failed, Last: r.Last, Broken: r.Broken, Asleep: r.Asleep}
	if r.Running != nil && s.Current() != nil {
		sum.Running = r.Running.ID
	}
	if sum.Mode, err = load[Mode](ctx, s.st, modeKey); err != nil {
		return sum, err
	}
	list, err := s.loadAlarms(ctx, s.st)
	if err != nil {
		return sum, err
	}
	sum.Alarms = len(list)
	d, err := s.due(ctx, nil)
	sum.Pending = d.Ready || d.taken // by a tick that is about to begin
	return sum, err
}
