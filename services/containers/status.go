package containers

import (
	"context"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/services/internal/work"
)

type statusFile struct {
	Session   int64         `json:"session"`
	Key       string        `json:"idempotency_key,omitempty"`
	State     State         `json:"state"`
	ExitCode  *int          `json:"exit_code,omitempty"`
	Approval  string        `json:"approval,omitempty"` // what it waits for
	Provider  string        `json:"provider"`
	Image     string        `json:"image,omitempty"`
	Commands  int           `json:"commands"`
	Ran       int           `json:"commands_ended"`
	Keep      bool          `json:"keep"`
	Workspace string        `json:"workspace,omitempty"`
	Network   bool          `json:"network"`
	Limits    Limits        `json:"limits"`
	Created   string        `json:"created"`
	Started   string        `json:"started,omitempty"`
	Up        string        `json:"up,omitempty"`
	Ended     string        `json:"ended,omitempty"`
	Expires   string        `json:"expires,omitempty"` // at the latest, if nothing else happens
	Held      budget.Micros `json:"held_microusd"`
	Cost      budget.Micros `json:"cost_microusd"`
	Lost      int64         `json:"lost_bytes,omitempty"`
	Error     *work.Failure `json:"error,omitempty"`
}

func (w *session) status(context.Context) (statusFile, error) {
	r := w.Record()
	f := statusFile{
		Session: r.Number, Key: r.Key, State: r.State, ExitCode: r.exitCode(), Provider: r.Provider, Image: r.Image,
		Commands: r.Commands, Ran: len(r.Results), Keep: r.Keep, Workspace: r.Workspace, Network: r.Network, Limits: r.Limits,
		Created: work.Stamp(r.Created), Started: work.Stamp(r.Started), Up: work.Stamp(r.Up), Ended: work.Stamp(r.Ended),
		Cost: r.Cost, Lost: r.Lost, Error: r.Failure,
	}
	if !r.State.ended() {
		f.Held, f.Cost = r.Held, w.costBy(w.s.config.Now())
		f.Expires = work.Stamp(w.expires())
	}
	if r.State == Awaiting {
		f.Approval = r.Holds[0]
	}
	return f, nil
}

// costBy is what w, which has not ended, has cost by now.
func (w *session) costBy(now time.Time) budget.Micros {
	r := w.Record()
	if r.Up.IsZero() {
		return 0
	}
	return r.cost(w.ran(now))
}

type usageFile struct {
	usage
	Running    int           `json:"commands_running"`
	Held       budget.Micros `json:"held_microusd"`
	Cost       budget.Micros `json:"cost_microusd"`
	PerSession budget.Micros `json:"price_per_session_microusd"`
	PerHour    budget.Micros `json:"price_per_hour_microusd"`
}

func (w *session) usage(ctx context.Context) (usageFile, error) {
	r := w.Record()
	now := w.s.config.Now()
	f := usageFile{usage: r.Usage, Cost: r.Cost, PerSession: r.Price.Once}
	f.PerHour = r.Price.cost(time.Hour) - r.Price.Once
	if r.State.ended() {
		return f, nil
	}
	f.Held, f.Cost = r.Held, w.costBy(now)
	w.mu.Lock()
	box, running := w.box, len(w.running)
	w.mu.Unlock()
	f.Running = running
	if box != nil {
		if u, err := box.Usage(ctx); err == nil {
			f.usage = usageOf(u)
		}
	}
	return f, nil
}

type resultFile struct {
	Session  int64         `json:"session"`
	State    State         `json:"state"`
	ExitCode *int          `json:"exit_code"`
	Commands []outcome     `json:"commands"`
	Usage    usage         `json:"usage"`
	Cost     budget.Micros `json:"cost_microusd"`
	Error    *work.Failure `json:"error,omitempty"`
}

func (w *session) resultFile() fsys.Node {
	load := func(context.Context) ([]byte, error) {
		r := w.Record()
		f := resultFile{r.Number, r.State, r.exitCode(), r.Results, r.Usage, r.Cost, r.Failure}
		if f.Commands == nil {
			f.Commands = []outcome{}
		}
		return fsys.Line(f), nil
	}
	return resultOf(w.Done, load)
}

// resultOf is a result that is made of what is in memory.
func resultOf(done <-chan struct{}, load func(context.Context) ([]byte, error)) fsys.Node {
	return &work.Result{
		Done: done,
		Size: func(ctx context.Context) (int64, error) {
			b, err := load(ctx)
			return int64(len(b)), err
		},
		Load: load,
	}
}
