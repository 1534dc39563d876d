package agent

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"agent9/fsys"
	"agent9/providers/programs"
	"agent9/services/logs"
	"agent9/services/status"
	"agent9/services/ticks"
	"agent9/store"
)

func openTicks(ctx context.Context, e Env) (o opened, err error) {
	a := e.Agent
	a.ticks, err = ticks.Open(ctx, e.Store, ticks.Options{
		Name:     a.Name,
		Now:      e.Now,
		Settings: a.tickSettings,
		Mail:     mail{a},
		Room:     a.newRoom,
		Due:      func(ctx context.Context, tx store.Store, d ticks.Due) error { return e.Due(ctx, tx, a.Name, d) },
		Begun:    func(tx store.Store, id string) error { return a.budget.Tick(tx, id) },
		Cost: func(ctx context.Context) (int64, error) {
			u, err := a.budget.Usage(ctx)
			return int64(u.Tick.Spent), err
		},
		Record: func(tx store.Store, l ticks.Line) error {
			return a.logs.Tick(tx, logs.Tick{
				ID: l.ID, Cause: string(l.Cause), Message: l.Message, Attempt: l.Attempt, Start: l.Start,
				Duration: l.Duration, Outcome: l.Outcome, Reason: l.Reason, CostMicroUSD: l.Cost,
			})
		},
		Note: e.Note,
	})
	if err != nil {
		return o, err
	}
	end := func(ctx context.Context) error { a.ticks.Cut(); return a.ticks.Wait(ctx) }
	return opened{roots: []fsys.Node{a.ticks.Output()}, wait: end, close: end, stop: a.ticks.Cut}, nil
}

// Work runs the agent's next tick, if one is due.
func (a *Agent) Work(ctx context.Context) error {
	if a.gone.Load() {
		return fsys.NotExist
	}
	if err := a.agree(ctx); err != nil {
		return err
	}
	return a.ticks.Work(ctx)
}

// agree makes the ticks be as the agent's configuration and state say, if its
// store was filled by other means than its files.
func (a *Agent) agree(ctx context.Context) error {
	c := a.status.Config()
	mode, err := a.ticks.Mode(ctx)
	if err != nil || mode.Program == (c.Program != nil) && mode.Messages == c.OnMessages() &&
		mode.Stopped == a.Stopped() && slices.Equal(mode.Watch, c.Triggers.Watch) {
		return err
	}
	return a.st.Update(ctx, func(tx store.Store) error {
		if err := a.configured(ctx, tx, a.status.Config()); err != nil {
			return err
		}
		return a.ticks.Stopped(ctx, tx, a.Stopped())
	})
}

// configured is told of a new configuration in its transaction.
func (a *Agent) configured(ctx context.Context, tx store.Store, c status.Config) error {
	return a.ticks.Configured(ctx, tx, c.Program != nil, c.OnMessages(), c.Triggers.Watch)
}

// changed is told of changes below a directory that can be watched.
func (a *Agent) changed(dir string) func(context.Context, store.Store, string) error {
	return func(ctx context.Context, tx store.Store, path string) error {
		return a.ticks.Changed(ctx, tx, strings.TrimPrefix(dir, "/")+"/"+path)
	}
}

func (a *Agent) tickSettings() ticks.Settings {
	c := a.status.Config()
	set := ticks.Settings{
		Timeout: c.Tick.Timeout(), Retries: c.Tick.Tries(), Backoff: c.Tick.Backoff(), MaxBackoff: c.Tick.BackoffMax(),
		GiveUp: c.Tick.GivesUp(), Output: c.Tick.Output(),
	}
	if c.Program == nil {
		return set
	}
	var err error
	if set.Program, err = a.program(*c.Program); err != nil {
		set.Program = impossible{err}
	}
	return set
}

func (a *Agent) program(spec programs.Spec) (programs.Program, error) {
	if spec.Container != nil {
		if len(a.house.Sandboxes) == 0 {
			return nil, fsys.E(fsys.Unsupported, "program: this daemon has nothing that makes containers")
		}
		return a.sandboxes.Program(*spec.Container, spec.Env), nil
	}
	if a.house.Programs == nil {
		return nil, fsys.E(fsys.Unsupported, "program: this daemon runs none")
	}
	return a.house.Programs(spec)
}

// impossible is a program that this daemon does not know how to run, although
// an earlier one did.
type impossible struct{ err error }

func (p impossible) Run(context.Context, programs.Trigger, programs.Env) (programs.Outcome, error) {
	return programs.Outcome{}, &programs.Failure{Kind: programs.Refused, Reason: programs.Reason(p.err)}
}

// mail is the inbox as the source of ticks.
type mail struct{ *Agent }

func (m mail) Take(ctx context.Context, skip func(fsys.Caller) bool) (*ticks.Letter, error) {
	c, err := m.inbox.Claim(ctx, skip)
	if c == nil || err != nil {
		return nil, err
	}
	return &ticks.Letter{ID: c.ID, From: c.From, JSON: fsys.Line(c.Message), Done: c.Done, Bury: c.Bury, Release: c.Release}, nil
}

func (m mail) Waiting(ctx context.Context, tx store.Store, skip func(fsys.Caller) bool) (free, taken bool, err error) {
	return m.inbox.Waiting(ctx, tx, skip)
}

func (m mail) Has(ctx context.Context, tx store.Store, id string) (bool, error) {
	return m.inbox.Has(ctx, tx, id)
}

// tie adds to what is recorded while a tick runs which one that is, and the
// message that set it off.
func (a *Agent) tie(event string, detail any) any {
	if a.ticks == nil || strings.HasPrefix(event, "tick.") || event == "inbox.received" {
		return detail
	}
	cur := a.ticks.Current()
	if cur == nil {
		return detail
	}
	tied := fsys.Line(struct {
		Tick    string `json:"tick"`
		Message string `json:"message,omitempty"`
	}{cur.ID, cur.Message})
	if detail == nil {
		return json.RawMessage(tied)
	}
	own := fsys.Line(detail)
	if len(own) < 3 || own[0] != '{' || own[1] == '}' {
		return json.RawMessage(tied)
	}
	return json.RawMessage(append(own[:len(own)-len("}\n")], append([]byte(","), tied[1:]...)...))
}

// tickState is what status shows besides what is in the store of status.
func (a *Agent) tickState(ctx context.Context, r *status.Report) error {
	sum, err := a.ticks.Summary(ctx)
	if err != nil {
		return err
	}
	r.Ticks = status.Ticks{Count: sum.Count, Failed: sum.Failed, Running: sum.Running}
	if sum.Last != nil {
		r.Ticks.Last = sum.Last
	}
	r.Queues.Alarms = sum.Alarms
	switch {
	case r.State == status.Stopped:
	case sum.Broken != "":
		r.State, r.Reason = status.Failed, sum.Broken
	case sum.Running == "" && !sum.Pending && (sum.Asleep || sum.Program):
		r.State = status.Hibernating
	}
	return nil
}
