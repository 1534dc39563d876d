// Package ticks runs agents' programs when something happens.
//
// A [Service] is one agent's: it knows what waits to set off a tick, runs one
// tick at a time, and stores what came of it. It serves
//
//	logs/output    Text: what the last ticks printed, at most 64 KiB of each
//
// and the verbs of ctl that are about ticks: tick, alarm, cancel, hibernate,
// wake.
//
// A trigger is a message, an alarm that is due, an order to tick, or a change
// of a watched file. Orders go first, then alarms, then messages, each oldest
// first. A tick that fails comes again after a time that grows; meanwhile
// other triggers have their turn, but no message of the same sender, so that
// the order of each is kept. When it has failed too often the trigger is given
// up: a message goes to deadletter. When several in a row had to be given up,
// the agent has failed, and runs nothing until a person says so.
//
// What a tick did, and that its trigger is done with, is one transaction. The
// end of the program, however it comes, leaves the trigger as it was, and the
// tick is recorded as interrupted when the agent is opened next.
//
// A [Schedule] is the daemon's: an index in the store of which agents have
// something to do, and when. An agent that waits is nothing but its line there.
package ticks

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"agent9/fsys"
	"agent9/providers/programs"
	"agent9/store"
)

// Settings are what config says about ticks.
type Settings struct {
	Program    programs.Program // nil: there is none
	Timeout    time.Duration
	Retries    int           // after the first failure
	Backoff    time.Duration // before the first one; four times as long before each further one
	MaxBackoff time.Duration
	GiveUp     int   // triggers in a row that are given up until the agent has failed
	Output     int64 // bytes that a program may print
}

// A Room is what one tick works in.
type Room interface {
	// Open makes the room, with ctl for what the tick asks of its agent.
	Open(ctx context.Context, t programs.Trigger, staged *Staged) (programs.Env, error)
	// Commit stores what was done in it, in the transaction that tx belongs
	// to.
	Commit(ctx context.Context, tx store.Store) error
	// Close ends it, with what was not committed.
	Close()
}

// A Letter is a message that was taken from the inbox.
type Letter struct {
	ID      string
	From    fsys.Caller
	JSON    json.RawMessage
	Done    func(ctx context.Context, tx store.Store) error
	Bury    func(ctx context.Context, tx store.Store, reason string) error
	Release func()
}

// Mail is the agent's inbox.
type Mail interface {
	// Take takes the oldest message from no sender that skip names; nil if
	// there is none.
	Take(ctx context.Context, skip func(from fsys.Caller) bool) (*Letter, error)
	// Waiting reports whether there is one to take, or one that somebody
	// else has taken.
	Waiting(ctx context.Context, tx store.Store, skip func(from fsys.Caller) bool) (free, taken bool, err error)
	Has(ctx context.Context, tx store.Store, id string) (bool, error)
}

// Options connect a Service to its agent.
type Options struct {
	Name     string
	Now      func() time.Time
	Settings func() Settings
	Mail     Mail
	// Room prepares the room of the next tick: from then on nobody else
	// changes what is its own.
	Room func() (Room, error)
	// Due tells the daemon when there is something to do.
	Due func(ctx context.Context, tx store.Store, d Due) error
	// Begun opens what is counted per tick, and Cost is what was spent there.
	Begun func(tx store.Store, id string) error
	Cost  func(ctx context.Context) (int64, error)
	// Record adds a line to the history of ticks.
	Record func(tx store.Store, l Line) error
	Note   store.Note
}

// A Line is one tick in the history.
type Line struct {
	ID       string
	Cause    programs.Cause
	Message  string // the id of the message, if one set it off
	Attempt  int
	Start    time.Time
	Duration time.Duration
	Outcome  string // done, stopped, interrupted, or the programs.Kind of its failure
	Reason   string
	Cost     int64 // in micro-US-dollars
}

// A Service runs the ticks of one agent. A view of a store must not have two
// at a time.
type Service struct {
	st      store.Updater
	opts    Options
	turn    sync.Mutex // held by who runs a tick
	current atomic.Pointer[Current]

	mu     sync.Mutex
	alarms uint64                  // the latest alarm's number
	cancel context.CancelCauseFunc // of the tick that runs
}

// Current is the tick that runs.
type Current struct {
	ID      string
	Message string // empty if no message set it off
}

// Open returns the ticks that are kept in st, which may be empty. It runs
// nothing.
func Open(ctx context.Context, st store.Updater, opts Options) (*Service, error) {
	s := &Service{st: st, opts: opts}
	r, err := loadRecord(ctx, st)
	s.alarms = r.Alarm
	return s, err
}

// Current returns the tick that runs, or nil.
func (s *Service) Current() *Current { return s.current.Load() }

var (
	errStopped = errors.New("the agent was stopped")
	errEnding  = errors.New("the daemon ended")
)

// Cut ends the tick that runs, because the agent is stopped. Its trigger
// stays.
func (s *Service) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		s.cancel(errStopped)
	}
}

// Wait waits until no tick runs.
func (s *Service) Wait(ctx context.Context) error {
	ended := make(chan struct{})
	go func() { // until the tick ends, which Cut or its timeout sees to
		s.turn.Lock()
		//lint:ignore SA2001 to have waited is all
		s.turn.Unlock()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Work runs the next tick, if something waits for one. It returns when that
// is recorded, and has told the daemon what is due then. If another Work runs,
// it does nothing. When ctx ends the tick is cut off, and its trigger stays.
func (s *Service) Work(ctx context.Context) error {
	if !s.turn.TryLock() {
		return nil
	}
	defer s.turn.Unlock()
	if err := s.recover(ctx); err != nil {
		return err
	}
	j, err := s.next(ctx)
	if err != nil {
		return err
	}
	if j == nil {
		return s.st.Update(ctx, func(tx store.Store) error { return s.plan(ctx, tx, true) })
	}
	defer j.release()
	return s.tick(ctx, j)
}
