package ticks

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"agent9/fsys"
	"agent9/store"
)

// Staged is what a tick has asked of its agent, to be done when it is
// committed: alarms that it sets and cancels.
type Staged struct {
	s *Service

	mu     sync.Mutex
	asked  []asked
	closed bool
}

// asked is an alarm to set, or the id of one to cancel.
type asked struct {
	alarm  alarm
	by     fsys.Caller
	cancel string
}

func (s *Service) stage() *Staged { return &Staged{s: s} }

// Verbs returns the commands that wait for the end of the tick.
func (g *Staged) Verbs() []Verb {
	return []Verb{{Name: "alarm", Do: g.set}, {Name: "cancel", Do: g.cancel}}
}

func (g *Staged) set(ctx context.Context, words []string) ([]byte, error) {
	a, err := g.s.newAlarm(ctx, words)
	if err != nil {
		return nil, err
	}
	return []byte(a.ID + "\n"), g.add(asked{alarm: a})
}

func (g *Staged) cancel(ctx context.Context, words []string) ([]byte, error) {
	id, err := oneID(words)
	if err != nil {
		return nil, err
	}
	if _, err := g.s.st.Get(ctx, alarmKey(id)); err != nil && !g.has(id) {
		return nil, noAlarm(id, err)
	}
	return nil, g.add(asked{cancel: id, by: fsys.CallerOf(ctx)})
}

func (g *Staged) has(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(g.asked, func(a asked) bool { return a.alarm.ID == id })
}

func (g *Staged) add(a asked) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return fsys.E(fsys.Unavailable, "the tick that this was part of is over")
	case len(g.asked) >= 2*maxAlarms:
		return fsys.E(fsys.TooLarge, fmt.Sprintf("a tick sets and cancels at most %d alarms", len(g.asked)))
	}
	g.asked = append(g.asked, a)
	return nil
}

// commit does what was asked, in a change of the record r.
func (g *Staged) commit(ctx context.Context, tx store.Store, r *record) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for _, a := range g.asked {
		var err error
		if a.cancel == "" {
			err = g.s.put(ctx, tx, r, a.alarm)
		} else if err = g.s.drop(fsys.WithCaller(ctx, a.by), tx, a.cancel); err != nil && fsys.CodeOf(err) == fsys.NotExist {
			err = nil // it has been cancelled since
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (g *Staged) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}
