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

// change alters the record of j in a transaction, and in memory when that is
// committed.
func (s *Service) change(ctx context.Context, tx store.Store, j *job, alter func(*record)) error {
	r, err := store.GetJSON[record](ctx, tx, recordKey(j.n))
	if err != nil {
		return err
	}
	alter(&r)
	store.After(tx, func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.rec = r
	})
	return store.PutJSON(ctx, tx, recordKey(j.n), r)
}

var errCancelled = fsys.E(fsys.Canceled, "cancelled")

// cancel ends j, which has not ended, with why. One that runs is over when its
// provider has stopped.
func (s *Service) cancel(j *job, why error) error {
	if over, err := s.cancelWaiting(j, why); over || err != nil {
		return err
	}
	_, err := s.crew.Withdraw(j, func() { j.cancel(why) }, func() error {
		return s.finish(j, models.Usage{}, why)
	})
	return err
}

// ended is the event of a job's end.
type ended struct {
	Job    int64         `json:"job"`
	State  State         `json:"state"`
	Cost   budget.Micros `json:"cost_microusd"`
	Tokens int64         `json:"tokens"`
	Error  *work.Failure `json:"error,omitempty"`
}

// finish records how j ended, with its money, in one transaction, and lets its
// readers go. If that cannot be recorded because there is too much to store,
// the job failed for that reason.
func (s *Service) finish(j *job, usage models.Usage, err error) error {
	defer j.cancel(nil)
	ctx := context.WithoutCancel(s.life)
	failed := j.open(ctx)
	if failed == nil {
		failed = s.settle(ctx, j, usage, err)
	}
	if failed == nil {
		return nil
	}
	j.result = nil
	if again := s.settle(ctx, j, usage, failed); again != nil {
		j.leave(again) // the record stays open, for the next Open to settle
		return again
	}
	return nil
}

func (s *Service) settle(ctx context.Context, j *job, usage models.Usage, err error) error {
	return s.st.Update(ctx, func(tx store.Store) error {
		r, get := store.GetJSON[record](ctx, tx, recordKey(j.n))
		if get != nil {
			return get
		}
		before := r
		r.end(s.config.Now(), usage, err)
		r.Result = int64(len(j.result))
		r.Size += j.streamed() + r.Result
		if err := j.hold.Settle(tx, r.Cost-r.Paid, string(r.State)); err != nil {
			return err
		}
		if err := s.putEnd(ctx, tx, before, r); err != nil {
			return err
		}
		store.After(tx, func() { j.ended(r) })
		if r.Removing {
			return s.delete(ctx, tx, j, r, "")
		}
		for _, log := range []*store.Log{j.output, j.chunks} {
			if log == nil {
				continue
			}
			if err := log.Append(tx, nil); err != nil {
				return err
			}
		}
		if j.result == nil {
			return nil
		}
		return tx.Put(ctx, resultKey(j.n), j.result)
	})
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

// putEnd stores r, which is before no longer.
func (s *Service) putEnd(ctx context.Context, tx store.Store, before, r record) error {
	if err := s.paceEnd(ctx, tx, r); err != nil {
		return err
	}
	err := s.count(ctx, tx, func(t *totals) {
		t.Held -= r.Held
		t.Spent += r.Cost - r.Paid
		t.Jobs[before.State]--
		t.Jobs[r.State]++
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
	if err := s.keep(ctx, tx, r); err != nil {
		return err
	}
	return s.config.Note(tx, "compute."+string(r.State), ended{r.Number, r.State, r.Cost, r.Usage.Input + r.Usage.Output, r.Failure})
}

// ended makes r what everybody sees of j.
func (j *job) ended(r record) {
	j.mu.Lock()
	j.rec = r
	j.mu.Unlock()
	j.s.jobs.Leave(j.n)
	j.release()
}

// leave is ended for a job whose end could not be recorded.
func (j *job) leave(err error) {
	j.mu.Lock()
	j.rec.State, j.rec.Ended, j.rec.Failure = Failed, j.s.config.Now(), work.FailureOf(err)
	j.mu.Unlock()
	j.release()
}

func (j *job) release() {
	close(j.done)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.spanEnd != nil {
		code := ""
		if j.rec.Failure != nil {
			code = j.rec.Failure.Code
		}
		j.spanEnd(code)
	}
	if j.output != nil {
		j.output.Tape().End()
		j.chunks.Tape().End()
	}
}
