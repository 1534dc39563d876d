package compute

import (
	"context"
	"strconv"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/store"
)

// submitNew is what a write to new does.
func (s *Service) submitNew(ctx context.Context, raw []byte) ([]byte, error) {
	sub, err := parseSubmission(raw)
	if err != nil {
		return nil, err
	}
	return s.submit(ctx, sub)
}

// submit makes sub a job, or finds the one that it already is, and replies
// with its number.
func (s *Service) submit(ctx context.Context, sub *submission) ([]byte, error) {
	if n, err := s.prior(ctx, s.st, sub); n != 0 || err != nil {
		return reply(n), err
	}
	p, err := s.readPolicy(ctx, s.st)
	if err != nil {
		return nil, err
	}
	pl, err := s.plan(ctx, p, sub)
	if err != nil {
		return nil, err
	}
	now, err := s.claim()
	if err != nil {
		return nil, err
	}
	n, fresh, err := s.record(ctx, sub, pl, now)
	if !fresh {
		s.unclaim(now)
	}
	return reply(n), err
}

func reply(n int64) []byte {
	if n == 0 {
		return nil
	}
	return append(strconv.AppendInt(nil, n, 10), '\n')
}

// claim takes room for one more job, and says whether it may run now.
func (s *Service) claim() (now bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.full(); err != nil {
		return false, err
	}
	s.recording++
	if len(s.queue) == 0 && s.claimed == 0 && s.running < s.limit.running {
		s.running++
		return true, nil
	}
	s.claimed++
	return false, nil
}

// unclaim gives the room back.
func (s *Service) unclaim(now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recording--
	if now {
		s.running--
	} else {
		s.claimed--
	}
	s.dispatch()
	s.settled()
}

// record writes down a job with its money, in one transaction with the look
// into the journal, and starts it when that is on disk. It returns the job's
// number, and whether it is a new one.
func (s *Service) record(ctx context.Context, sub *submission, pl plan, now bool) (n int64, fresh bool, err error) {
	var j *job
	err = s.st.Update(ctx, func(tx store.Store) error {
		if n, err = s.prior(ctx, tx, sub); n != 0 || err != nil {
			return err
		}
		if n, err = s.next(ctx, tx); err != nil {
			return err
		}
		counted, err := s.pace(ctx, tx, pl.rates, sub.req)
		if err != nil {
			return err
		}
		hold, err := s.hold(ctx, tx, n, pl)
		if err != nil {
			return err
		}
		name, err := s.claimDraft(ctx, tx, sub.key)
		if err != nil {
			return err
		}
		j = s.newJob(n, name, sub, pl, hold, now)
		j.rec.Counted = counted
		if err := s.putNew(ctx, tx, j.rec, sub); err != nil {
			return err
		}
		s.enter(j)
		store.After(tx, func() {
			fresh = true
			if hold.Waits() {
				s.unclaim(now)
			} else {
				s.launch(j, now)
			}
		})
		return nil
	})
	if err != nil {
		s.unenter(j)
		return 0, false, err
	}
	return n, fresh, nil
}

// enter makes a job findable, just before its record can be read.
func (s *Service) enter(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live[j.n] = j
	s.remember(j)
}

// unenter forgets a job that was not recorded; j may be nil.
func (s *Service) unenter(j *job) {
	if j == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live[j.n] == j {
		delete(s.live, j.n)
		delete(s.known, j.n)
	}
}

// next returns a number that no job ever had.
func (s *Service) next(ctx context.Context, tx store.Store) (int64, error) {
	last, err := store.GetJSON[int64](ctx, tx, nextKey)
	if err != nil && !missing(err) {
		return 0, err
	}
	return last + 1, store.PutJSON(ctx, tx, nextKey, last+1)
}

// submitted is the event of a new job.
type submitted struct {
	Job      int64         `json:"job"`
	Provider string        `json:"provider"`
	Model    string        `json:"model"`
	Held     budget.Micros `json:"held_microusd"`
	By       fsys.Caller   `json:"by,omitempty"`
}

// putNew stores all that there is of a new job.
func (s *Service) putNew(ctx context.Context, tx store.Store, r record, sub *submission) error {
	err := s.count(ctx, tx, func(t *totals) {
		t.Held += r.Held
		t.Jobs[r.State]++
	})
	if err != nil {
		return err
	}
	if err := s.enterKey(ctx, tx, r, sub.hash); err != nil {
		return err
	}
	if err := s.sweepKeys(ctx, tx); err != nil {
		return err
	}
	for _, put := range []struct {
		key   string
		value []byte
	}{
		{recordKey(r.Number), fsys.Line(r)},
		{requestKey(r.Number), sub.raw},
		{listKey(r.Number), []byte(r.Name)},
		{openKey(r.Number), nil},
	} {
		if err := tx.Put(ctx, put.key, put.value); err != nil {
			return err
		}
	}
	return s.config.Note(tx, "compute.submitted", submitted{r.Number, r.Provider, r.Model, r.Held, fsys.CallerOf(ctx)})
}

// count changes the totals.
func (s *Service) count(ctx context.Context, tx store.Store, change func(*totals)) error {
	t, err := s.totals(ctx, tx)
	if err != nil {
		return err
	}
	change(&t)
	return store.PutJSON(ctx, tx, totalsKey, t)
}

func (s *Service) totals(ctx context.Context, st store.Store) (totals, error) {
	t, err := store.GetJSON[totals](ctx, st, totalsKey)
	if missing(err) {
		err = nil
	}
	if t.Jobs == nil {
		t.Jobs = make(map[State]int64)
	}
	return t, err
}

// stamp is a time as files show it; empty for none.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fsys.Stamp(t)
}
