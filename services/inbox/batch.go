package inbox

import (
	"context"
	"errors"
	"slices"
	"sync"

	"agent9/fsys"
	"agent9/store"
)

// A Batch is messages that are sent together, in one transaction, or not at
// all. Its tree is that of an outbox: what is written to new is checked as it
// is there, answered with its id, and held back.
type Batch struct {
	o    *Outbox
	root *fsys.Table

	mu    sync.Mutex
	mail  []mail
	bytes int
	clock uint64
	over  bool
}

type mail struct {
	to      string
	deliver Deliver
	message Message
	named   bool
}

// What a batch holds at most.
const (
	maxBatch      = 1024
	maxBatchBytes = 16 << 20
)

// Batch returns an empty batch.
func (o *Outbox) Batch() *Batch {
	b := &Batch{o: o}
	b.root = fsys.NewTable(
		fsys.Entry{Name: newName, Node: &fsys.Call{Do: b.add}},
		fsys.Entry{Name: "sent", Node: o.sent.Tape()},
	)
	return b
}

// Root returns /outbox for who writes to the batch.
func (b *Batch) Root() fsys.Node { return b.root }

func (b *Batch) add(ctx context.Context, req []byte) ([]byte, error) {
	to, m, err := parseOrder(req)
	if err != nil {
		return nil, err
	}
	m.From = b.o.name
	deliver, err := b.o.find(ctx, to)
	if err != nil {
		return nil, err
	}
	clock, err := store.GetJSON[uint64](ctx, b.o.st, clockKey)
	if err != nil && !errors.Is(err, fsys.NotExist) {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	named := m.ID != ""
	switch {
	case b.over:
		return nil, fsys.E(fsys.Unavailable, "the tick that this was part of is over")
	case named:
		if i := slices.IndexFunc(b.mail, func(o mail) bool { return o.message.ID == m.ID }); i >= 0 {
			if b.mail[i].to != to {
				return nil, otherAgent
			}
			return []byte(m.ID + "\n"), nil
		}
	default:
		b.clock = max(b.clock, clock)
		m.ID = newID(&b.clock, b.o.now())
	}
	if len(b.mail) == maxBatch || b.bytes+len(m.Body) > maxBatchBytes {
		return nil, fsys.E(fsys.TooLarge, "these are more messages than one tick may send")
	}
	b.bytes += len(m.Body)
	b.mail = append(b.mail, mail{to, deliver, m, named})
	return []byte(m.ID + "\n"), nil
}

// Commit sends the messages in the transaction that tx belongs to, in the
// order in which they were written. If one of them is refused, none is sent.
func (b *Batch) Commit(ctx context.Context, tx store.Store) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	in := store.In(tx, b.o.st)
	for _, m := range b.mail {
		if m.named {
			known, err := b.o.known(ctx, in, m.message.ID, m.to)
			if err != nil {
				return err
			}
			if known {
				continue
			}
		}
		if err := b.o.sendNow(ctx, in, m.deliver, m.to, m.message); err != nil {
			return fsys.Wrap(fsys.Internal, "sending to "+m.to, err)
		}
	}
	if b.clock == 0 {
		return nil
	}
	clock, err := store.GetJSON[uint64](ctx, in, clockKey)
	if err != nil && !errors.Is(err, fsys.NotExist) {
		return err
	}
	return store.PutJSON(ctx, in, clockKey, max(clock, b.clock))
}

// Close ends the batch: what is written to it now is refused.
func (b *Batch) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over, b.mail = true, nil
}
