package ticks

import (
	"context"
	"errors"
	"time"

	"agent9/fsys"
	"agent9/providers/programs"
	"agent9/store"
)

// errNothing undoes the beginning of a tick that has no reason any more.
var errNothing = errors.New("nothing to do")

// tick runs j and records what came of it.
func (s *Service) tick(ctx context.Context, j *job) error {
	set := s.opts.Settings()
	if set.Program == nil {
		return fsys.E(fsys.Unavailable, "the program in config cannot be run")
	}
	room, err := s.opts.Room()
	if err != nil {
		return err
	}
	defer room.Close()
	run, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s.setCancel(stop)
	defer s.setCancel(nil)
	was, err := s.begin(ctx, j)
	if errors.Is(err, errNothing) {
		j.release()
		return s.st.Update(ctx, func(tx store.Store) error { return s.plan(ctx, tx, true) })
	}
	if err != nil {
		return err
	}
	defer s.current.Store(nil)

	t := &attempt{s: s, job: j, set: set, room: room, was: was, staged: s.stage(), out: newOutput(set.Output), began: time.Now()}
	defer t.staged.close()
	err = t.run(run)
	return t.end(context.WithoutCancel(ctx), run, err)
}

func (s *Service) setCancel(stop context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel = stop
}

// begin writes down that a tick begins, so that there is one whatever happens.
func (s *Service) begin(ctx context.Context, j *job) (*running, error) {
	var was *running
	err := s.st.Update(ctx, func(tx store.Store) error {
		mode, err := load[Mode](ctx, store.In(tx, s.st), modeKey)
		if err != nil {
			return err
		}
		if !mode.Program || mode.Stopped {
			return errNothing
		}
		return s.change(ctx, tx, func(r *record) error {
			r.Count++
			r.Asleep = false
			now := s.opts.Now()
			was = &running{
				ID: tickID(r.Count), Key: j.key, Cause: j.trigger.Cause, Message: j.message, From: j.from,
				Attempt: j.trigger.Attempt, Start: now.UnixMilli(),
			}
			r.Running = was
			// Before the event, so that who hears of it sees the tick.
			store.After(tx, func() { s.current.Store(&Current{was.ID, was.Message}) })
			j.trigger.Tick, j.trigger.Agent, j.trigger.Time = was.ID, s.opts.Name, fsys.Stamp(now)
			if err := s.opts.Begun(tx, was.ID); err != nil {
				return err
			}
			return s.opts.Note.Record(tx, "tick.began", struct {
				Tick    string         `json:"tick"`
				Cause   programs.Cause `json:"cause"`
				Message string         `json:"message,omitempty"`
				Attempt int            `json:"attempt"`
			}{was.ID, was.Cause, was.Message, was.Attempt})
		})
	})
	return was, err
}

// An attempt is one tick while it runs and ends.
type attempt struct {
	s      *Service
	job    *job
	set    Settings
	room   Room
	was    *running
	staged *Staged
	out    *output
	began  time.Time
	remark string
}

// run runs the program.
func (t *attempt) run(ctx context.Context) error {
	ctx, done := context.WithTimeoutCause(ctx, t.set.Timeout, programs.ErrTimedOut)
	defer done()
	env, err := t.room.Open(ctx, t.job.trigger, t.staged)
	if err != nil {
		return err
	}
	env.Output = t.out
	outcome, err := t.set.Program.Run(ctx, t.job.trigger, env)
	t.remark = outcome.Remark
	if err == nil || ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}

// end stores what the tick did, or that it failed.
func (t *attempt) end(ctx, run context.Context, failed error) error {
	took := time.Since(t.began)
	cost, err := t.s.opts.Cost(ctx)
	if err != nil {
		return err
	}
	cutOff := failed != nil && run.Err() != nil
	if failed == nil {
		err := t.s.st.Update(ctx, func(tx store.Store) error { return t.succeed(ctx, tx, took, cost) })
		if err == nil {
			return nil
		}
		failed = &programs.Failure{Kind: programs.Failed, Reason: "what the tick did could not be stored: " + programs.Reason(err)}
	}
	t.job.release() // what is due after it counts its message
	if cutOff {
		why := context.Cause(run)
		if !errors.Is(why, errStopped) {
			why = errEnding
		}
		return t.s.st.Update(ctx, func(tx store.Store) error { return t.cut(ctx, tx, took, why) })
	}
	return t.s.st.Update(ctx, func(tx store.Store) error { return t.fail(ctx, tx, took, cost, failed) })
}

func (t *attempt) succeed(ctx context.Context, tx store.Store, took time.Duration, cost int64) error {
	// First, so that a message to the agent itself has the room of this one.
	if err := t.job.done(ctx, tx); err != nil {
		return err
	}
	if err := t.room.Commit(ctx, tx); err != nil {
		return err
	}
	return t.close(ctx, tx, took, cost, "done", &t.remark, func(r *record) error {
		r.GivenUp = 0
		if err := t.staged.commit(ctx, tx, r); err != nil {
			return err
		}
		return store.In(tx, t.s.st).Delete(ctx, retries+t.job.key)
	})
}

func (t *attempt) cut(ctx context.Context, tx store.Store, took time.Duration, why error) error {
	err := t.s.change(ctx, tx, func(r *record) error {
		r.Running = nil
		return t.s.cutOff(ctx, tx, r, t.was, took, why)
	})
	if err != nil {
		return err
	}
	return t.s.plan(ctx, tx, true)
}

// fail arranges for another attempt, or gives the trigger up.
func (t *attempt) fail(ctx context.Context, tx store.Store, took time.Duration, cost int64, failed error) error {
	kind := programs.Failed
	var f *programs.Failure
	if errors.As(failed, &f) {
		kind = f.Kind
	}
	reason := programs.Reason(failed)
	return t.close(ctx, tx, took, cost, string(kind), &reason, func(r *record) error {
		r.Failed++
		in := store.In(tx, t.s.st)
		again, err := loadRetry(ctx, in, retries+t.job.key)
		if err != nil {
			return err
		}
		again.From = t.job.from
		again.Tries++
		again.Full = false
		wait := t.set.backoff(again.Tries)
		if again.Tries > t.set.Retries {
			err := t.job.giveUp(ctx, tx, reason)
			switch {
			case err == nil:
				t.countGivenUp(r, reason)
				return in.Delete(ctx, retries+t.job.key)
			case fsys.CodeOf(err) != fsys.Busy:
				return err
			}
			again.Full, wait = true, t.set.MaxBackoff
			reason += "; deadletter is full, so the message stays in inbox until there is room"
		}
		again.NotBefore = t.s.opts.Now().Add(wait).UnixMilli()
		return store.PutJSON(ctx, in, retries+t.job.key, again)
	})
}

func (t *attempt) countGivenUp(r *record, reason string) {
	if r.GivenUp++; t.set.GiveUp > 0 && r.GivenUp >= t.set.GiveUp {
		r.Broken = reason
	}
}

// backoff is how long to wait after so many failures.
func (set *Settings) backoff(tries int) time.Duration {
	d := set.Backoff
	for range tries - 1 {
		if d *= 4; d >= set.MaxBackoff {
			break
		}
	}
	return min(d, set.MaxBackoff)
}

// close writes down the end of the tick, with what more, which may add to the
// reason, and what is due then.
func (t *attempt) close(ctx context.Context, tx store.Store, took time.Duration, cost int64, outcome string, reason *string, more func(r *record) error) error {
	s := t.s
	err := s.change(ctx, tx, func(r *record) error {
		r.Running = nil
		if err := more(r); err != nil {
			return err
		}
		if err := s.sweep(ctx, tx); err != nil {
			return err
		}
		return s.record(tx, r, t.was, took, outcome, *reason, cost)
	})
	if err != nil {
		return err
	}
	if err := t.out.store(ctx, store.In(tx, s.st), t.was, outcome, *reason); err != nil {
		return err
	}
	return s.plan(ctx, tx, true)
}
