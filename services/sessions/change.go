package sessions

import (
	"context"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/store"
)

// A change is one transaction on a session.
type change struct {
	ctx    context.Context
	tx     store.Store
	x      *session
	config Config
	now    time.Time
	before record
	record
	transcript *store.Log
	stream     *store.Log
	lines      []byte // said in this transaction
}

// change runs f in a transaction, after what time has done. Those on one session
// wait for each other, so that what one has said is seen before the next one
// speaks.
func (x *session) change(ctx context.Context, f func(c *change) error) error {
	if err := x.s.look(ctx); err != nil {
		return err
	}
	return x.changeNow(ctx, f)
}

// changeNow is change for what time does.
func (x *session) changeNow(ctx context.Context, f func(c *change) error) error {
	if err := x.changing.Lock(ctx); err != nil {
		return err
	}
	defer x.changing.Unlock()
	transcript, stream, err := x.open(ctx)
	if err != nil {
		return err
	}
	config, now := x.s.config(), x.s.opts.Now()
	return x.s.st.Update(ctx, func(tx store.Store) error {
		r, err := store.GetJSON[record](ctx, tx, recordKey(x.n))
		if err != nil {
			return err
		}
		c := &change{
			ctx: ctx, tx: tx, x: x, config: config, now: now, before: r, record: r, transcript: transcript, stream: stream,
		}
		if err := f(c); err != nil {
			return err
		}
		return c.save()
	})
}

// save stores what was changed.
func (c *change) save() error {
	s, x := c.x.s, c.x
	if c.ended() && c.Removing {
		return s.drop(c.ctx, c.tx, c.before, "")
	}
	if len(c.lines) > 0 {
		if err := c.transcript.Append(c.tx, c.lines); err != nil {
			return err
		}
		c.Size += int64(len(c.lines))
	}
	if err := put(c.ctx, c.tx, &c.before, &c.record); err != nil {
		return err
	}
	if c.idle() {
		due := c.due()
		store.After(c.tx, func() { s.arm(due) })
	}
	switch {
	case c.ended() && !c.before.ended():
		store.After(c.tx, x.ended)
		return s.sweep(c.ctx, c.tx, c.config, c.now)
	case !c.ended() && c.before.ended():
		store.After(c.tx, x.reopened)
	}
	if c.Running == 0 && c.runnable() {
		store.After(c.tx, func() { s.wake(x) })
	}
	return nil
}

// touch says that somebody is there.
func (c *change) touch() {
	c.Active, c.Ends, c.Warned = c.now, c.now.Add(c.config.Idle), false
}

// say adds a line to the transcript.
func (c *change) say(l Line) {
	c.Lines++
	l.N, l.Time = c.Lines, fsys.Stamp(c.now)
	c.lines = append(c.lines, fsys.Line(l)...)
}

// told is the detail of every event about a session.
type told struct {
	Session int64         `json:"session"`
	Prompt  int64         `json:"prompt,omitempty"`
	By      fsys.Caller   `json:"by,omitempty"`
	Ends    string        `json:"ends,omitempty"`
	Took    int64         `json:"took_ms,omitempty"`
	Cost    budget.Micros `json:"cost_microusd,omitempty"`
	Code    string        `json:"code,omitempty"`
	Reason  string        `json:"reason,omitempty"`
}

func (c *change) note(event string, d told) error {
	d.Session = c.Number
	return c.x.s.opts.Note.Record(c.tx, "sessions."+event, d)
}

// endAt ends the session, at a time that may be past, for why.
func (c *change) endAt(at time.Time, by fsys.Caller, why string) error {
	if err := c.discard(by, why); err != nil {
		return err
	}
	if c.Running != 0 { // then it ends with that
		c.Ending = why
		return c.cancel(why)
	}
	c.Ended, c.Why, c.Paused, c.Ending = at, why, false, ""
	c.say(Line{Role: System, Event: "ended", Author: by, Reason: why})
	return c.note("ended", told{By: by, Reason: why})
}

// cancel makes the prompt that is being answered end, or ends it if nobody is
// at it: the agent is stopped, or the daemon about to end.
func (c *change) cancel(why string) error {
	c.Cancelled = why
	x, prompt, canceled := c.x, c.Running, fsys.E(fsys.Canceled, why)
	if !x.works(prompt) {
		a, err := c.answer()
		if err != nil {
			return err
		}
		return c.answered(a, 0, canceled)
	}
	store.After(c.tx, func() { x.stop(prompt, canceled) })
	return nil
}

// answer is that to the prompt that is being answered, as an earlier run of
// the program left it.
func (c *change) answer() (*Answer, error) {
	shown, err := store.GetJSON[int64](c.ctx, c.tx, shownKey(c.Number))
	a := &Answer{x: c.x, stream: c.stream, prompt: c.Running, attempt: c.Attempt, from: c.From, shown: shown, resumed: true}
	if c.stream.Size() < shown {
		a.floor = shown
	}
	return a, err
}
