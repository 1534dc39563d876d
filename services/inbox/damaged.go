package inbox

import (
	"context"
	"errors"
	"log/slog"

	"agent9/fsys"
	"agent9/store"
)

// A message whose record is damaged stays where it is until somebody removes it:
// who takes messages gets the others.

// line returns the text of the message id at a place. If that, or the letter, is
// damaged, the event inbox.damaged says so once, and the error is
// store.ErrDamaged.
func (in *Inbox) line(ctx context.Context, id string, at uint64) ([]byte, error) {
	line, err := in.st.Get(ctx, lineKey(id))
	if err == nil {
		_, err = in.st.Get(ctx, letterKey(id))
	}
	if errors.Is(err, store.ErrDamaged) && in.markDamaged(at) {
		nerr := in.st.Update(ctx, func(tx store.Store) error {
			return in.opt.Note(tx, "inbox.damaged", told{ID: id, Reason: fsys.ReasonOf(err)})
		})
		if nerr != nil {
			slog.Error("a message is damaged, and no event says so", "id", id, "err", nerr)
		}
	}
	return line, err
}

// markDamaged notes that the message at a place cannot be given out, and reports
// whether that is news.
func (in *Inbox) markDamaged(at uint64) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.damaged[at] {
		return false
	}
	if in.damaged == nil {
		in.damaged = make(map[uint64]bool)
	}
	in.damaged[at] = true
	return true
}

func (in *Inbox) isDamaged(at uint64) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.damaged[at]
}

// find returns where in q the message id is, whose letter is damaged.
func (in *Inbox) find(ctx context.Context, q queue, id string) (at uint64, err error) {
	for p, err := range store.All(ctx, in.st, string(q)) {
		if err != nil {
			return 0, err
		}
		if string(p.Value) == id {
			return place(p.Key), nil
		}
	}
	return 0, fsys.NotExist
}

// removeDamaged removes, without reading them in a transaction, the records of a
// message at a place of q, and reports whether any of them is damaged; if none
// is, it does nothing. Of one whose letter is damaged fsck may have to count
// anew what was taken.
func (in *Inbox) removeDamaged(ctx context.Context, q queue, id string, at uint64) (bool, error) {
	l, lerr := store.GetJSON[letter](ctx, in.st, letterKey(id))
	_, err := in.st.Get(ctx, lineKey(id))
	if !errors.Is(lerr, store.ErrDamaged) && !errors.Is(err, store.ErrDamaged) {
		return false, nil
	}
	if lerr != nil {
		l = letter{Queue: q, Place: at}
	}
	return true, in.update(ctx, func(c *change) error {
		if b, err := c.tx.Get(c.ctx, q.key(at)); err != nil {
			return err
		} else if string(b) != id || l.Queue != q || l.Place != at {
			return fsys.NotExist
		}
		return c.erase(q, id, l, "inbox.discarded")
	})
}
