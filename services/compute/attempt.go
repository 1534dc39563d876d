package compute

import (
	"context"
	"errors"
	"fmt"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/models"
	"agent9/services/internal/work"
	"agent9/store"
)

// An attempt is one call of a provider. It is an entry of attempts in the
// files of a job, and the detail of the event of one that failed and is not
// the last.
type attempt struct {
	Provider string        `json:"provider"`
	Model    string        `json:"model"`
	Begun    string        `json:"begun"`
	Took     int64         `json:"took_ms"`
	Usage    models.Usage  `json:"usage"`
	Cost     budget.Micros `json:"cost_microusd"`
	Error    *work.Failure `json:"error,omitempty"`
}

// run does the work of j: it is the only place that calls a provider. What it
// returns is of the last attempt; those before it are recorded.
func (s *Service) run(j *job) (models.Usage, error) {
	if err := j.Open(j.Ctx); err != nil {
		return models.Usage{}, err
	}
	if id := j.Record().Token; id != "" && s.config.Token != nil {
		if err := s.config.Token(j.Ctx, nil, id); err != nil {
			return models.Usage{}, err
		}
	}
	if j.plan.chain == nil {
		var err error
		if j.plan, err = s.planAgain(j.Ctx, j.Record()); err != nil {
			return models.Usage{}, err
		}
	}
	limit := time.Duration(j.Record().Timeout) * time.Millisecond
	ctx, cancel := context.WithTimeoutCause(j.Ctx, limit, fsys.E(fsys.Timeout, fmt.Sprintf("the job ran longer than %v", limit)))
	defer cancel()
	usage, err := s.attempts(ctx, j)
	if err != nil && s.life.Err() != nil && !errors.Is(err, errCancelled) {
		err = errInterrupted
	}
	return usage, err
}

// attempts asks one candidate after the other until one has answered, or there
// is nobody to ask any more.
func (s *Service) attempts(ctx context.Context, j *job) (usage models.Usage, err error) {
	turn := newTurn(j.plan.chain)
	for {
		c, pause, none := turn.take(ctx, j.plan.retry)
		switch {
		case ctx.Err() != nil:
			return usage, context.Cause(ctx)
		case c == nil && err == nil:
			return usage, none
		case c == nil:
			return usage, err
		}
		if err != nil {
			switch failed := s.again(j, usage, err); {
			case failed != nil && ctx.Err() != nil:
				return usage, context.Cause(ctx)
			case failed != nil:
				return usage, err
			}
			usage = models.Usage{}
		}
		if !sleep(ctx, pause) {
			return usage, context.Cause(ctx)
		}
		asked, failed := c.within(j.hold().Max())
		if failed == nil {
			failed = s.started(j, &asked)
		}
		if failed != nil {
			return usage, failed
		}
		a := calling{j: j, meter: meter{c: &asked, hold: j.hold().Max()}}
		traced, end := s.config.Trace.Begin(ctx, ctx, "provider call", "provider", c.runner.ID(), "model", c.model.Name)
		usage, err = c.runner.Run(traced, j.hold(), asked.req, a.emit)
		end(fsys.Outcome(err))
		if err == nil || ctx.Err() != nil || a.said || !turn.after(c, j.Record(), usage, err) {
			return usage, err
		}
	}
}

// after reports whether another attempt may follow one of c, recorded in r,
// that failed with err and gave nothing to a reader.
func (t *turn) after(c *candidate, r record, usage models.Usage, err error) bool {
	code := fsys.CodeOf(err)
	switch {
	case code == fsys.NotExist, code == fsys.Unsupported:
		t.drop(func(d *candidate) bool { return d == c })
	case !models.Transient(err):
		return false
	case models.Final(err):
		t.drop(func(d *candidate) bool { return d.runner == c.runner })
	}
	left := max(r.Held-r.cost(usage), 0)
	t.drop(func(d *candidate) bool {
		_, short := d.within(left)
		return short != nil
	})
	return true
}

// again records an attempt that is not the last. What it cost is spent, and
// the rest of the money is held on.
func (s *Service) again(j *job, usage models.Usage, err error) error {
	a := j.Record().attempt(s.config.Now(), usage, err)
	var hold *budget.Hold
	failed := s.st.Update(j.Ctx, func(tx store.Store) error {
		if hold = j.hold(); a.Cost > 0 {
			var err error
			if hold, err = hold.Renew(tx, a.Cost, a.Error.Code+": "+a.Provider); err != nil {
				return err
			}
		}
		err := s.ledger.Change(j.Ctx, tx, j, func(r *record) {
			r.Attempts = append(r.Attempts, a)
			r.Hold, r.Held = hold.ID(), hold.Max()
			r.Paid, r.Begun = min(r.Paid+a.Cost, budget.Most), time.Time{}
		})
		if err != nil {
			return err
		}
		return s.config.Note.Record(tx, "compute.attempt", failedAttempt{j.N, a})
	})
	if failed == nil {
		j.SetHolds(hold)
	}
	return failed
}

// failedAttempt is the event of an attempt that another one follows.
type failedAttempt struct {
	Job int64 `json:"job"`
	attempt
}

// started records that c is asked now: from now on that may cost money. Nobody
// is asked from an account that is overdrawn meanwhile.
func (s *Service) started(j *job, c *candidate) error {
	rec := j.Record()
	now := s.config.Now()
	same := rec.Provider == c.runner.ID() && rec.Model == c.model.Name
	if rec.State == Running && same && len(rec.Attempts) == 0 {
		return nil
	}
	return s.st.Update(j.Ctx, func(tx store.Store) error {
		if err := j.hold().Ready(tx); err != nil {
			return err
		}
		return s.ledger.Change(j.Ctx, tx, j, func(r *record) {
			if r.State == Queued {
				r.State, r.Started = Running, now
			}
			r.asks(c)
			r.Begun = now
		})
	})
}

// attempt is the one that r is in, as it ended.
func (r record) attempt(now time.Time, usage models.Usage, err error) attempt {
	begun := r.Begun
	if begun.IsZero() {
		begun = r.Started
	}
	a := attempt{
		Provider: r.Provider, Model: r.Model, Begun: work.Stamp(begun), Took: now.Sub(begun).Milliseconds(),
		Usage: usage, Cost: r.cost(usage),
	}
	if err != nil {
		a.Error = work.FailureOf(err)
	}
	return a
}

// calling is an attempt that runs.
type calling struct {
	j     *job
	meter meter
	said  bool   // a reader got something of it
	early []byte // lines of chunks from before that
}

// emit takes a chunk from the provider. Readers get the lines that only tell
// of an answer when something of it is there: until then another provider may
// give it.
func (a *calling) emit(c models.Chunk) error {
	line := fsys.Line(c)
	if len(line) <= len("{}\n") {
		line = nil
	}
	if !a.said && !c.Says() {
		a.early = append(a.early, line...)
		return a.meter.add(c)
	}
	if c.Result != nil {
		a.j.result = c.Result
		if c.Type == "" { // JSON is a line of text; sound and pictures are bytes
			a.j.result = append(a.j.result[:len(a.j.result):len(a.j.result)], '\n')
		}
	}
	a.said = true
	if c.Text != "" && c.Choice == 0 {
		if err := a.j.output.Buffer([]byte(c.Text)); err != nil {
			return err
		}
	}
	if line = append(a.early, line...); len(line) > 0 {
		a.early = nil
		if err := a.j.chunks.Buffer(line); err != nil {
			return err
		}
	}
	return a.meter.add(c)
}
