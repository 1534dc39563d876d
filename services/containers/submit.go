package containers

import (
	"context"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/services/internal/work"
	"agent9/store"
)

// submitNew is what a write to new does.
func (s *Service) submitNew(ctx context.Context, raw []byte) ([]byte, error) {
	n, err := s.Submit(ctx, raw, nil)
	return work.Reply(n), err
}

// Submit makes a request, as it is written to new, a session, or finds the one
// that it already is, and returns its number. serve, if not nil, is asked
// instead of Config.Serve when a program in the session dials.
func (s *Service) Submit(ctx context.Context, raw []byte, serve Serve) (int64, error) {
	sub, err := parseSubmission(raw)
	if err != nil {
		return 0, err
	}
	sub.serve = serve
	if n, err := s.keys.Prior(ctx, s.st, sub.key, sub.hash); n != 0 || err != nil {
		return n, err
	}
	p, err := s.policies.Read(ctx, s.st)
	if err != nil {
		return 0, err
	}
	pl, err := s.plan(ctx, p, sub)
	if err != nil {
		return 0, err
	}
	now, err := s.crew.Claim()
	if err != nil {
		return 0, err
	}
	n, fresh, err := s.record(ctx, sub, pl, now)
	if !fresh {
		s.crew.Unclaim(now)
	}
	return n, err
}

// record writes down a session with its money, in one transaction with the
// look into the journal, and starts it when that is on disk. It returns the
// session's number, and whether it is a new one.
func (s *Service) record(ctx context.Context, sub *submission, pl plan, now bool) (n int64, fresh bool, err error) {
	var w *session
	err = s.st.Update(ctx, func(tx store.Store) error {
		if n, err = s.keys.Prior(ctx, tx, sub.key, sub.hash); n != 0 || err != nil {
			return err
		}
		if err := s.config.Allowed(ctx); err != nil {
			return err
		}
		if n, err = work.Next(ctx, tx, nextKey); err != nil {
			return err
		}
		if err := s.lockWorkspace(ctx, tx, pl, n); err != nil {
			return err
		}
		hold, err := s.hold(ctx, tx, n, pl)
		if err != nil {
			return err
		}
		w = s.newSession(ctx, n, sub, pl, hold, now)
		if err := s.putNew(ctx, tx, w.rec, sub); err != nil {
			return err
		}
		s.sessions.Enter(n, w)
		store.After(tx, func() {
			fresh = true
			if hold.Waits() {
				s.crew.Unclaim(now)
			} else {
				s.crew.Launch(w, now)
			}
		})
		return nil
	})
	if err != nil {
		s.sessions.Undo(n, w)
		return 0, false, err
	}
	return n, fresh, nil
}

// newSession returns a session that has not been recorded yet.
func (s *Service) newSession(ctx context.Context, n int64, sub *submission, pl plan, hold *budget.Hold, now bool) *session {
	w := s.liveSession(n)
	w.plan, w.holds = pl, []*budget.Hold{hold}
	if sub.serve != nil {
		w.serves = sub.serve
	}
	w.rec = record{
		Number: n, Key: sub.key, Token: fsys.TokenOf(ctx), State: Queued,
		Provider: pl.runner.ID(), Image: pl.image, Limits: pl.limits, Network: pl.network,
		Keep: sub.req.Keep, Workspace: string(sub.req.Workspace), Commands: len(sub.req.Commands),
		Created: s.config.Now(), Holds: []string{hold.ID()}, Held: hold.Max(), Price: pl.price,
		Size: int64(len(sub.raw)) + overhead,
	}
	switch {
	case hold.Waits():
		w.rec.State = Awaiting
	case now:
		w.rec.State, w.rec.Started = Provisioning, w.rec.Created
	}
	return w
}

// submitted is the event of a new session.
type submitted struct {
	Session  int64         `json:"session"`
	Provider string        `json:"provider"`
	Image    string        `json:"image,omitempty"`
	Held     budget.Micros `json:"held_microusd"`
	By       fsys.Caller   `json:"by,omitempty"`
}

// putNew stores all that there is of a new session.
func (s *Service) putNew(ctx context.Context, tx store.Store, r record, sub *submission) error {
	err := s.count(ctx, tx, func(t *totals) {
		t.Held += r.Held
		t.Sessions[r.State]++
	})
	if err != nil {
		return err
	}
	p, err := s.policies.Read(ctx, tx)
	if err != nil {
		return err
	}
	entry := work.Key{Number: r.Number, Hash: sub.hash, Expires: r.Created.Add(time.Duration(p.IdempotencyTTL))}
	if err := s.keys.Enter(ctx, tx, r.Key, entry); err != nil {
		return err
	}
	if err := s.keys.Sweep(ctx, tx); err != nil {
		return err
	}
	for _, put := range []struct {
		key   string
		value []byte
	}{
		{recordKey(r.Number), fsys.Line(r)},
		{requestKey(r.Number), sub.raw},
		{listKey(r.Number), nil},
		{openKey(r.Number), nil},
	} {
		if err := tx.Put(ctx, put.key, put.value); err != nil {
			return err
		}
	}
	return s.config.Note(tx, "containers.submitted", submitted{r.Number, r.Provider, r.Image, r.Held, fsys.CallerOf(ctx)})
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
	t, err := store.GetJSON[totals](ctx, store.Forgiving(st), totalsKey)
	switch {
	case missing(err):
		err = nil
	case store.IsDamaged(err): // what was spent on sessions that are gone is in the account
		t, err = sum(ctx, st)
	}
	if t.Sessions == nil {
		t.Sessions = make(map[State]int64)
	}
	return t, err
}
