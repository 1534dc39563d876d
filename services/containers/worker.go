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

// enter changes the state of w, which has not ended.
func (w *session) enter(state State) error {
	ctx := context.WithoutCancel(w.Ctx)
	return w.s.st.Update(ctx, func(tx store.Store) error {
		return w.s.ledger.Change(ctx, tx, w, func(r *record) { r.State = state })
	})
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

// Run does all that w is for and records how it ended.
func (w *session) Run() { w.Finish(w.run()) }

// Finish records how w ended, of which nothing runs any more.
func (w *session) Finish(err error) error {
	ctx := context.WithoutCancel(w.s.life)
	failed := w.Open(ctx)
	if failed == nil {
		failed = w.s.ledger.End(ctx, w, w.how(err))
	}
	if failed != nil {
		w.s.ledger.Leave(w, func(r *record) {
			r.State, r.Ended, r.Failure = Failed, w.s.config.Now(), work.FailureOf(failed)
		})
		return failed
	}
	w.s.emptyTrash()
	return nil
}

// how is the end of w with err.
func (w *session) how(err error) work.How[record] {
	return func(_ context.Context, tx store.Store, r *record) (string, error) {
		r.Usage = w.lastUsage()
		now := w.s.config.Now()
		r.end(now, w.ran(now), err)
		if r.Failure != nil {
			r.Failure.Reason = w.secrets.hidden.String(r.Failure.Reason)
		}
		r.Size += w.output.stored() + w.execBytes()
		return string(r.State), w.output.keep(tx)
	}
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

// ended is the event of a session's end.
type ended struct {
	Session  int64         `json:"session"`
	State    State         `json:"state"`
	ExitCode *int          `json:"exit_code,omitempty"`
	Cost     budget.Micros `json:"cost_microusd"`
	Error    *work.Failure `json:"error,omitempty"`
}

// noteEnd gives back what r's session had, which has ended, and tells of it.
func (s *Service) noteEnd(ctx context.Context, tx store.Store, r *record) error {
	if err := s.unlockWorkspace(ctx, tx, r); err != nil {
		return err
	}
	return s.config.Note.Record(tx, "containers."+string(r.State), ended{r.Number, r.State, r.exitCode(), r.Cost, r.Failure})
}

// removed is the event of a session that is no longer there: see [work.Removed].
type removed struct {
	Number int64          `json:"session"`
	Why    string         `json:"why,omitempty"`
	Reason string         `json:"reason,omitempty"`
	Cost   *budget.Micros `json:"cost_microusd,omitempty"`
}
