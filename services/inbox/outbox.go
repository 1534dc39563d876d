package inbox

import (
	"context"
	"errors"
	"time"

	"agent9/fsys"
	"agent9/services/transports"
	"agent9/store"
)

// Find returns what takes a message to the address to: see [transports.Transport].
type Find func(ctx context.Context, to string) (Deliver, error)

// Deliver puts a message into one agent's inbox; see [Inbox.Deliver].
type Deliver = transports.Deliver

// An Outbox sends what one agent writes. Either a message is in the inbox that
// it is for and in sent, or its writer was refused.
type Outbox struct {
	st   store.Updater
	name fsys.Caller
	find Find
	note store.Note
	now  func() time.Time
	sent *store.Log
	root *fsys.Table
}

// NewOutbox returns the outbox of the agent name that is kept in st, which may
// be empty. Whoever writes it, its messages are from that agent.
// now is the clock, and nil means time.Now.
func NewOutbox(ctx context.Context, st store.Updater, name string, find Find, note store.Note, now func() time.Time) (*Outbox, error) {
	sent, err := store.OpenLog(ctx, store.Sub(st, "sent/"))
	if err != nil {
		return nil, err
	}
	if now == nil {
		now = time.Now
	}
	o := &Outbox{st: st, name: fsys.Caller(name), find: find, note: note, now: now, sent: sent}
	o.root = fsys.NewTable(
		fsys.Entry{Name: newName, Node: &fsys.Call{Do: o.send}},
		fsys.Entry{Name: "sent", Node: sent.Tape()},
	)
	return o, nil
}

// End says that the outbox is no more: sent has ended.
func (o *Outbox) End() { o.sent.Tape().End() }

// Root returns /outbox.
func (o *Outbox) Root() fsys.Node { return o.root }

// The keys of an outbox, beside those of sent.
const (
	clockKey = "clock"      // of the latest id
	sentIDs  = memory("k/") // those that the writer chose, and to whom
)

// An order is what a request to outbox/new may say.
type order struct {
	To string `json:"to"`
	envelope
}

func parseOrder(req []byte) (to string, m Message, err error) {
	if req[0] != '{' {
		return "", m, fsys.E(fsys.Invalid, `say to whom: {"to": AGENT, "body": ...}`)
	}
	var o order
	if err = decode(req, &o); err != nil {
		return "", m, err
	}
	if o.To == "" {
		return "", m, fsys.E(fsys.Invalid, "the message has no to")
	}
	m, err = o.message()
	return o.To, m, err
}

func (o *Outbox) send(ctx context.Context, req []byte) ([]byte, error) {
	to, m, err := parseOrder(req)
	if err != nil {
		return nil, err
	}
	m.From = o.name
	deliver, err := o.find(ctx, to)
	if err != nil {
		return nil, err
	}
	err = o.st.Update(ctx, func(tx store.Store) error {
		if m.ID == "" {
			m.ID, err = o.newID(ctx, tx)
		} else if known, kerr := o.known(ctx, tx, m.ID, to); known || kerr != nil {
			return kerr
		}
		if err != nil {
			return err
		}
		return o.sendNow(ctx, tx, deliver, to, m)
	})
	if err != nil {
		return nil, err
	}
	return []byte(m.ID + "\n"), nil
}

func (o *Outbox) newID(ctx context.Context, tx store.Store) (string, error) {
	clock, err := store.GetJSON[uint64](ctx, store.Forgiving(tx), clockKey)
	if err != nil && !errors.Is(err, fsys.NotExist) && !store.IsDamaged(err) {
		return "", err
	}
	id := newID(&clock, o.now())
	return id, store.PutJSON(ctx, tx, clockKey, clock)
}

var otherAgent = fsys.E(fsys.Exist, "this id was used for a message to another agent")

// known reports whether id was sent to the same agent before, and otherwise
// remembers it.
func (o *Outbox) known(ctx context.Context, tx store.Store, id, to string) (bool, error) {
	was, err := sentIDs.owner(ctx, tx, id)
	switch {
	case errors.Is(err, fsys.NotExist):
		return false, sentIDs.add(ctx, tx, id, to)
	case err == nil && was != to:
		err = otherAgent
	}
	return err == nil, err
}

// sentLine is a line of sent.
type sentLine struct {
	To string `json:"to"`
	Message
	By fsys.Caller `json:"by,omitempty"` // who wrote it, if not the agent
}

func (o *Outbox) sendNow(ctx context.Context, tx store.Store, deliver Deliver, to string, m Message) error {
	m.Time = fsys.Stamp(o.now())
	if _, err := deliver(ctx, tx, m); err != nil {
		return err
	}
	by := fsys.CallerOf(ctx)
	if by == o.name {
		by = ""
	}
	if err := o.sent.Append(tx, fsys.Line(sentLine{to, m, by})); err != nil {
		return err
	}
	return o.note.Record(tx, "outbox.sent", struct {
		ID   string      `json:"id"`
		To   string      `json:"to"`
		Type string      `json:"type,omitempty"`
		By   fsys.Caller `json:"by,omitempty"`
	}{m.ID, to, m.Type, by})
}
