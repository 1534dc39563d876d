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
	if err != nil {
		return nil, err
	}
	if l.Queue != p.queue {
		return nil, fsys.NotExist
	}
	return &messageFile{p.in, p.queue, name, l.Place}, nil
}

// List returns the messages in their order.
func (p *queueDir) List(ctx context.Context) ([]fsys.Entry, error) {
	var list []fsys.Entry
	for pair, err := range store.All(ctx, p.in.st, string(p.queue)) {
		if err != nil {
			return nil, err
		}
		id, at := string(pair.Value), place(pair.Key)
		list = append(list, fsys.Entry{Name: id, Node: &messageFile{p.in, p.queue, id, at}})
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
	return fsys.Line(struct {
		Message
		Reason string `json:"reason"`
		Since  string `json:"dead_since"`
	}{m, l.Reason, l.Since}), nil
}

// Remove acknowledges a message that waits, also while somebody reads it, and
// discards one in deadletter.
func (p *messageFile) Remove(ctx context.Context) error {
	event := "inbox.acknowledged"
	if p.queue == dead {
		event = "inbox.discarded"
	}
	return p.in.update(ctx, func(c *change) error { return c.remove(p.queue, p.id, p.place, event) })
}
