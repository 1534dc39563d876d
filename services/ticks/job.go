package ticks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"agent9/fsys"
	"agent9/providers/programs"
	"agent9/store"
)

// A job is a trigger whose turn it is.
type job struct {
	key     string // see record.go; letters+id for a message
	retry   retry
	trigger programs.Trigger
	message string // the id of a message
	from    fsys.Caller
	// done ends the trigger, which had its tick, and giveUp one that will
	// not have any.
	done   func(ctx context.Context, tx store.Store) error
	giveUp func(ctx context.Context, tx store.Store, reason string) error
	letter *Letter
}

func (j *job) release() {
	if j.letter != nil {
		j.letter.Release()
	}
}

// next returns the job whose turn it is, or nil.
func (s *Service) next(ctx context.Context) (*job, error) {
	mode, err := load[Mode](ctx, s.st, modeKey)
	if err != nil || !mode.Program || mode.Stopped {
		return nil, err
	}
	if r, err := loadRecord(ctx, s.st); err != nil || r.Broken != "" {
		return nil, err
	}
	h, err := s.held(ctx, s.st)
	if err != nil {
		return nil, err
	}
	j, err := s.nextOrder(ctx, h)
	if j == nil && err == nil {
		j, err = s.nextAlarm(ctx, h)
	}
	if j == nil && err == nil && mode.Messages {
		j, err = s.nextLetter(ctx, h)
	}
	if j == nil || err != nil {
		return nil, err
	}
	if j.retry, err = loadRetry(ctx, s.st, retries+j.key); err != nil {
		j.release()
		return nil, err
	}
	j.trigger.Attempt = j.retry.Tries + 1
	return j, nil
}

// lose deletes an order that is damaged, so that the next ones have their turn.
func (s *Service) lose(ctx context.Context, key string, why error) error {
	return s.st.Update(ctx, func(tx store.Store) error {
		if err := tx.Delete(ctx, key); err != nil {
			return err
		}
		return s.opts.Note.Record(tx, "tick.lost", struct {
			Reason string `json:"reason"`
		}{fsys.ReasonOf(why)})
	})
}

func (s *Service) nextOrder(ctx context.Context, h held) (*job, error) {
	for p, err := range store.All(ctx, store.Forgiving(s.st), orders) {
		if err != nil {
			return nil, err
		}
		if h.has(p.Key) {
			continue
		}
		o, err := load[order](ctx, s.st, p.Key)
		if store.IsDamaged(err) {
			err = s.lose(ctx, p.Key, err)
			if err == nil {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		drop := func(ctx context.Context, tx store.Store) error { return store.In(tx, s.st).Delete(ctx, p.Key) }
		return &job{
			key:     p.Key,
			trigger: programs.Trigger{Cause: o.Cause, Text: o.Text, Path: o.Path},
			done:    drop,
			giveUp:  func(ctx context.Context, tx store.Store, _ string) error { return drop(ctx, tx) },
		}, nil
	}
	return nil, nil
}

// nextAlarm returns the alarm that is due since longest.
func (s *Service) nextAlarm(ctx context.Context, h held) (*job, error) {
	list, err := s.loadAlarms(ctx, s.st)
	if err != nil {
		return nil, err
	}
	now := s.opts.Now()
	var first *alarm
	for _, a := range list {
		if !a.due().After(now) && !h.has(a.key()) && (first == nil || a.Next < first.Next) {
			first = &a
		}
	}
	if first == nil {
		return nil, nil
	}
	done := func(ctx context.Context, tx store.Store) error { return s.rang(ctx, tx, *first) }
	return &job{
		key: first.key(),
		trigger: programs.Trigger{
			Cause: programs.Timer,
			Alarm: &programs.Alarm{ID: first.ID, Text: first.Text, Due: fsys.Stamp(first.due())},
		},
		done:   done,
		giveUp: func(ctx context.Context, tx store.Store, _ string) error { return done(ctx, tx) },
	}, nil
}

func (s *Service) nextLetter(ctx context.Context, h held) (*job, error) {
	l, err := s.opts.Mail.Take(ctx, h.from())
	if l == nil || err != nil {
		return nil, err
	}
	return &job{
		key:     letters + l.ID,
		trigger: programs.Trigger{Cause: programs.Message, Message: l.JSON},
		message: l.ID,
		from:    l.From,
		done:    l.Done,
		giveUp:  l.Bury,
		letter:  l,
	}, nil
}

// recover records that the tick which ran when the daemon ended was cut off.
func (s *Service) recover(ctx context.Context) error {
	if r, err := loadRecord(ctx, s.st); err != nil || r.Running == nil {
		return err
	}
	return s.st.Update(ctx, func(tx store.Store) error {
		var was *running
		err := s.change(ctx, tx, func(r *record) error {
			was, r.Running = r.Running, nil
			if was == nil {
				return nil
			}
			return s.cutOff(ctx, tx, r, was, s.opts.Now().Sub(time.UnixMilli(was.Start)), errEnding)
		})
		return err
	})
}

// cutOff records a tick that was ended through no fault of its program.
func (s *Service) cutOff(ctx context.Context, tx store.Store, r *record, was *running, took time.Duration, why error) error {
	outcome := "interrupted"
	if errors.Is(why, errStopped) {
		outcome = "stopped"
	} else if err := s.countCut(ctx, tx, was); err != nil {
		return err
	}
	return s.record(tx, r, was, max(0, took), outcome, why.Error(), 0)
}

func (s *Service) countCut(ctx context.Context, tx store.Store, was *running) error {
	in := store.In(tx, s.st)
	t, err := loadRetry(ctx, in, retries+was.Key)
	if err != nil {
		return err
	}
	t.From = was.From
	if t.Cut++; t.Cut >= maxCut {
		t.Cut = 0
		t.Tries++
	}
	return store.PutJSON(ctx, in, retries+was.Key, t)
}

// sweep forgets the retries of messages that are gone, by somebody else's
// hand.
func (s *Service) sweep(ctx context.Context, tx store.Store) error {
	in := store.In(tx, s.st)
	for p, err := range store.All(ctx, store.Forgiving(in), retries+letters) {
		if err != nil {
			return err
		}
		there, err := s.opts.Mail.Has(ctx, tx, strings.TrimPrefix(p.Key, retries+letters))
		if err == nil && !there {
			err = in.Delete(ctx, p.Key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// record writes down a tick that has ended, also in r.
func (s *Service) record(tx store.Store, r *record, was *running, took time.Duration, outcome, reason string, cost int64) error {
	store.After(tx, func() { s.current.Store(nil) })
	start := time.UnixMilli(was.Start)
	r.Last = &Last{
		ID: was.ID, Cause: was.Cause, Message: was.Message, Attempt: was.Attempt,
		Start: fsys.Stamp(start), Duration: took.Milliseconds(), Outcome: outcome, Reason: reason,
	}
	err := s.opts.Record(tx, Line{
		ID: was.ID, Cause: was.Cause, Message: was.Message, Attempt: was.Attempt,
		Start: start, Duration: took, Outcome: outcome, Reason: reason, Cost: cost,
	})
	if err != nil {
		return err
	}
	return s.opts.Note.Record(tx, "tick.ended", struct {
		Tick     string         `json:"tick"`
		Cause    programs.Cause `json:"cause"`
		Message  string         `json:"message,omitempty"`
		Attempt  int            `json:"attempt"`
		Duration int64          `json:"duration_ms"`
		Outcome  string         `json:"outcome"`
		Reason   string         `json:"reason,omitempty"`
		Cost     int64          `json:"cost_microusd"`
	}{was.ID, was.Cause, was.Message, was.Attempt, took.Milliseconds(), outcome, reason, cost})
}

func tickID(n uint64) string { return fmt.Sprint(n) }
