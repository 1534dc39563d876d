package inbox

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"agent9/fsys"
	"agent9/store"
)

// A Claim is a message that was taken from an inbox to be worked on. Nobody
// else is given it until it is released.
type Claim struct {
	Message
	in    *Inbox
	place uint64
	once  sync.Once
}

// Claim takes the oldest message that nobody has taken and whose sender skip,
// which may be nil, does not name. It does not wait: nil is none.
func (in *Inbox) Claim(ctx context.Context, skip func(from fsys.Caller) bool) (*Claim, error) {
	for d, err := range waiting.all(ctx, in.st) {
		if err != nil {
			return nil, err
		}
		c := &Claim{in: in, place: d.place}
		if !in.claim(c.place, true) {
			continue
		}
		line, err := in.line(ctx, d.id, c.place)
		if err == nil {
			err = fsys.Wrap(fsys.Internal, "the stored message "+d.id+" cannot be read", json.Unmarshal(line, &c.Message))
		}
		switch {
		case err == nil && (skip == nil || !skip(c.From)):
			return c, nil
		// Else it went since the list was read, or is passed over.
		case err != nil && !errors.Is(err, fsys.NotExist) && !store.IsDamaged(err):
			c.Release()
			return nil, err
		}
		c.Release()
	}
	return nil, nil
}

// Done acknowledges the message in the transaction that tx belongs to. It is
// no error if it is gone.
func (c *Claim) Done(ctx context.Context, tx store.Store) error {
	return c.end(ctx, tx, func(ch *change) error {
		return ch.remove(waiting, c.ID, c.place, "inbox.acknowledged")
	})
}

// Bury moves the message to deadletter in the transaction that tx belongs to,
// with the reason. Busy if there is no room: then nothing is changed. It is no
// error if it is gone.
func (c *Claim) Bury(ctx context.Context, tx store.Store, reason string) error {
	return c.end(ctx, tx, func(ch *change) error { return ch.bury(c.ID, c.place, reason) })
}

func (c *Claim) end(ctx context.Context, tx store.Store, f func(*change) error) error {
	err := c.in.within(ctx, store.In(tx, c.in.st), f)
	if errors.Is(err, fsys.NotExist) {
		return nil
	}
	return err
}

// Release lets others have the message if it is still there.
func (c *Claim) Release() {
	c.once.Do(func() { c.in.release(c.place) })
}

// bury moves a message that waits to deadletter.
func (c *change) bury(id string, at uint64, reason string) error {
	l, err := c.letter(id)
	switch {
	case err != nil:
		return err
	case l.Queue != waiting || l.Place != at:
		return fsys.NotExist
	}
	// Before anything is changed: who calls may store the rest of its transaction.
	if err := c.roomForDead(); err != nil {
		return err
	}
	if err := c.tx.Delete(c.ctx, waiting.key(at)); err != nil {
		return err
	}
	c.count(l, -1)
	l.Queue, l.Reason, l.Since = dead, reason, c.in.stamp()
	return c.place(id, l, "inbox.deadlettered")
}

// Waiting reports, as it is in the transaction that tx belongs to, or in none
// if that is nil, whether messages wait whose senders skip, which may be nil, does not name: one that
// is free, and one that somebody has taken.
func (in *Inbox) Waiting(ctx context.Context, tx store.Store, skip func(from fsys.Caller) bool) (free, taken bool, err error) {
	var s store.Store = in.st
	if tx != nil {
		s = store.In(tx, in.st)
	}
	for d, err := range waiting.all(ctx, s) {
		if err != nil {
			return false, false, err
		}
		if in.isDamaged(d.place) {
			continue
		}
		if skip != nil {
			l, err := store.GetJSON[letter](ctx, store.Forgiving(s), letterKey(d.id))
			if errors.Is(err, fsys.NotExist) || store.IsDamaged(err) {
				continue // it went since the list was read, or is passed over
			}
			if err != nil {
				return false, false, err
			}
			if skip(l.From) {
				continue
			}
		}
		if !in.isTaken(d.place) {
			return true, taken, nil
		}
		taken = true
	}
	return false, taken, nil
}

// Has reports whether the message id waits.
func (in *Inbox) Has(ctx context.Context, tx store.Store, id string) (bool, error) {
	l, err := store.GetJSON[letter](ctx, store.Forgiving(store.In(tx, in.st)), letterKey(id))
	if errors.Is(err, fsys.NotExist) || store.IsDamaged(err) {
		return false, nil
	}
	return err == nil && l.Queue == waiting, err
}

// Recheck makes those who wait at next find out whether they still may.
func (in *Inbox) Recheck() { in.wake() }

// mayTake refuses to give out messages that are somebody else's to take.
func (in *Inbox) mayTake() error {
	if in.opt.Reserved != nil && in.opt.Reserved() {
		return fsys.E(fsys.Busy, "the agent's program takes its messages; read head or the files of the messages, or turn triggers.messages off in config")
	}
	return nil
}
