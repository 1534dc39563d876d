package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"agent9/fsys"
	"agent9/store"
)

// What next gave out, or rm took away, is kept in the queue taken for keptFor,
// or until more than maxTaken messages or maxTakenBytes were taken after it.
// What is too old is not shown any more, and goes with the next change of the
// inbox.
const (
	keptFor       = 10 * time.Minute
	maxTaken      = 1024
	maxTakenBytes = 4 << 20
)

// acknowledge moves a message that waits at a place to what was taken.
func (c *change) acknowledge(id string, at uint64) error {
	l, err := c.letter(id)
	if err != nil {
		return err
	}
	if l.Queue != waiting || l.Place != at {
		return fsys.NotExist
	}
	line, err := c.tx.Get(c.ctx, lineKey(id))
	if err != nil {
		return err
	}
	if err := c.tx.Delete(c.ctx, waiting.key(at)); err != nil {
		return err
	}
	c.count(l, -1)
	l.Queue, l.Was, l.Since, l.Bytes = taken, at, c.in.stamp(), int64(len(line))
	return c.place(id, l, "inbox.acknowledged")
}

// sweep takes away for good what was taken long ago, or is too much.
func (c *change) sweep() error {
	if c.Taken == 0 {
		return nil
	}
	for left := mostDropped; left > 0; left-- {
		oldest, err := c.oldestTaken()
		if err != nil || oldest.id == "" {
			return err
		}
		l, err := c.letter(oldest.id)
		if err != nil && !store.IsDamaged(err) || err == nil && c.Taken <= maxTaken && c.TakenBytes <= maxTakenBytes && c.in.canBeHad(l) {
			return err
		}
		if err := c.drop(taken, oldest, ""); err != nil {
			return err
		}
	}
	return nil
}

func (c *change) oldestTaken() (d given, err error) {
	page, err := store.Forgiving(c.tx).List(c.ctx, string(taken), "", 1)
	if err != nil || len(page) == 0 {
		return d, err
	}
	d = given{id: string(page[0].Value), place: place(page[0].Key)}
	if page[0].Value != nil {
		return d, nil
	}
	if d.id, err = taken.at(c.ctx, c.tx, d.place); err != nil || d.id != "" {
		return d, err
	}
	if err := c.tx.Delete(c.ctx, page[0].Key); err != nil {
		return d, err
	}
	return c.oldestTaken()
}

// canBeHad reports whether what was taken can be had back.
func (in *Inbox) canBeHad(l letter) bool {
	since, err := time.Parse(fsys.TimeFormat, l.Since)
	return err == nil && in.opt.Now().Sub(since) < keptFor
}

// untake puts a message that was taken back to where it was.
func (c *change) untake(id string) error {
	l, err := c.letter(id)
	switch {
	case err != nil:
		return err
	case l.Queue != taken || !c.in.canBeHad(l):
		return fsys.NotExist
	case c.Waiting >= c.in.config().Limit:
		return full
	}
	if err := c.tx.Delete(c.ctx, taken.key(l.Place)); err != nil {
		return err
	}
	c.count(l, -1)
	l.Queue, l.Place, l.Was, l.Since, l.Bytes = waiting, l.Was, 0, "", 0
	return c.put(id, l, "inbox.untaken")
}

// untakeAll puts back what there is room for, and returns how many those are.
func (c *change) untakeAll() (done int, err error) {
	var ids []string
	for d, err := range taken.all(c.ctx, c.tx) {
		if err != nil {
			return 0, err
		}
		ids = append(ids, d.id)
	}
	for _, id := range ids {
		err := c.untake(id)
		if errors.Is(err, fsys.NotExist) || store.IsDamaged(err) {
			continue // too old, or for rm
		}
		if err != nil {
			return done, err
		}
		done++
	}
	return done, nil
}

func takenCtlText(context.Context) ([]byte, error) {
	return []byte("untake ID|all\tput back what was taken in the last 10 minutes; see taken/\n"), nil
}

// takenCtl is inbox/ctl.
func (in *Inbox) takenCtl(ctx context.Context, words []string) ([]byte, error) {
	if len(words) != 2 || words[0] != "untake" {
		return nil, fsys.E(fsys.Invalid, "the command is: untake ID|all")
	}
	done := 0
	var short error // what there was room for stays put back
	err := in.update(ctx, func(c *change) (err error) {
		if words[1] != allWord {
			done = 1
			return c.untake(words[1])
		}
		if done, err = c.untakeAll(); errors.Is(err, fsys.Busy) {
			short, err = fsys.E(fsys.Busy, fmt.Sprintf("the inbox is full: %d put back, %d left", done, c.Taken)), nil
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case short != nil:
		return nil, short
	}
	return fmt.Appendf(nil, "%d\n", done), nil
}
