// Package inbox serves an agent's messages:
//
//	inbox/new            Message: put in a message; the reply is its id
//	inbox/next           Stream: each open takes the oldest message
//	inbox/head           Stream: each open reads the oldest message
//	inbox/<id>           Text: one message that waits; rm acknowledges it
//	inbox/taken/<id>     Text: one that was taken less than 10 minutes ago; rm forgets it
//	inbox/ctl            Message: untake ID|all
//	deadletter/<id>      Text: one that found no room, why and when; rm discards it
//	deadletter/ctl       Message: replay ID|all, discard ID|all
//	outbox/new           Message: send to another agent; the reply is the id
//	outbox/sent          Stream: what was sent, as JSON lines
//
// A message is one line of JSON, [Message]. A request to inbox/new is an
// object with the fields body and, if wanted, id, type and reply_to; or plain
// text, which is the body. From and time are the server's: a request that has
// them is refused. outbox/new also wants to.
//
// The order is that of arrival, whoever sent. A first read of next waits until
// there is a message and takes it, so that nobody else is given it; it is gone
// when the handle is synced, or closed in order, after every byte of it was
// read, and back in its place when the handle is closed otherwise. A message
// that was taken when the program died is back too: it was never away from
// the disk. Those who wait at next are served in the order in which they came.
// For ten minutes, what next gave out and what was removed from inbox can be
// put back to where it was, as far as it is among the last 1,024 messages and
// 4 MiB that were taken.
// head shows the oldest message that nobody has taken.
//
// An id that the sender chose names one message: while that waits, is in
// deadletter, or is among the last 4,096 such that were acknowledged, another
// one with this id from the same sender changes nothing and is answered the
// same; from another sender it is refused.
//
// A program of the agent's own takes messages with [Inbox.Claim]; next is then
// fsys.Busy. What it sends can be held back in a [Batch].
package inbox

import (
	"context"
	"errors"
	"sync"
	"time"

	"agent9/fsys"
	"agent9/store"
)

// The names that messages cannot bear.
const (
	newName  = "new"
	nextName = "next"
	headName = "head"
	ctlName  = "ctl"
	takeName = "taken"
	allWord  = "all"
)

// Config bounds an inbox.
type Config struct {
	Limit    int      // messages that wait; 0 means 1,024
	Overflow Overflow // what happens to one more; empty means ToDeadLetter
	// DeadLimit is how many messages deadletter has; 0 means 1,024. One more is
	// refused with fsys.Busy, as nothing that was taken in is lost unasked, or, with
	// DropDead, the oldest there is dropped.
	DeadLimit int
	DropDead  bool
}

// Overflow says what happens when a message comes and the inbox is full.
type Overflow string

const (
	ToDeadLetter Overflow = "deadletter"  // it goes there
	DropOldest   Overflow = "drop-oldest" // the oldest one that nobody has taken is dropped
	Refuse       Overflow = "refuse"      // its sender is told fsys.Busy
)

// Options of an inbox. Each may be nil.
type Options struct {
	// Config is asked whenever it matters, so changes act at once.
	Config func() Config
	Note   store.Note
	Now    func() time.Time // the clock
	// Reserved reports that messages are for who claims them: then next
	// gives out none. After a change Recheck is called.
	Reserved func() bool
	// Arrived is told that a message waits, in its transaction.
	Arrived func(ctx context.Context, tx store.Store) error
	// Freed is told that deadletter has fewer messages, in the transaction in
	// which they went.
	Freed func(ctx context.Context, tx store.Store) error
}

// An Inbox is the messages to one agent. A view of a store must not have two
// at a time.
type Inbox struct {
	st   store.Updater
	opt  Options
	root *fsys.Table
	dead *fsys.Table
	turn chan struct{} // held by who waits at next and is served first

	mu      sync.Mutex
	ended   bool
	taken   map[uint64]bool // the messages that a handle on next holds, by place
	damaged map[uint64]bool // those that were found to be
	grown   chan struct{}   // made by who waits, closed when there may be more
}

// New returns the inbox that is kept in st, which may be empty. It reads
// nothing.
func New(st store.Updater, opt Options) *Inbox {
	if opt.Config == nil {
		opt.Config = func() Config { return Config{} }
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Arrived == nil {
		opt.Arrived = func(context.Context, store.Store) error { return nil }
	}
	if opt.Freed == nil {
		opt.Freed = func(context.Context, store.Store) error { return nil }
	}
	in := &Inbox{st: st, opt: opt, turn: make(chan struct{}, 1)}
	in.root = fsys.NewTableWith(&queueDir{in, waiting},
		fsys.Entry{Name: newName, Node: &fsys.Call{Do: in.put, Admit: in.admit}},
		fsys.Entry{Name: nextName, Node: &source{in, true}},
		fsys.Entry{Name: headName, Node: &source{in, false}},
		fsys.Entry{Name: takeName, Node: fsys.NewTableWith(&queueDir{in, taken})},
		fsys.Entry{Name: ctlName, Node: &fsys.Ctl{Do: in.takenCtl, Text: takenCtlText}},
	)
	in.dead = fsys.NewTableWith(&queueDir{in, dead},
		fsys.Entry{Name: ctlName, Node: &fsys.Ctl{Do: in.ctl, Text: ctlText}},
	)
	return in
}

// Root returns /inbox.
func (in *Inbox) Root() fsys.Node { return in.root }

// DeadLetter returns /deadletter.
func (in *Inbox) DeadLetter() fsys.Node { return in.dead }

// Depth returns how many messages wait, and how many are in deadletter.
func (in *Inbox) Depth(ctx context.Context) (waiting, dead int, err error) {
	n, err := loadCounts(ctx, in.st)
	return n.Waiting, n.Dead, err
}

func (in *Inbox) stamp() string { return fsys.Stamp(in.opt.Now()) }

func (in *Inbox) config() Config {
	c := in.opt.Config()
	if c.Limit <= 0 {
		c.Limit = 1024
	}
	if c.DeadLimit <= 0 {
		c.DeadLimit = 1024
	}
	return c
}

// admit refuses at open what is sure to be refused.
func (in *Inbox) admit(ctx context.Context) error {
	n, err := loadCounts(ctx, in.st)
	if err != nil {
		return err
	}
	return in.config().refuses(n)
}

// refuses reports why not one more message is taken in.
func (c Config) refuses(n counts) error {
	switch {
	case n.Waiting < c.Limit, c.Overflow == DropOldest:
		return nil
	case c.Overflow == Refuse:
		return full
	case n.Dead >= c.DeadLimit && !c.DropDead:
		return fsys.E(fsys.Busy, "the inbox and its deadletter are full")
	}
	return nil
}

var full = fsys.E(fsys.Busy, "the inbox is full")

// put is a request to new.
func (in *Inbox) put(ctx context.Context, req []byte) ([]byte, error) {
	m, err := parse(req)
	if err != nil {
		return nil, err
	}
	m.From = fsys.CallerOf(ctx)
	var id string
	err = in.st.Update(ctx, func(tx store.Store) error {
		id, err = in.Deliver(ctx, tx, m)
		return err
	})
	if err != nil {
		return nil, err
	}
	return []byte(id + "\n"), nil
}

// Deliver puts m in, in a transaction of the same database, and returns its
// id. The caller vouches for From. Without an ID it is given one; with one, it
// is put in once.
func (in *Inbox) Deliver(ctx context.Context, tx store.Store, m Message) (id string, err error) {
	err = in.within(ctx, store.In(tx, in.st), func(c *change) error {
		id, err = c.receive(m)
		return err
	})
	return id, err
}

// acknowledge takes a message that waits at a place; it is no error if it is
// gone.
func (in *Inbox) acknowledge(ctx context.Context, id string, at uint64) error {
	err := in.update(ctx, func(c *change) error {
		return c.acknowledge(id, at)
	})
	if errors.Is(err, fsys.NotExist) {
		return nil
	}
	return err
}
