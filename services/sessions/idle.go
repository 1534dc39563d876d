package sessions

import (
	"context"
	"log/slog"
	"time"
	"weak"

	"agent9/fsys"
	"agent9/store"
	"agent9/store/due"
)

// lapseTimer returns a timer that has no time. It does not keep s in
// memory: what is due when s is gone is recorded when somebody looks.
func lapseTimer(s *Service) *due.Timer {
	p := weak.Make(s)
	return due.New(s.opts.Now, func(ctx context.Context) time.Time {
		if s := p.Value(); s != nil {
			return s.lapseNow(ctx)
		}
		return time.Time{}
	})
}

// firstDue reads when something is due first.
func (s *Service) firstDue(ctx context.Context) error {
	page, err := store.Forgiving(s.st).List(ctx, idlePrefix, "", 1)
	if err != nil || len(page) == 0 {
		return err
	}
	due, _, err := parseIdle(page[0].Key)
	if err == nil {
		s.arm(due)
	}
	return err
}

// arm sees to it that the timer looks at the given time, or before.
func (s *Service) arm(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.due.IsZero() || at.Before(s.due) {
		s.due = at
		s.timer.At(at)
	}
}

// lapseNow is what the timer does.
func (s *Service) lapseNow(ctx context.Context) time.Time {
	if err := s.look(ctx); err != nil && ctx.Err() == nil {
		slog.Error("idle sessions could not be ended", "agent", s.opts.Name, "err", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.due
}

// set returns how far the clock was set since it was looked at last, with s.mu
// held: by how much more it went on than the time that was measured. What is
// less than setLeast is how clocks differ.
func (s *Service) set(now time.Time) time.Duration {
	by := now.Round(0).Sub(s.seen.Round(0)) - now.Sub(s.seen)
	s.seen = now
	if by.Abs() < setLeast {
		return 0
	}
	return by
}

const setLeast = time.Second

// look records what time has done: sessions that were idle for too long are
// warned and end. If the clock was set, the time of idle sessions is set with
// it.
func (s *Service) look(ctx context.Context) error {
	s.mu.Lock()
	now := s.opts.Now()
	if lapsing := s.lapsing; lapsing != nil {
		s.mu.Unlock()
		select {
		case <-lapsing:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	set := s.set(now)
	if set == 0 && (s.due.IsZero() || now.Before(s.due)) || s.life.Err() != nil {
		s.mu.Unlock()
		return nil
	}
	done := make(chan struct{})
	s.lapsing, s.due = done, time.Time{}
	s.mu.Unlock()
	err := s.shift(ctx, set)
	if err == nil {
		err = s.lapse(ctx, now)
	}
	s.mu.Lock()
	s.lapsing = nil
	close(done)
	s.settled()
	s.mu.Unlock()
	if err != nil {
		s.arm(now.Add(tryAgain))
		return err
	}
	return s.firstDue(ctx)
}

// shift moves the end of idle sessions by as much as the clock was set.
func (s *Service) shift(ctx context.Context, by time.Duration) error {
	if by == 0 {
		return nil
	}
	var idle []int64
	for p, err := range store.All(ctx, store.Forgiving(s.st), idlePrefix) {
		if err != nil {
			return err
		}
		_, n, err := parseIdle(p.Key)
		if err != nil {
			return err
		}
		idle = append(idle, n)
	}
	for _, n := range idle {
		err := s.session(n).changeNow(ctx, func(c *change) error {
			c.Active, c.Ends = c.Active.Add(by), c.Ends.Add(by)
			return nil
		})
		if err != nil && fsys.CodeOf(err) != fsys.NotExist && !store.IsDamaged(err) {
			return err
		}
	}
	return nil
}

// tryAgain is when the timer looks again after the store did not let it.
const tryAgain = time.Minute

// lapse warns and ends the sessions for which that is due.
func (s *Service) lapse(ctx context.Context, now time.Time) error {
	for {
		page, err := store.Forgiving(s.st).List(ctx, idlePrefix, "", 1)
		if err != nil || len(page) == 0 {
			return err
		}
		key := page[0].Key
		due, n, err := parseIdle(key)
		if err != nil || now.Before(due) {
			return err
		}
		err = s.session(n).changeNow(ctx, func(c *change) error { return c.lapse(key, now) })
		if store.IsDamaged(err) || missing(err) || err == nil && page[0].Value == nil { // it is in the way of the others
			slog.Error("a session does not end by itself, as what there is of it is damaged; remove it", "agent", s.opts.Name, "session", n, "err", err)
			err = s.st.Delete(ctx, key)
		}
		if err != nil {
			return err
		}
	}
}

// lapse is what happens to a session that has been idle until what key says.
func (c *change) lapse(key string, now time.Time) error {
	if !c.index()[key] { // it is not so any longer
		return nil
	}
	if !c.Warned {
		c.Warned = true
		if err := c.note("ending", told{Ends: fsys.Stamp(c.Ends)}); err != nil {
			return err
		}
	}
	if now.Before(c.Ends.Truncate(time.Millisecond)) {
		return nil
	}
	return c.endAt(c.Ends, "", "nothing was said for "+c.Ends.Sub(c.Active).String())
}
