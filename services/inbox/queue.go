package inbox

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"agent9/fsys"
	"agent9/store"
)

// queueDir is the messages of one queue as entries of a directory.
type queueDir struct {
	in    *Inbox
	queue queue
}

func (p *queueDir) Stat(context.Context) (fsys.Info, error) { return fsys.Info{Perm: 0o755}, nil }

func (p *queueDir) Walk(ctx context.Context, name string) (fsys.Node, error) {
	l, err := store.GetJSON[letter](ctx, p.in.st, letterKey(name))
	if store.IsDamaged(err) { // it can be removed
		at, err := p.in.find(ctx, p.queue, name)
		return &messageFile{p.in, p.queue, name, at}, err
	}
	if err != nil {
		return nil, err
	}
	if l.Queue != p.queue || l.Queue == taken && !p.in.canBeHad(l) {
		return nil, fsys.NotExist
	}
	return &messageFile{p.in, p.queue, name, l.Place}, nil
}

// List returns the messages in their order.
func (p *queueDir) List(ctx context.Context) ([]fsys.Entry, error) {
	var list []fsys.Entry
	for d, err := range p.queue.all(ctx, p.in.st) {
		if err != nil {
			return nil, err
		}
		if p.queue == taken {
			if _, err := p.Walk(ctx, d.id); err != nil {
				continue // too old
			}
		}
		list = append(list, fsys.Entry{Name: d.id, Node: &messageFile{p.in, p.queue, d.id, d.place}})
	}
	return list, nil
}

// place returns the place that a key of a queue is for.
func place(key string) uint64 {
	_, s, _ := strings.Cut(key, "/")
	n, _ := strconv.ParseUint(s, 32, 64)
	return n
}

// messageFile is one message as a file.
type messageFile struct {
	in    *Inbox
	queue queue
	id    string
	place uint64
}

var _ fsys.Remover = (*messageFile)(nil)

func (p *messageFile) Stat(ctx context.Context) (fsys.Info, error) {
	info, err := fsys.Text(p.contents).Stat(ctx)
	info.Gen = p.place
	if store.IsDamaged(err) {
		err = nil // it is there: that it cannot be read is for who reads it
	}
	return info, err
}

func (p *messageFile) Open(ctx context.Context, f fsys.Flag) (fsys.Handle, error) {
	return fsys.Text(p.contents).Open(ctx, f)
}

func (p *messageFile) contents(ctx context.Context) ([]byte, error) {
	l, err := store.GetJSON[letter](ctx, p.in.st, letterKey(p.id))
	if err != nil {
		return nil, err
	}
	if l.Queue != p.queue || l.Place != p.place {
		return nil, fsys.NotExist
	}
	line, err := p.in.st.Get(ctx, lineKey(p.id))
	if err != nil || l.Queue == waiting {
		return line, err
	}
	var m Message
	if err := json.Unmarshal(line, &m); err != nil {
		return nil, fsys.Wrap(fsys.Internal, "the stored message "+p.id+" cannot be read", err)
	}
	if l.Queue == taken {
		return fsys.Line(struct {
			Message
			Since string `json:"taken"`
		}{m, l.Since}), nil
	}
	return fsys.Line(struct {
		Message
		Reason string `json:"reason"`
		Since  string `json:"dead_since"`
	}{m, l.Reason, l.Since}), nil
}

// Remove acknowledges a message that waits, also while somebody reads it,
// discards one in deadletter, and forgets one that was taken.
func (p *messageFile) Remove(ctx context.Context) error {
	return p.in.update(ctx, func(c *change) error {
		if done, err := c.removeDamaged(p.queue, p.id, p.place); done || err != nil {
			return err
		}
		switch p.queue {
		case dead:
			return c.remove(dead, p.id, p.place, "inbox.discarded")
		case taken:
			return c.remove(taken, p.id, p.place, "inbox.forgotten")
		}
		return c.acknowledge(p.id, p.place)
	})
}
