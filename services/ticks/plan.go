package ticks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"agent9/fsys"
	"agent9/providers/programs"
	"agent9/store"
)

// Due is when an agent has something to do: now, at a time, or never, which is
// the zero value.
type Due struct {
	Ready bool
	At    time.Time
	// Last says that the agent has had its turn, and is to be the last of
	// those that are ready.
	Last bool

	taken bool // a message waits, but somebody has taken it
}

func (d *Due) at(t time.Time) {
	if d.At.IsZero() || t.Before(d.At) {
		d.At = t
	}
}

// heldAgain is when a message that somebody else has taken is looked at again.
const heldAgain = 5 * time.Second

// plan tells the daemon what is due, as it is in a transaction.
func (s *Service) plan(ctx context.Context, tx store.Store, last bool) error {
	if err := s.resetAlarms(ctx, store.In(tx, s.st)); err != nil {
		return err
	}
	d, err := s.due(ctx, tx)
	if err != nil {
		return err
	}
	d.Last = last
	return s.opts.Due(ctx, tx, d)
}

// due returns what is due in a transaction, or, if tx is nil, in none.
func (s *Service) due(ctx context.Context, tx store.Store) (d Due, err error) {
	var in store.Store = s.st
	if tx != nil {
		in = store.In(tx, s.st)
	}
	mode, err := load[Mode](ctx, in, modeKey)
	if err != nil || !mode.Program || mode.Stopped {
		return d, err
	}
	if r, err := loadRecord(ctx, in); err != nil || r.Broken != "" {
		return d, err
	}
	held, err := s.held(ctx, in)
	if err != nil {
		return d, err
	}
	for _, until := range held.until {
		d.at(until)
	}
	for p, err := range store.All(ctx, store.Forgiving(in), orders) {
		if err != nil {
			return d, err
		}
		d.Ready = d.Ready || !held.has(p.Key)
	}
	list, err := s.loadAlarms(ctx, in)
	if err != nil {
		return d, err
	}
	now := s.opts.Now()
	for _, a := range list {
		switch {
		case a.due().After(now):
			d.at(a.due())
		case !held.has(a.key()):
			d.Ready = true
		}
	}
	if !mode.Messages || d.Ready {
		return d, nil
	}
	free, taken, err := s.opts.Mail.Waiting(ctx, tx, held.from())
	d.Ready, d.taken = free, taken
	if taken {
		d.at(now.Add(heldAgain))
	}
	return d, err
}

// held is the triggers that have to wait, because their ticks failed.
type held struct {
	until   map[string]time.Time
	senders map[fsys.Caller]bool
}

func (h held) has(key string) bool { _, ok := h.until[key]; return ok }

// from returns what names the senders whose messages wait; nil for none.
func (h held) from() func(fsys.Caller) bool {
	if len(h.senders) == 0 {
		return nil
	}
	return func(from fsys.Caller) bool { return h.senders[from] }
}

// held reads the retries whose time has not come. One that is further away
// than any can be was set by a clock that has been set back since.
func (s *Service) held(ctx context.Context, in store.Store) (held, error) {
	h := held{map[string]time.Time{}, map[fsys.Caller]bool{}}
	now := s.opts.Now()
	for p, err := range store.All(ctx, store.Forgiving(in), retries) {
		if err != nil {
			return h, err
		}
		r, err := loadRetry(ctx, in, p.Key)
		if err != nil {
			return h, err
		}
		until := time.UnixMilli(r.NotBefore)
		if !until.After(now) || until.Sub(now) > s.opts.Settings().MaxBackoff+time.Minute {
			continue
		}
		key := strings.TrimPrefix(p.Key, retries)
		h.until[key] = until
		if strings.HasPrefix(key, letters) {
			h.senders[r.From] = true
		}
	}
	return h, nil
}

// Mode returns what decides whether something is due.
func (s *Service) Mode(ctx context.Context) (Mode, error) { return load[Mode](ctx, s.st, modeKey) }

// Configured is told, in its transaction, what config says now. An agent that
// had failed gets another chance.
func (s *Service) Configured(ctx context.Context, tx store.Store, program, messages bool, watch []string) error {
	return s.switched(ctx, tx, func(m *Mode) { m.Program, m.Messages, m.Watch = program, messages && program, watch })
}

// Stopped is told, in its transaction, that the agent is stopped or started.
func (s *Service) Stopped(ctx context.Context, tx store.Store, stopped bool) error {
	return s.switched(ctx, tx, func(m *Mode) { m.Stopped = stopped })
}

func (s *Service) switched(ctx context.Context, tx store.Store, f func(*Mode)) error {
	in := store.In(tx, s.st)
	mode, err := load[Mode](ctx, in, modeKey)
	if err != nil {
		return err
	}
	f(&mode)
	if err := store.PutJSON(ctx, in, modeKey, mode); err != nil {
		return err
	}
	if !mode.Stopped {
		err = s.change(ctx, tx, func(r *record) error {
			r.Broken, r.GivenUp = "", 0
			return nil
		})
	}
	if err != nil {
		return err
	}
	return s.Freed(ctx, tx) // the limit of deadletter may be another
}

// Freed is told, in its transaction, that there may be room in deadletter: what
// waits for that is tried again now.
func (s *Service) Freed(ctx context.Context, tx store.Store) error {
	in := store.In(tx, s.st)
	for p, err := range store.All(ctx, store.Forgiving(in), retries+letters) {
		if err != nil {
			return err
		}
		t, err := loadRetry(ctx, in, p.Key)
		if err != nil {
			return err
		}
		if !t.Full {
			continue
		}
		t.Full, t.NotBefore = false, 0
		if err := store.PutJSON(ctx, in, p.Key, t); err != nil {
			return err
		}
	}
	return s.plan(ctx, tx, false)
}

// Arrived is told, in its transaction, that a message has come.
func (s *Service) Arrived(ctx context.Context, tx store.Store) error {
	in := store.In(tx, s.st)
	r, err := loadRecord(ctx, in)
	if err != nil {
		return err
	}
	if r.Asleep {
		r.Asleep = false
		if err := store.PutJSON(ctx, in, recordKey, r); err != nil {
			return err
		}
	}
	mode, err := load[Mode](ctx, in, modeKey)
	if err != nil || !mode.Messages || mode.Stopped || r.Broken != "" {
		return err
	}
	return s.opts.Due(ctx, tx, Due{Ready: true})
}

type ownKey struct{}

// Own returns a context in which changes are those of a tick, which do not
// set off another one.
func Own(ctx context.Context) context.Context { return context.WithValue(ctx, ownKey{}, true) }

// Changed is told, in its transaction, that the file at path has been changed.
// Until a tick begins for it, further changes of it are one with it.
func (s *Service) Changed(ctx context.Context, tx store.Store, path string) error {
	if ctx.Value(ownKey{}) != nil {
		return nil
	}
	in := store.In(tx, s.st)
	mode, err := load[Mode](ctx, in, modeKey)
	if err != nil {
		return err
	}
	watched := watches(mode.Watch, path)
	if watched == "" {
		return nil
	}
	o := order{Cause: programs.Watch, Path: path, By: fsys.CallerOf(ctx)}
	err = s.add(ctx, tx, o)
	if err == nil || fsys.CodeOf(err) != fsys.Busy {
		return err
	}
	o.Path = watched // so many changes at once are one of all that is watched
	return s.add(ctx, tx, o)
}

// watches returns which of list a change of path is one of, or "".
func watches(list []string, path string) string {
	for _, w := range list {
		if path == w || strings.HasPrefix(path, strings.TrimSuffix(w, "/")+"/") {
			return w
		}
	}
	return ""
}

// add stores an order, unless it is one with an order that waits.
func (s *Service) add(ctx context.Context, tx store.Store, o order) error {
	in := store.In(tx, s.st)
	return s.change(ctx, tx, func(r *record) error {
		mode, err := load[Mode](ctx, in, modeKey)
		if err != nil {
			return err
		}
		n := 0
		for p, err := range store.All(ctx, store.Forgiving(in), orders) {
			if err != nil {
				return err
			}
			other, err := load[order](ctx, store.Forgiving(in), p.Key)
			if err != nil && !store.IsDamaged(err) {
				return err
			}
			if o.Path != "" && other.Path == o.Path && (r.Running == nil || r.Running.Key != p.Key) {
				return nil
			}
			n++
		}
		if n >= maxOrders && !slices.Contains(mode.Watch, o.Path) {
			return fsys.E(fsys.Busy, fmt.Sprintf("%d ticks that were asked for wait already", n))
		}
		r.Order++
		r.Asleep = false
		if err := store.PutJSON(ctx, in, orderKey(r.Order), o); err != nil {
			return err
		}
		if !mode.Program || mode.Stopped || r.Broken != "" {
			return nil
		}
		return s.opts.Due(ctx, tx, Due{Ready: true})
	})
}
