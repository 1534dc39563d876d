package containers

import (
	"context"
	"log/slog"
	"time"

	"agent9/fsys"
	"agent9/store"
)

// markEvery is how often it is written down that a session that costs runs.
const markEvery = 15 * time.Second

// clock ends the session when its time or money is over, or nobody uses it,
// and when its sandbox ends by itself. It writes down now and then that the
// session runs. All of this is measured, and not changed by setting the clock.
func (w *session) clock() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for warned := false; ; {
		select {
		case <-w.Ctx.Done():
			return
		case <-w.box.Done():
			w.Cancel(w.box.Err())
			return
		case <-w.touch:
		case <-timer.C:
		}
		now := w.s.config.Now()
		w.mark(now)
		over, why := w.deadline()
		if !now.Before(over) {
			w.Cancel(why)
			return
		}
		wake := over.Sub(now)
		if idle, ok := w.idleEnd(); ok && idle.Equal(over) {
			warn := idle.Add(-seconds(w.plan.policy.IdleWarning))
			switch {
			case now.Before(warn):
				wake, warned = warn.Sub(now), false
			case !warned:
				warned = true
				w.warn(onClock(over, now))
			}
		} else {
			warned = false
		}
		if w.Record().Price.Rate > 0 {
			wake = min(wake, markEvery)
		}
		timer.Reset(wake)
	}
}

// deadline is when the session ends, and why.
func (w *session) deadline() (time.Time, error) {
	r, up := w.Record(), w.cameUp()
	over, why := up.Add(seconds(w.plan.policy.MaxLife)), expired("life: the session ran as long as one may")
	if d := r.Price.lasts(r.Held); up.Add(d).Before(over) && d < 100*365*24*time.Hour {
		over, why = up.Add(d), expiry{fsys.E(fsys.Exhausted, "budget: the session has cost what was held for it")}
	}
	if idle, ok := w.idleEnd(); ok && idle.Before(over) {
		over, why = idle, expired("idle: nobody used the session")
	}
	return over, why
}

// cameUp is when the sandbox began to run.
func (w *session) cameUp() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.up
}

// onClock is what the clock, which says now, will say at t: it may have been set
// since t was worked out.
func onClock(t, now time.Time) time.Time { return now.Add(t.Sub(now)) }

// idleEnd is when the session ends if nobody uses it; false if it is in use,
// or does not wait to be used.
func (w *session) idleEnd() (time.Time, bool) {
	r := w.Record()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !r.Keep || r.State != Running || len(w.running) > 0 {
		return time.Time{}, false
	}
	end := w.lastUse.Add(seconds(w.plan.policy.Idle))
	if end.Before(w.until) {
		end = w.until
	}
	return end, true
}

// expires is when the session ends if nothing else happens; zero while that is
// not known.
func (w *session) expires() time.Time {
	if r := w.Record(); r.Up.IsZero() || r.State.ended() {
		return time.Time{}
	}
	over, _ := w.deadline()
	return onClock(over, w.s.config.Now())
}

// idling is the event of a session that nobody uses.
type idling struct {
	Session int64  `json:"session"`
	Ends    string `json:"ends"`
}

func (w *session) warn(over time.Time) {
	err := w.s.st.Update(context.WithoutCancel(w.Ctx), func(tx store.Store) error {
		return w.s.config.Note.Record(tx, "containers.idle", idling{w.N, fsys.Stamp(over)})
	})
	if err != nil {
		slog.Warn("a session will end that nobody uses, and nobody was told", "agent", w.s.config.Agent, "session", w.N, "err", err)
	}
}

// mark writes down that the session runs, if it costs something.
func (w *session) mark(now time.Time) {
	r, ran := w.Record(), w.ran(now)
	if r.Price.Rate == 0 || ran-r.Mark.Sub(r.Up) < markEvery {
		return
	}
	err := w.s.st.Update(context.WithoutCancel(w.Ctx), func(tx store.Store) error {
		if err := w.output.keep(tx); err != nil {
			return err
		}
		return w.s.ledger.Change(w.Ctx, tx, w, func(r *record) { r.Mark = r.Up.Add(ran) })
	})
	if err != nil {
		slog.Warn("the time of a session is not written down", "agent", w.s.config.Agent, "session", w.N, "err", err)
	}
}
