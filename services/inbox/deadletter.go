package inbox

import (
	"context"
	"fmt"

	"agent9/fsys"
	"agent9/store"
)

// verbs are the commands of deadletter/ctl.
var verbs = map[string]func(c *change, id string, l letter) error{
	"replay":  (*change).replay,
	"discard": (*change).discard,
}

func ctlText(context.Context) ([]byte, error) {
	return []byte("replay ID|all\tput it, or all, into the inbox, as far as there is room\ndiscard ID|all\tremove it\n"), nil
}

// ctl performs one command; its reply is how many messages it was about.
func (in *Inbox) ctl(ctx context.Context, words []string) ([]byte, error) {
	verb := verbs[words[0]]
	if verb == nil || len(words) != 2 {
		return nil, fsys.E(fsys.Invalid, "the commands are: replay ID|all, discard ID|all")
	}
	done := 0
	var short error // all did what it could, and that is kept
	err := in.update(ctx, func(c *change) error {
		if id := words[1]; id != allWord {
			done++
			return c.with(id, verb)
		}
		for d, err := range dead.all(ctx, c.tx) {
			if err == nil {
				err = c.with(d.id, verb)
			}
			if store.IsDamaged(err) { // rm removes it
				continue
			}
			if fsys.CodeOf(err) == fsys.Busy && err != nil {
				short = fsys.E(fsys.Busy, fmt.Sprintf("the inbox is full: %d replayed, %d left", done, c.Dead))
				return nil
			}
			if err != nil {
				return err
			}
			done++
		}
		return nil
	})
	if err == nil {
		err = short
	}
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%d\n", done), nil
}

func (c *change) with(id string, verb func(*change, string, letter) error) error {
	l, err := c.letter(id)
	if err != nil {
		return err
	}
	if l.Queue != dead {
		return fsys.NotExist
	}
	return verb(c, id, l)
}

// replay puts a message at the end of the inbox.
func (c *change) replay(id string, l letter) error {
	if c.Waiting >= c.in.config().Limit {
		return full
	}
	if err := c.tx.Delete(c.ctx, dead.key(l.Place)); err != nil {
		return err
	}
	c.Dead--
	l.Queue, l.Reason, l.Since = waiting, "", ""
	return c.place(id, l, "inbox.replayed")
}

func (c *change) discard(id string, l letter) error {
	return c.remove(dead, id, l.Place, "inbox.discarded")
}
