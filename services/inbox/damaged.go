package inbox

import (
	"context"
	"encoding/json"
	"iter"
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
	l, err := store.GetJSON[letter](ctx, in.st, letterKey(id))
	if err == nil && (l.Queue != waiting || l.Place != at) {
		return nil, fsys.NotExist // it went since the list was read, and can be had back elsewhere
	}
	var line []byte
	if err == nil {
		line, err = in.st.Get(ctx, lineKey(id))
	}
	if store.IsDamaged(err) && in.markDamaged(at) {
		nerr := in.st.Update(ctx, func(tx store.Store) error {
			return in.opt.Note.Record(tx, "inbox.damaged", told{ID: id, Reason: fsys.ReasonOf(err)})
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

// all yields the messages of q, with their ids and places. What the queue itself
// says follows from the letters: if that is damaged, they are asked.
func (q queue) all(ctx context.Context, s store.Store) iter.Seq2[given, error] {
	return func(yield func(given, error) bool) {
		for p, err := range store.All(ctx, store.Forgiving(s), string(q)) {
			d := given{id: string(p.Value), place: place(p.Key)}
			if err == nil && p.Value == nil {
				if d.id, err = q.at(ctx, s, d.place); d.id == "" && err == nil {
					continue // agentd fsck names it
				}
			}
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}

// at returns which message is at a place of q, as its letter says; empty if none
// says so.
func (q queue) at(ctx context.Context, s store.Store, at uint64) (id string, err error) {
	for p, err := range store.All(ctx, store.Forgiving(s), "i/") {
		if err != nil {
			return "", err
		}
		if l := (letter{}); json.Unmarshal(p.Value, &l) == nil && l.Queue == q && l.Place == at {
			return p.Key[len("i/"):], nil
		}
	}
	return "", nil
}

// find returns where in q the message id is, whose letter is damaged.
func (in *Inbox) find(ctx context.Context, q queue, id string) (at uint64, err error) {
	for d, err := range q.all(ctx, in.st) {
		if err != nil {
			return 0, err
		}
		if d.id == id {
			return d.place, nil
		}
	}
	return 0, fsys.NotExist
}

// removeDamaged removes a message at a place of q if its letter or its text is
// damaged, and reports whether it did. Of one whose letter is damaged fsck may
// have to count anew what was taken.
func (c *change) removeDamaged(q queue, id string, at uint64) (bool, error) {
	l, err := c.letter(id)
	if store.IsDamaged(err) {
		l = letter{Queue: q, Place: at}
		b, err := store.Forgiving(c.tx).Get(c.ctx, q.key(at))
		if err == nil && string(b) != id {
			err = fsys.NotExist
		}
		if err != nil && !store.IsDamaged(err) {
			return false, err
		}
	} else if err == nil {
		_, err = store.Forgiving(c.tx).Get(c.ctx, lineKey(id))
		if !store.IsDamaged(err) {
			return false, err
		}
	} else {
		return false, err
	}
	if l.Queue != q || l.Place != at {
		return false, fsys.NotExist
	}
	return true, c.erase(q, id, l, "inbox.discarded")
}
