package compute

import (
	"context"
	"errors"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/models"
	"agent9/services/internal/work"
	"agent9/store"
)

var (
	errCancelled   = fsys.E(fsys.Canceled, "cancelled")
	errInterrupted = fsys.E(fsys.Canceled, "interrupted") // by the end of the daemon
)

// Run does the work of j and records how it ended.
func (j *job) Run() {
	usage, err := j.s.run(j)
	j.finish(usage, err)
}

// Finish ends j, which has not begun.
func (j *job) Finish(why error) error { return j.finish(models.Usage{}, why) }

// finish records how j ended. If that cannot be recorded because there is too
// much to store, the job failed for that reason.
func (j *job) finish(usage models.Usage, err error) error {
	ctx := context.WithoutCancel(j.s.life)
	failed := j.Open(ctx)
	if failed == nil {
		failed = j.s.ledger.End(ctx, j, j.how(usage, err))
	}
	if failed == nil {
		return nil
	}
	j.result = nil
	if again := j.s.ledger.End(ctx, j, j.how(usage, failed)); again != nil {
		j.s.ledger.Leave(j, func(r *record) {
			r.State, r.Ended, r.Failure = Failed, j.s.config.Now(), work.FailureOf(again)
		})
		return again
	}
	return nil
}

// how is the end of j with err.
func (j *job) how(usage models.Usage, err error) work.How[record] {
	return func(ctx context.Context, tx store.Store, r *record) (string, error) {
		r.end(j.s.config.Now(), usage, err)
		r.Result = int64(len(j.result))
		r.Size += j.streamed() + r.Result
		if r.Removing {
			return string(r.State), nil
		}
		for _, log := range j.logs() {
			if err := log.Append(tx, nil); err != nil {
				return "", err
			}
		}
		if j.result == nil {
			return string(r.State), nil
		}
		return string(r.State), tx.Put(ctx, resultKey(j.N), j.result)
	}
}

// interrupted is how a job ends that the end of the program cut off: nobody
// knows what it cost if it ran.
func (s *Service) interrupted(j *job) work.How[record] {
	return func(_ context.Context, _ store.Store, r *record) (string, error) {
		waiting := r.State != Running || len(r.Attempts) > 0 && r.Begun.IsZero()
		r.end(s.config.Now(), models.Usage{}, errInterrupted)
		r.Size += j.streamed()
		if !waiting && !r.Free {
			r.Cost = min(r.Paid+r.Held, budget.Most)
		}
		return errInterrupted.Error(), nil
	}
}

// end makes r the record of a job that ended with err.
func (r *record) end(now time.Time, usage models.Usage, err error) {
	if len(r.Attempts) > 0 && !r.Begun.IsZero() {
		r.Attempts = append(r.Attempts, r.attempt(now, usage, err))
	}
	r.Ended, r.Usage, r.Cost = now, usage, min(r.Paid+r.cost(usage), budget.Most)
	switch {
	case err == nil:
		r.State = Done
		return
	case errors.Is(err, errCancelled):
		r.State = Cancelled
	default:
		r.State = Failed
	}
	r.Failure = work.FailureOf(err)
}

// ended is the event of a job's end.
type ended struct {
	Job    int64         `json:"job"`
	State  State         `json:"state"`
	Cost   budget.Micros `json:"cost_microusd"`
	Tokens int64         `json:"tokens"`
	Error  *work.Failure `json:"error,omitempty"`
}

// noteEnd counts and tells of r, which has ended.
func (s *Service) noteEnd(ctx context.Context, tx store.Store, r *record) error {
	if err := s.paceEnd(ctx, tx, r); err != nil {
		return err
	}
	return s.config.Note.Record(tx, "compute."+string(r.State), ended{r.Number, r.State, r.Cost, r.Usage.Input + r.Usage.Output, r.Failure})
}
