package inbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"agent9/fsys"
	"agent9/store"
)

// The keys, in the view that the inbox is given:
//
//	counts          counts
//	i/<id>          letter: where a message is
//	m/<id>          the message, as its line
//	q/<place>       the id of the one that waits there
//	d/<place>       the id of the one in deadletter
//	t/<place>       the id of one that was taken, and can be had back
//	k/...           ids of messages that are gone; see memory
const (
	countsKey = "counts"
	goneIDs   = memory("k/")
)

// A queue is one of those that messages are in, by the prefix of its keys.
type queue string

const (
	waiting queue = "q/"
	dead    queue = "d/"
	taken   queue = "t/"
)

func (q queue) key(place uint64) string { return string(q) + digits(place, 13) }

func letterKey(id string) string { return "i/" + id }
func lineKey(id string) string   { return "m/" + id }

// counts is what there is.
type counts struct {
	Place   uint64 `json:"place"` // the latest place in a queue
	Clock   uint64 `json:"clock"` // of the latest id
	Waiting int    `json:"waiting"`
	Dead    int    `json:"dead"`
	// What was taken, and can be had back.
	Taken      int   `json:"taken,omitempty"`
	TakenBytes int64 `json:"taken_bytes,omitempty"`
}

func loadCounts(ctx context.Context, s store.Store) (counts, error) {
	n, err := store.GetJSON[counts](ctx, store.Forgiving(s), countsKey)
	switch {
	case errors.Is(err, fsys.NotExist):
		return counts{}, nil
	case store.IsDamaged(err):
		return recount(ctx, s)
	}
	return n, err
}

// recount counts the messages in s whose letters are whole.
func recount(ctx context.Context, s store.Store) (n counts, err error) {
	for p, err := range store.All(ctx, store.Forgiving(s), "i/") {
		if err != nil {
			return n, err
		}
		if l := (letter{}); json.Unmarshal(p.Value, &l) == nil {
			n.count(l, 1)
			n.Place = max(n.Place, l.Place)
		}
	}
	return n, nil
}

// A letter says where a message is.
type letter struct {
	Queue queue       `json:"queue"`
	Place uint64      `json:"place"`
	From  fsys.Caller `json:"from"`
	Type  string      `json:"type,omitempty"`
	// Named says that the sender chose the id, so it is remembered.
	Named  bool   `json:"named,omitempty"`
	Reason string `json:"reason,omitempty"` // why it is in deadletter
	Since  string `json:"since,omitempty"`  // and since when; or when it was taken
	Was    uint64 `json:"was,omitempty"`    // its place before it was taken
	Bytes  int64  `json:"bytes,omitempty"`  // of a line that was taken
}

// A change is one transaction on an inbox.
type change struct {
	counts
	ctx context.Context
	in  *Inbox
	tx  store.Store
}

func (in *Inbox) update(ctx context.Context, f func(c *change) error) error {
	return in.st.Update(ctx, func(tx store.Store) error { return in.within(ctx, tx, f) })
}

func (in *Inbox) within(ctx context.Context, tx store.Store, f func(c *change) error) error {
	n, err := loadCounts(ctx, tx)
	if err != nil {
		return err
	}
	c := &change{n, ctx, in, tx}
	if err := f(c); err != nil {
		return err
	}
	if err := c.sweep(); err != nil || c.counts == n {
		return err
	}
	if err := store.PutJSON(ctx, tx, countsKey, c.counts); err != nil || c.Dead >= n.Dead {
		return err
	}
	return in.opt.Freed(ctx, tx)
}

// letter returns the letter of a message. That it is damaged does not undo the
// transaction.
func (c *change) letter(id string) (letter, error) {
	return store.GetJSON[letter](c.ctx, store.Forgiving(c.tx), letterKey(id))
}

// told is the detail of every event about a message.
type told struct {
	ID      string      `json:"id"`
	From    fsys.Caller `json:"from,omitempty"`
	Type    string      `json:"type,omitempty"`
	Reason  string      `json:"reason,omitempty"`
	By      fsys.Caller `json:"by,omitempty"`
	Waiting int         `json:"waiting"`
}

func (c *change) note(event, id string, l letter) error {
	if event == "" {
		return nil
	}
	return c.in.opt.Note.Record(c.tx, event, told{id, l.From, l.Type, l.Reason, fsys.CallerOf(c.ctx), c.Waiting})
}

// receive puts m in a queue and returns its id.
func (c *change) receive(m Message) (string, error) {
	l := letter{Queue: waiting, From: m.From, Type: m.Type, Named: m.ID != ""}
	if l.Named {
		if known, err := c.known(m); known || err != nil {
			return m.ID, err
		}
	} else {
		m.ID = newID(&c.Clock, c.in.opt.Now())
	}
	conf := c.in.config()
	if err := conf.refuses(c.counts); err != nil {
		return "", err
	}
	if c.Waiting >= conf.Limit {
		if conf.Overflow != DropOldest {
			l.Queue, l.Since, l.Reason = dead, c.in.stamp(), fsys.ReasonOf(full)
		} else if err := c.dropTo(waiting, conf.Limit-1); err != nil {
			return "", err
		}
	}
	if m.Time == "" {
		m.Time = c.in.stamp()
	}
	if err := c.tx.Put(c.ctx, lineKey(m.ID), fsys.Line(m)); err != nil {
		return "", err
	}
	event := "inbox.received"
	if l.Queue == dead {
		event = "inbox.deadlettered"
	}
	return m.ID, c.place(m.ID, l, event)
}

// known reports whether m is a message that was put in already.
func (c *change) known(m Message) (bool, error) {
	if err := checkID(m.ID); err != nil {
		return false, err
	}
	l, err := c.letter(m.ID)
	if err == nil {
		err = store.Lend(c.ctx, c.tx, lineKey(m.ID), func([]byte) error { return nil })
	}
	if store.IsDamaged(err) {
		return false, fsys.E(fsys.Internal, "there is a message "+m.ID+" already, and it is damaged: remove it, or choose another id")
	}
	from := l.From
	if errors.Is(err, fsys.NotExist) {
		var owner string
		owner, err = goneIDs.owner(c.ctx, c.tx, m.ID)
		from = fsys.Caller(owner)
	}
	switch {
	case errors.Is(err, fsys.NotExist):
		return false, nil
	case err != nil:
		return false, err
	case from != m.From:
		return false, fsys.E(fsys.Exist, "another sender has used this id")
	}
	return true, nil
}

// place puts a message at the end of the queue that l says.
func (c *change) place(id string, l letter, event string) error {
	if l.Queue == dead {
		if err := c.roomForDead(); err != nil {
			return err
		}
	}
	c.Place++
	l.Place = c.Place
	return c.put(id, l, event)
}

// put puts a message where l says.
func (c *change) put(id string, l letter, event string) error {
	c.count(l, 1)
	if err := c.tx.Put(c.ctx, l.Queue.key(l.Place), []byte(id)); err != nil {
		return err
	}
	if err := store.PutJSON(c.ctx, c.tx, letterKey(id), l); err != nil {
		return err
	}
	if l.Queue == waiting {
		store.After(c.tx, c.in.wake)
		if err := c.in.opt.Arrived(c.ctx, c.tx); err != nil {
			return err
		}
	}
	return c.note(event, id, l)
}

// of returns the number of messages in q, which is not taken.
func (n *counts) of(q queue) *int {
	if q == waiting {
		return &n.Waiting
	}
	return &n.Dead
}

// count counts n messages that l is about.
func (c *counts) count(l letter, n int) {
	if l.Queue == taken {
		c.Taken += n
		c.TakenBytes += int64(n) * l.Bytes
		return
	}
	*c.of(l.Queue) += n
}

// roomForDead makes room for one more in deadletter, or refuses it.
func (c *change) roomForDead() error {
	conf := c.in.config()
	switch {
	case c.Dead < conf.DeadLimit:
		return nil
	case conf.DropDead:
		return c.dropTo(dead, conf.DeadLimit-1)
	}
	return fsys.E(fsys.Busy, "deadletter is full")
}

// mostDropped is how many messages a transaction drops at most: everybody's
// writes wait for it.
const mostDropped = 512

// dropTo drops the oldest messages of q that nobody has taken until it has only
// n, or as many as go in a transaction: the limit may have been much higher before.
// One that is taken before this is committed is still read by who took it.
func (c *change) dropTo(q queue, n int) error {
	event := "inbox.dropped"
	if q == dead {
		event = "deadletter.dropped"
	}
	most := *c.of(q) - mostDropped
	for d, err := range q.all(c.ctx, c.tx) {
		if err != nil {
			return err
		}
		if *c.of(q) <= max(n, most) {
			return nil
		}
		if c.in.isTaken(d.place) {
			continue
		}
		if err := c.drop(q, d, event); err != nil {
			return err
		}
	}
	if q == waiting && c.Waiting > n {
		return fsys.E(fsys.Busy, fmt.Sprintf("the inbox is full, and all of its %d messages are being read", c.Waiting))
	}
	return nil
}

// remove takes a message away for good, which is event if that is not empty. It
// returns fsys.NotExist if there is none at this place of q.
func (c *change) remove(q queue, id string, place uint64, event string) error {
	l, err := c.letter(id)
	if err != nil {
		return err
	}
	if l.Queue != q || l.Place != place {
		return fsys.NotExist
	}
	return c.erase(q, id, l, event)
}

// drop is remove of a message of q whose letter may be damaged.
func (c *change) drop(q queue, d given, event string) error {
	err := c.remove(q, d.id, d.place, event)
	if store.IsDamaged(err) {
		err = c.erase(q, d.id, letter{Queue: q, Place: d.place}, event)
	}
	return err
}

// erase is remove of a message that is where l says, which it does not read.
func (c *change) erase(q queue, id string, l letter, event string) error {
	c.count(l, -1)
	for _, key := range []string{q.key(l.Place), letterKey(id), lineKey(id)} {
		if err := c.tx.Delete(c.ctx, key); err != nil {
			return err
		}
	}
	if l.Named {
		if err := goneIDs.add(c.ctx, c.tx, id, string(l.From)); err != nil {
			return err
		}
	}
	return c.note(event, id, l)
}
