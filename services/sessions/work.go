package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/services/internal/work"
	"agent9/store"
)

// A Turn is a prompt that is to be answered.
type Turn struct {
	Session int64
	Title   string
	Profile string
	Prompt  int64
	Author  fsys.Caller
	Token   string // the id of that which it came with, or nothing
	Time    string // of the prompt
	Text    string
	Data    json.RawMessage // instead of Text, of a prompt that is JSON
	// History returns the last lines of the transcript before this prompt,
	// oldest first, in about so many bytes.
	History func(ctx context.Context, most int64) ([]Line, error)
}

// wake gives x a worker when there is room.
func (s *Service) wake(x *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[x.n] != nil {
		x.again = true
	} else {
		s.busy[x.n] = x
		s.ready = append(s.ready, x)
	}
	s.dispatch()
}

// dispatch starts workers for those that wait longest, with s.mu held.
func (s *Service) dispatch() {
	for len(s.ready) > 0 && s.working < s.config().Running && s.life.Err() == nil && s.opts.Working() == nil {
		x := s.ready[0]
		s.ready[0] = nil
		s.ready = s.ready[1:]
		s.working++
		go s.work(x) // ends with the prompt that it takes
	}
}

// work does one prompt of x. What else is there is for another worker, behind
// the sessions that wait.
func (s *Service) work(x *session) {
	more, err := s.turn(x)
	if err != nil && s.life.Err() == nil {
		slog.Error("a session is left for the next start", "agent", s.opts.Name, "session", x.n, "err", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.working--
	if more || x.again {
		s.ready = append(s.ready, x)
	} else {
		delete(s.busy, x.n)
	}
	x.again = false
	s.dispatch()
	s.settled()
}

// turn has the next prompt of x answered, if there is one, and reports whether
// there are more.
func (s *Service) turn(x *session) (more bool, err error) {
	ctx, cancel := context.WithCancelCause(s.life)
	defer cancel(nil)
	x.starting(cancel)
	defer x.starting(nil)
	t, a, err := s.begin(ctx, x)
	if err != nil || t == nil {
		return a != nil, err
	}
	if err := s.opts.Working(); err != nil {
		cancel(err)
	}
	cost, err := s.run(ctx, *t, a)
	a.finish()
	if CutOff(ctx) {
		return false, a.rest(context.WithoutCancel(s.life))
	}
	return s.finish(context.WithoutCancel(s.life), x, a, cost, err)
}

// run is opts.Run, whatever that does.
func (s *Service) run(ctx context.Context, t Turn, a *Answer) (cost budget.Micros, err error) {
	defer func() {
		if p := recover(); p != nil {
			slog.Error("panic in an answer", "agent", s.opts.Name, "session", t.Session, "panic", p, "stack", string(debug.Stack()))
			err = fsys.E(fsys.Internal, fmt.Sprintf("the program panicked: %v", p))
		}
	}()
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	cost, err = s.opts.Run(ctx, t, a)
	if ctx.Err() != nil && err != nil {
		err = context.Cause(ctx)
	}
	return cost, err
}

// begin takes the next prompt of x, or takes up the one that was cut off. Without
// a Turn there is none; with an Answer all the same, that one is over, and
// there may be another.
func (s *Service) begin(ctx context.Context, x *session) (t *Turn, a *Answer, err error) {
	err = x.change(ctx, func(c *change) error {
		var q queued
		switch {
		case c.Running != 0 && (c.Cancelled != "" || c.Ending != "" || c.Removing):
			if a, err = c.answer(); err != nil {
				return err
			}
			return c.answered(a, 0, fsys.E(fsys.Canceled, c.Cancelled))
		case c.Running != 0:
			q, err = store.GetJSON[queued](ctx, store.Forgiving(c.tx), promptKey(x.n, c.Running))
			if store.IsDamaged(err) {
				if a, err = c.answer(); err != nil {
					return err
				}
				return c.answered(a, 0, fsys.E(fsys.Internal, errDamaged))
			}
			if err != nil {
				return err
			}
			if err := c.note("interrupted", told{Prompt: q.Prompt}); err != nil {
				return err
			}
		default:
			if !c.runnable() || s.opts.Working() != nil {
				return errNothing
			}
			if q, err = c.next(); err != nil {
				return err
			}
			if q.Prompt == 0 {
				return nil
			}
			if err := c.begins(q); err != nil {
				return err
			}
		}
		if a, err = c.answer(); err != nil {
			return err
		}
		if q.Prompt != c.before.Running {
			a.floor, a.resumed = 0, false
		}
		a.ctx = ctx
		store.After(c.tx, func() { x.took(q.Prompt) })
		t = c.turn(q)
		return nil
	})
	switch {
	case errors.Is(err, errNothing), missing(err): // or it was removed
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	}
	return t, a, nil
}

// next takes the oldest prompt out of the queue, and before it those whose token
// has ended: none is left if its number is 0.
func (c *change) next() (q queued, err error) {
	for p, err := range store.All(c.ctx, store.Forgiving(c.tx), queuePrefix(c.Number)) {
		if err != nil {
			return q, err
		}
		if p.Value == nil {
			if err := c.forgo(p, "", errDamaged); err != nil {
				return q, err
			}
			continue
		}
		q = queued{}
		if err := json.Unmarshal(p.Value, &q); err != nil {
			return q, fsys.Wrap(fsys.Internal, "a prompt in the database", err)
		}
		if q.Token != "" && c.x.s.opts.Token != nil {
			err = c.x.s.opts.Token(c.ctx, c.tx, q.Token)
		}
		switch {
		case err == nil:
			return c.unqueue(p)
		case fsys.CodeOf(err) != fsys.Permission:
			return q, err
		}
		if err := c.forgo(p, "", fsys.ReasonOf(err)); err != nil {
			return q, err
		}
	}
	return queued{}, nil
}

var errNothing = errors.New("there is nothing to do")

// turn is that of q, which is being answered.
func (c *change) turn(q queued) *Turn {
	said, size := c.transcript, c.transcript.Size()
	return &Turn{
		Session: c.Number, Title: c.Title, Profile: c.Profile, Prompt: q.Prompt, Author: q.Author, Token: q.Token, Time: q.Time,
		Text: q.Text, Data: q.Data,
		History: func(ctx context.Context, most int64) ([]Line, error) {
			lines, err := tail(ctx, said, size, most)
			return slices.DeleteFunc(lines, func(l Line) bool { return l.Prompt == q.Prompt }), err
		},
	}
}

// begins makes q the prompt that is being answered.
func (c *change) begins(q queued) error {
	c.Running, c.Begun, c.Attempt, c.From, c.Active = q.Prompt, c.now, 1, c.stream.Size(), c.now
	if err := store.PutJSON(c.ctx, c.tx, shownKey(c.Number), c.From+leastAhead); err != nil {
		return err
	}
	c.say(Line{Role: User, Prompt: q.Prompt, Author: q.Author, Text: q.Text, Data: q.Data, From: &c.From})
	return c.note("begun", told{Prompt: q.Prompt, By: q.Author})
}

// finish records how a ended, and reports whether there is more to do.
func (s *Service) finish(ctx context.Context, x *session, a *Answer, cost budget.Micros, failed error) (more bool, err error) {
	err = x.change(ctx, func(c *change) error {
		err := c.answered(a, cost, failed)
		more = c.runnable()
		return err
	})
	return more, err
}

// answered records the end of the prompt that is being answered.
func (c *change) answered(a *Answer, cost budget.Micros, failed error) error {
	outcome, d := Done, told{Prompt: a.prompt, Took: c.now.Sub(c.Begun).Milliseconds(), Cost: cost}
	if failed != nil {
		f := work.FailureOf(failed)
		outcome, d.Code, d.Reason = Failed, f.Code, f.Reason
	}
	if c.Cancelled != "" && failed != nil {
		outcome, d.Reason = Cancelled, c.Cancelled
	} else if failed != nil && fsys.CodeOf(failed) == fsys.Canceled {
		outcome = Cancelled
	}
	if _, err := c.part(a, outcome, d.Reason, cost); err != nil {
		return err
	}
	for _, key := range []string{promptKey(c.Number, c.Running), shownKey(c.Number)} {
		if err := c.tx.Delete(c.ctx, key); err != nil {
			return err
		}
	}
	c.Cost = min(c.Cost+cost, budget.Most)
	c.Running, c.Begun, c.Attempt, c.From, c.Cancelled = 0, time.Time{}, 0, 0, ""
	c.touch()
	if err := c.note(outcome, d); err != nil || c.Ending == "" {
		return err
	}
	return c.endAt(c.now, "", c.Ending)
}
