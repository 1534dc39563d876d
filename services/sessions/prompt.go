package sessions

import (
	"context"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"agent9/fsys"
	"agent9/services/internal/work"
	"agent9/store"
)

// queued is a prompt that waits, or is being answered, and a line of queue.
type queued struct {
	Prompt int64           `json:"prompt"`
	Author fsys.Caller     `json:"author,omitempty"`
	Token  string          `json:"token,omitempty"` // the id of that which it came with
	Time   string          `json:"time"`
	Text   string          `json:"text,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`
}

// parsePrompt reads a request to prompt.
func parsePrompt(req []byte) (q queued, err error) {
	switch {
	case len(req) == 0:
		return q, fsys.E(fsys.Invalid, "the prompt is empty")
	case !utf8.Valid(req):
		return q, fsys.E(fsys.Invalid, "a prompt must be UTF-8 text, or JSON; encode other bytes, as base64 for example")
	case req[0] == '{', fsys.IsArray(req):
		q.Data = req
	default:
		q.Text = string(req)
	}
	return q, nil
}

// admit refuses what needs no prompt to be refused.
func (x *session) admit(ctx context.Context) error {
	r, err := x.record(ctx)
	if err != nil {
		return err
	}
	if err := r.takes(x.s.config()); err != nil {
		return err
	}
	if x.s.opts.Admit != nil {
		return x.s.opts.Admit(ctx)
	}
	return nil
}

// takes says why the session takes no prompt.
func (r *record) takes(config Config) error {
	switch {
	case r.ended():
		return fsys.E(fsys.Busy, fmt.Sprintf("session %d has ended; write resume to its ctl", r.Number))
	case r.Ending != "":
		return fsys.E(fsys.Busy, fmt.Sprintf("session %d is ending", r.Number))
	case r.Size >= MaxSession:
		return fsys.E(fsys.Busy, fmt.Sprintf("session %d has grown to its limit; begin another one", r.Number))
	case r.Waiting >= config.Waiting, r.Queued >= maxQueued:
		return fsys.E(fsys.Busy, fmt.Sprintf("%d prompts wait in session %d already", r.Waiting, r.Number))
	}
	return nil
}

// prompt is a request to prompt: it is queued.
func (x *session) prompt(ctx context.Context, req []byte) ([]byte, error) {
	q, err := parsePrompt(req)
	if err != nil {
		return nil, err
	}
	q.Author, q.Token = fsys.CallerOf(ctx), fsys.TokenOf(ctx)
	err = x.change(ctx, func(c *change) error {
		if err := c.takes(c.config); err != nil || c.Removing {
			return orMissing(err)
		}
		c.Prompts++
		c.Waiting++
		q.Prompt, q.Time = c.Prompts, fsys.Stamp(c.now)
		line := fsys.Line(q)
		c.Queued += int64(len(line))
		c.touch()
		if err := c.tx.Put(ctx, promptKey(x.n, q.Prompt), line); err != nil {
			return err
		}
		return c.note("queued", told{Prompt: q.Prompt, By: q.Author})
	})
	if err != nil {
		return nil, err
	}
	return work.Reply(q.Prompt), nil
}

// orMissing is err, or NotExist if that is nil.
func orMissing(err error) error {
	if err == nil {
		err = fsys.NotExist
	}
	return err
}

// queue is the text of queue.
func (x *session) queue(ctx context.Context) ([]byte, error) {
	r, err := x.record(ctx)
	if err != nil {
		return nil, err
	}
	text := []byte{}
	for p, err := range store.All(ctx, store.Forgiving(x.s.st), queuePrefix(x.n)) {
		if err != nil {
			return nil, err
		}
		if p.Value == nil {
			n, _ := numberIn(p.Key, queuePrefix(x.n))
			p.Value = fsys.Line(damagedPrompt{n, errDamaged})
		}
		if p.Key != promptKey(x.n, r.Running) {
			text = append(text, p.Value...)
		}
	}
	return text, nil
}

// damagedPrompt is a prompt that waits and is damaged, in queue. Its turn passes.
type damagedPrompt struct {
	Prompt int64  `json:"prompt"`
	Error  string `json:"error"`
}

const errDamaged = "the prompt is damaged"

// unqueue takes a prompt that waits, and may be damaged, out of the queue.
func (c *change) unqueue(p store.Pair) (q queued, err error) {
	if p.Value == nil {
		q.Prompt, err = numberIn(p.Key, queuePrefix(c.Number))
	} else {
		err = fsys.Wrap(fsys.Internal, "a prompt in the database", json.Unmarshal(p.Value, &q))
	}
	if err != nil {
		return q, err
	}
	c.Waiting--
	c.Queued = max(c.Queued-int64(len(p.Value)), 0)
	if c.Waiting == 0 {
		c.Queued = 0
	}
	return q, nil
}

// forgo takes a prompt that waits away without an answer.
func (c *change) forgo(p store.Pair, by fsys.Caller, why string) error {
	q, err := c.unqueue(p)
	if err != nil {
		return err
	}
	if err := c.tx.Delete(c.ctx, p.Key); err != nil {
		return err
	}
	c.say(Line{Role: System, Event: Cancelled, Prompt: q.Prompt, Author: by, Reason: why})
	return c.note(Cancelled, told{Prompt: q.Prompt, By: by, Reason: why})
}

// discard takes all prompts that wait away.
func (c *change) discard(by fsys.Caller, why string) error {
	for p, err := range store.All(c.ctx, store.Forgiving(c.tx), queuePrefix(c.Number)) {
		if err != nil {
			return err
		}
		if p.Key == promptKey(c.Number, c.Running) {
			continue
		}
		if err := c.forgo(p, by, why); err != nil {
			return err
		}
	}
	return nil
}
