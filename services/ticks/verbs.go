package ticks

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"agent9/fsys"
	"agent9/providers/programs"
	"agent9/store"
)

// A Verb is a command of the agent's ctl.
type Verb struct {
	Name, Args, Help string
	Do               func(ctx context.Context, words []string) ([]byte, error)
}

// Verbs returns the commands that are about ticks.
func (s *Service) Verbs() []Verb {
	return []Verb{
		{"tick", "[TEXT]", "run the program once, with TEXT", s.order},
		{"alarm", "WHEN [TEXT]", "run it at a time: +5m, 2026-01-31T08:00:00Z, @daily, or [TZ=ZONE] and five fields of cron; read the alarm's number on the same open file", s.setAlarm},
		{"cancel", "ID", "take back an alarm", s.cancelAlarm},
		{"hibernate", "", "rest until something happens", s.hibernate},
		{"wake", "", "be active; try again at once what failed; run again after giving up", s.wake},
	}
}

func (s *Service) needsProgram(ctx context.Context, in store.Store) error {
	mode, err := load[Mode](ctx, in, modeKey)
	switch {
	case err != nil:
		return err
	case !mode.Program:
		return fsys.E(fsys.Busy, "the agent has no program to run; its operator names one in config")
	}
	return nil
}

func (s *Service) order(ctx context.Context, words []string) ([]byte, error) {
	return nil, s.st.Update(ctx, func(tx store.Store) error {
		if err := s.needsProgram(ctx, tx); err != nil {
			return err
		}
		return s.add(ctx, tx, order{Cause: programs.Manual, Text: strings.Join(words, " "), By: fsys.CallerOf(ctx)})
	})
}

func (s *Service) setAlarm(ctx context.Context, words []string) ([]byte, error) {
	a, err := s.newAlarm(ctx, words)
	if err != nil {
		return nil, err
	}
	err = s.st.Update(ctx, func(tx store.Store) error {
		if err := s.needsProgram(ctx, tx); err != nil {
			return err
		}
		if err := s.change(ctx, tx, func(r *record) error { return s.put(ctx, tx, r, a) }); err != nil {
			return err
		}
		return s.plan(ctx, tx, false)
	})
	return []byte(a.ID + "\n"), err
}

func oneID(words []string) (string, error) {
	if len(words) != 1 {
		return "", fsys.E(fsys.Invalid, "want cancel ID; reading ctl lists the alarms")
	}
	return words[0], nil
}

func (s *Service) cancelAlarm(ctx context.Context, words []string) ([]byte, error) {
	id, err := oneID(words)
	if err != nil {
		return nil, err
	}
	return nil, s.st.Update(ctx, func(tx store.Store) error {
		if err := s.drop(ctx, tx, id); err != nil {
			return err
		}
		return s.plan(ctx, tx, false)
	})
}

func alone(words []string) error {
	if len(words) > 0 {
		return fsys.E(fsys.Invalid, "this command has no arguments")
	}
	return nil
}

func (s *Service) hibernate(ctx context.Context, words []string) ([]byte, error) {
	if err := alone(words); err != nil {
		return nil, err
	}
	return nil, s.st.Update(ctx, func(tx store.Store) error {
		return s.change(ctx, tx, func(r *record) error {
			if r.Running != nil && s.Current() != nil {
				return fsys.E(fsys.Busy, "a tick is running; the agent rests by itself when there is nothing to do")
			}
			if r.Asleep {
				return nil
			}
			r.Asleep = true
			return s.opts.Note.Record(tx, "agent.hibernating", by(ctx))
		})
	})
}

func (s *Service) wake(ctx context.Context, words []string) ([]byte, error) {
	if err := alone(words); err != nil {
		return nil, err
	}
	return nil, s.st.Update(ctx, func(tx store.Store) error {
		err := s.change(ctx, tx, func(r *record) error {
			r.Asleep, r.Broken, r.GivenUp = false, "", 0
			in := store.In(tx, s.st)
			for p, err := range store.All(ctx, store.Forgiving(in), retries) { // what failed need not wait, and has all its attempts again
				again, lerr := loadRetry(ctx, in, p.Key)
				if err = errors.Join(err, lerr); err != nil {
					return err
				}
				again.Tries, again.NotBefore, again.Full = 0, 0, false
				if err := store.PutJSON(ctx, in, p.Key, again); err != nil {
					return err
				}
			}
			return s.opts.Note.Record(tx, "agent.awake", by(ctx))
		})
		if err != nil {
			return err
		}
		return s.plan(ctx, tx, false)
	})
}

func by(ctx context.Context) any {
	return struct {
		By fsys.Caller `json:"by,omitempty"`
	}{fsys.CallerOf(ctx)}
}

// Alarms returns what ctl says of the alarms, a line each.
func (s *Service) Alarms(ctx context.Context) ([]byte, error) {
	list, err := s.loadAlarms(ctx, s.st)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for _, a := range list {
		when := a.Cron
		if when == "" {
			when = "once"
		}
		fmt.Fprintf(&b, "# alarm %s\t%s\t%s\t%s\n", a.ID, fsys.Stamp(a.due()), when, a.Text)
	}
	return []byte(b.String()), nil
}
