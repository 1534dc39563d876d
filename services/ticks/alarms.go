package ticks

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"agent9/fsys"
	"agent9/store"
)

// An alarm sets off a tick at a time, once, or again and again.
type alarm struct {
	ID   string      `json:"id"`
	Cron string      `json:"cron,omitempty"` // with its time zone; empty: once
	Next int64       `json:"next"`           // milliseconds since 1970
	Rung []span      `json:"rung,omitempty"` // when, the latest last
	Text string      `json:"text,omitempty"`
	By   fsys.Caller `json:"by,omitempty"`
}

// maxAlarms is how many alarms an agent has at most.
const maxAlarms = 256

func alarmKey(id string) string { return alarms + id }

func (a *alarm) key() string    { return alarmKey(a.ID) }
func (a *alarm) due() time.Time { return time.UnixMilli(a.Next) }

const wantAlarm = "want alarm WHEN [TEXT]; WHEN is +5m, a time as 2026-01-31T08:00:00Z, @daily and the like, @every 1h, or the five fields of cron, with TZ=Europe/Berlin before them for another zone than UTC"

// parseAlarm reads WHEN [TEXT].
func parseAlarm(words []string, now time.Time) (alarm, error) {
	if len(words) == 0 {
		return alarm{}, fsys.E(fsys.Invalid, wantAlarm)
	}
	first := words[0]
	if strings.HasPrefix(first, "+") {
		d, err := time.ParseDuration(first[1:])
		if err != nil || d < 0 {
			return alarm{}, fsys.E(fsys.Invalid, fmt.Sprintf("%.80s is no time from now; such are +90s, +5m, +36h", first))
		}
		return alarm{Next: now.Add(d).UnixMilli(), Text: strings.Join(words[1:], " ")}, nil
	}
	if t, err := time.Parse(time.RFC3339, first); err == nil {
		return alarm{Next: t.UnixMilli(), Text: strings.Join(words[1:], " ")}, nil
	}
	n := fieldsOf(words)
	if n > len(words) {
		return alarm{}, fsys.E(fsys.Invalid, wantAlarm)
	}
	spec := strings.Trim(strings.Join(words[:n], " "), `"'`)
	if !strings.HasPrefix(spec, "TZ=") && !strings.HasPrefix(spec, "CRON_TZ=") {
		spec = "TZ=UTC " + spec
	}
	schedule, err := cron.ParseStandard(spec)
	if err != nil {
		return alarm{}, fsys.E(fsys.Invalid, fmt.Sprintf("%.200s; %s", err, wantAlarm))
	}
	next := schedule.Next(now)
	if next.IsZero() {
		return alarm{}, fsys.E(fsys.Invalid, fmt.Sprintf("%.80s never comes", spec))
	}
	return alarm{Cron: spec, Next: next.UnixMilli(), Text: strings.Join(words[n:], " ")}, nil
}

// fieldsOf returns how many words a schedule at the beginning of words has.
func fieldsOf(words []string) int {
	n, first := 5, words[0]
	bare := strings.TrimLeft(first, `"'`)
	if strings.HasPrefix(bare, "TZ=") || strings.HasPrefix(bare, "CRON_TZ=") {
		if n++; len(words) > 1 {
			first = words[1]
		}
	}
	switch bare = strings.Trim(first, `"'`); {
	case bare == "@every":
		return n - 3
	case strings.HasPrefix(bare, "@"):
		return n - 4
	}
	return n
}

// A span is times of an alarm by cron at all of which it rang: the first, the
// last, and those between them.
type span struct {
	From int64 `json:"from"` // milliseconds since 1970
	To   int64 `json:"to"`
}

func (p span) has(t time.Time) bool { return p.From <= t.UnixMilli() && t.UnixMilli() <= p.To }

const (
	// maxSpans is how many spans are remembered: one more begins when the clock
	// is set forward beyond a time of the alarm, or the daemon does not run then.
	maxSpans = 16
	// farAhead is how far ahead a span counts: beyond it the clock was wrong.
	farAhead = 7 * 24 * time.Hour
)

func (a *alarm) schedule() (cron.Schedule, error) {
	schedule, err := cron.ParseStandard(a.Cron)
	return schedule, fsys.Wrap(fsys.Internal, "the stored alarm "+a.ID, err)
}

// ring notes that a has rung at its time.
func (a *alarm) ring() error {
	schedule, err := a.schedule()
	if err != nil {
		return err
	}
	if last := len(a.Rung) - 1; last >= 0 && schedule.Next(time.UnixMilli(a.Rung[last].To)).Equal(a.due()) {
		a.Rung[last].To = a.Next
		return nil
	}
	far := a.due().Add(farAhead).UnixMilli()
	a.Rung = append(slices.DeleteFunc(a.Rung, func(p span) bool { return p.From > far }), span{a.Next, a.Next})
	a.Rung = a.Rung[max(len(a.Rung)-maxSpans, 0):]
	return nil
}

// after returns a cron alarm's next time; the zero time if there is none. What
// was missed is not made up for. A time at which it has rung does not come again
// if the clock is set back; one that was skipped when the clock was set forward
// does come. With @every there are no times, but a pause, which begins now.
func (a *alarm) after(now time.Time) (time.Time, error) {
	schedule, err := a.schedule()
	if err != nil {
		return time.Time{}, err
	}
	next := schedule.Next(now)
	if _, pause := schedule.(cron.ConstantDelaySchedule); pause {
		return next, nil
	}
	for {
		i := slices.IndexFunc(a.Rung, func(p span) bool { return p.has(next) })
		if i < 0 || next.IsZero() {
			return next, nil
		}
		next = schedule.Next(time.UnixMilli(a.Rung[i].To))
	}
}

// loadAlarms returns all alarms.
func (s *Service) loadAlarms(ctx context.Context, in store.Store) ([]alarm, error) {
	var list []alarm
	for p, err := range store.All(ctx, store.Forgiving(in), alarms) {
		if err != nil {
			return nil, err
		}
		if p.Value == nil {
			continue // agentd fsck names it, and cancel removes it
		}
		var a alarm
		if err := json.Unmarshal(p.Value, &a); err != nil {
			return nil, fsys.Wrap(fsys.Internal, "the stored alarm "+p.Key, err)
		}
		list = append(list, a)
	}
	return list, nil
}

// resetAlarms gives alarms by cron their next time anew that is further away than
// it can be, because the clock has been set back.
func (s *Service) resetAlarms(ctx context.Context, in store.Store) error {
	list, err := s.loadAlarms(ctx, in)
	if err != nil {
		return err
	}
	now := s.opts.Now()
	for _, a := range list {
		if a.Cron == "" || !a.due().After(now) {
			continue
		}
		next, err := a.after(now)
		if err != nil {
			return err
		}
		if next.IsZero() || !next.Before(a.due()) {
			continue
		}
		a.Next = next.UnixMilli()
		if err := store.PutJSON(ctx, in, a.key(), a); err != nil {
			return err
		}
	}
	return nil
}

// rang moves an alarm that had its tick to its next time, or takes it away.
func (s *Service) rang(ctx context.Context, tx store.Store, a alarm) error {
	in := store.In(tx, s.st)
	if _, err := in.Get(ctx, a.key()); err != nil {
		if fsys.CodeOf(err) == fsys.NotExist {
			return nil // it was cancelled meanwhile
		}
		return err
	}
	if a.Cron == "" {
		return in.Delete(ctx, a.key())
	}
	if err := a.ring(); err != nil {
		return err
	}
	next, err := a.after(s.opts.Now())
	if err != nil {
		return err
	}
	if next.IsZero() {
		return in.Delete(ctx, a.key())
	}
	a.Next = next.UnixMilli()
	return store.PutJSON(ctx, in, a.key(), a)
}

// newAlarm returns the alarm that words ask for, with an id of its own.
func (s *Service) newAlarm(ctx context.Context, words []string) (alarm, error) {
	a, err := parseAlarm(words, s.opts.Now())
	if err != nil {
		return a, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alarms++
	a.ID = strconv.FormatUint(s.alarms, 10)
	a.By = fsys.CallerOf(ctx)
	return a, nil
}

type alarmNote struct {
	ID   string      `json:"id"`
	Next string      `json:"next,omitempty"`
	Cron string      `json:"cron,omitempty"`
	Text string      `json:"text,omitempty"`
	By   fsys.Caller `json:"by,omitempty"`
}

// put stores an alarm, in a change of the record r.
func (s *Service) put(ctx context.Context, tx store.Store, r *record, a alarm) error {
	in := store.In(tx, s.st)
	list, err := s.loadAlarms(ctx, in)
	if err != nil {
		return err
	}
	if len(list) >= maxAlarms {
		return fsys.E(fsys.Busy, fmt.Sprintf("there are %d alarms already; cancel some", len(list)))
	}
	n, _ := strconv.ParseUint(a.ID, 10, 64)
	r.Alarm = max(r.Alarm, n)
	if err := store.PutJSON(ctx, in, a.key(), a); err != nil {
		return err
	}
	return s.opts.Note.Record(tx, "alarm.set", alarmNote{a.ID, fsys.Stamp(a.due()), a.Cron, a.Text, a.By})
}

// drop cancels an alarm; NotExist if there is none.
func (s *Service) drop(ctx context.Context, tx store.Store, id string) error {
	in := store.In(tx, s.st)
	if _, err := store.Forgiving(in).Get(ctx, alarmKey(id)); err != nil && !store.IsDamaged(err) {
		return noAlarm(id, err)
	}
	for _, key := range []string{alarmKey(id), retries + alarmKey(id)} {
		if err := in.Delete(ctx, key); err != nil {
			return err
		}
	}
	return s.opts.Note.Record(tx, "alarm.cancelled", alarmNote{ID: id, By: fsys.CallerOf(ctx)})
}

func noAlarm(id string, err error) error {
	if fsys.CodeOf(err) == fsys.NotExist {
		return fsys.E(fsys.NotExist, "there is no alarm "+id)
	}
	return err
}
