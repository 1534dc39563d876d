package containers

import (
	"context"
	"errors"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/services/internal/work"
	"agent9/store"
)

// change alters the record of w in a transaction, and in memory when that is
// committed.
func (s *Service) change(ctx context.Context, tx store.Store, w *session, alter func(*record)) error {
	r, err := store.GetJSON[record](ctx, tx, recordKey(w.n))
	if err != nil {
		return err
	}
	alter(&r)
	store.After(tx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.rec = r
	})
	return store.PutJSON(ctx, tx, recordKey(w.n), r)
}

// enterState changes the state of w, which has not ended, and more of its
// record.
func (s *Service) enterState(ctx context.Context, tx store.Store, w *session, state State, alter func(*record)) error {
	var before State
	err := s.change(ctx, tx, w, func(r *record) {
		before, r.State = r.State, state
		if alter != nil {
			alter(r)
		}
	})
	if err != nil {
		return err
	}
	return s.count(ctx, tx, func(t *totals) { t.Sessions[before]--; t.Sessions[state]++ })
}

// enter is enterState in a transaction of its own.
func (w *session) enter(state State, alter func(*record)) error {
	ctx := context.WithoutCancel(w.ctx)
	return w.s.st.Update(ctx, func(tx store.Store) error { return w.s.enterState(ctx, tx, w, state, alter) })
}

// Why sessions end that somebody or something ends.
var (
	errStopped     = fsys.E(fsys.Canceled, "stopped")
	errInterrupted = fsys.E(fsys.Canceled, "interrupted")
)

// expiry is why a session ends that is out of time or money.
type expiry struct{ error }

func (e expiry) Unwrap() error { return e.error }

func expired(reason string) error { return expiry{fsys.E(fsys.Timeout, reason)} }

// exitError is a command that ended with something else than 0.
type exitError struct {
	code string // exit, timeout, oom, disk, killed
	text string
}

func (e exitError) Error() string { return e.text }

// stop ends w, which has not ended, at once.
func (s *Service) stop(w *session, why error) error {
	if over, err := s.cancelWaiting(w, why); over || err != nil {
		return err
	}
	_, err := s.crew.Withdraw(w, func() { w.cancel(why) }, func() error { return s.finish(w, why) })
	return err
}

// ended is the event of a session's end.
type ended struct {
	Session  int64         `json:"session"`
	State    State         `json:"state"`
	ExitCode *int          `json:"exit_code,omitempty"`
	Cost     budget.Micros `json:"cost_microusd"`
	Error    *work.Failure `json:"error,omitempty"`
}

// finish records how w ended, with its money, in one transaction, and lets its
// readers go. Nothing of it runs any more.
func (s *Service) finish(w *session, err error) error {
	defer w.cancel(nil)
	ctx := context.WithoutCancel(s.life)
	if failed := w.open(ctx); failed != nil {
		w.leave(failed)
		return failed
	}
	if failed := s.settle(ctx, w, err); failed != nil {
		w.leave(failed) // the record stays open, for the next Open to settle
		return failed
	}
	s.emptyTrash()
	return nil
}

func (s *Service) settle(ctx context.Context, w *session, err error) error {
	return s.st.Update(ctx, func(tx store.Store) error {
		before, get := store.GetJSON[record](ctx, tx, recordKey(w.n))
		if get != nil {
			return get
		}
		r := before
		r.Usage = w.lastUsage()
		now := s.config.Now()
		r.end(now, w.ran(now), err)
		if r.Failure != nil {
			r.Failure.Reason = w.secrets.hidden.String(r.Failure.Reason)
		}
		r.Size += w.output.stored() + w.execBytes()
		if err := settleHolds(tx, w.allHolds(), r.Cost, string(r.State)); err != nil {
			return err
		}
		if err := w.output.keep(tx); err != nil {
			return err
		}
		if err := s.putEnd(ctx, tx, before, r); err != nil {
			return err
		}
		store.After(tx, func() { w.ended(r) })
		if r.Removing {
			return s.delete(ctx, tx, w, r, "")
		}
		return nil
	})
}

// end makes r the record of a session that ended with err, and whose sandbox
// ran for so long.
func (r *record) end(now time.Time, ran time.Duration, err error) {
	r.Ended = now
	r.Cost = 0
	if !r.Up.IsZero() {
		r.Cost = r.cost(ran)
	}
	var exit exitError
	var out expiry
	switch {
	case err == nil:
		r.State = Done
		return
	case errors.As(err, &exit):
		r.State, r.Failure = Failed, &work.Failure{Code: exit.code, Reason: exit.text}
		return
	case errors.As(err, &out):
		r.State = Expired
	case errors.Is(err, errStopped):
		r.State = Stopped
	default:
		r.State = Failed
	}
	r.Failure = work.FailureOf(err)
}

// putEnd stores r, which is before no longer.
func (s *Service) putEnd(ctx context.Context, tx store.Store, before, r record) error {
	err := s.count(ctx, tx, func(t *totals) {
		t.Held -= r.Held
		t.Spent += r.Cost
		t.Sessions[before.State]--
		t.Sessions[r.State]++
	})
	if err != nil {
		return err
	}
	if err := store.PutJSON(ctx, tx, recordKey(r.Number), r); err != nil {
		return err
	}
	if err := tx.Delete(ctx, openKey(r.Number)); err != nil {
		return err
	}
	if err := s.unlockWorkspace(ctx, tx, r); err != nil {
		return err
	}
	if err := s.keepEnded(ctx, tx, r); err != nil {
		return err
	}
	return s.config.Note(tx, "containers."+string(r.State), ended{r.Number, r.State, r.exitCode(), r.Cost, r.Failure})
}

// ended makes r what everybody sees of w.
func (w *session) ended(r record) {
	w.mu.Lock()
	w.rec = r
	w.mu.Unlock()
	w.s.sessions.Leave(w.n)
	w.release()
}

// leave is ended for a session whose end could not be recorded.
func (w *session) leave(err error) {
	w.mu.Lock()
	w.rec.State, w.rec.Ended, w.rec.Failure = Failed, w.s.config.Now(), work.FailureOf(err)
	w.mu.Unlock()
	w.release()
}

func (w *session) release() {
	close(w.done)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.output != nil {
		w.output.end()
	}
}
