package ticks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/providers/programs"
	"agent9/services/ticks"
	"agent9/store"
	"agent9/store/mem"
)

// A lone agent has one message, no files, and a program that is the test's.
type lone struct {
	*testing.T
	st      *mem.DB
	s       *ticks.Service
	run     func(ctx context.Context) error
	opening func()
	commits int

	mu      sync.Mutex
	waiting bool // the message
	taken   bool
	due     ticks.Due // as it was told last
	lines   []ticks.Line
}

func newLone(t *testing.T) *lone {
	l := &lone{T: t, st: mem.New(), waiting: true, opening: func() {}}
	nothing := func(store.Store, string) error { return nil }
	var err error
	l.s, err = ticks.Open(t.Context(), l.st, ticks.Options{
		Name: "alice", Now: time.Now, Mail: l, Room: func() (ticks.Room, error) { l.opening(); return l, nil },
		Settings: func() ticks.Settings {
			return ticks.Settings{Program: l, Timeout: time.Hour, Retries: 3, Backoff: time.Nanosecond, MaxBackoff: time.Nanosecond, Output: 1000}
		},
		Due: func(_ context.Context, tx store.Store, d ticks.Due) error {
			store.After(tx, func() { l.due = d })
			return nil
		},
		Begun: nothing, Cost: func(context.Context) (int64, error) { return 0, nil },
		Record: func(tx store.Store, line ticks.Line) error {
			store.After(tx, func() { l.lines = append(l.lines, line) })
			return nil
		},
		Note: func(store.Store, string, any) error { return nil },
	})
	if err == nil {
		err = l.st.Update(t.Context(), func(tx store.Store) error { return l.s.Configured(t.Context(), tx, true, true, nil) })
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// As a program.

func (l *lone) Run(ctx context.Context, _ programs.Trigger, _ programs.Env) (programs.Outcome, error) {
	return programs.Outcome{}, l.run(ctx)
}

// As a room.

func (l *lone) Open(context.Context, programs.Trigger, *ticks.Staged) (programs.Env, error) {
	return programs.Env{}, nil
}

func (l *lone) Commit(_ context.Context, tx store.Store) error {
	store.After(tx, func() { l.commits++ })
	return nil
}

func (l *lone) Close() {}

// As mail.

func (l *lone) Take(_ context.Context, skip func(fsys.Caller) bool) (*ticks.Letter, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.waiting || l.taken || skip != nil && skip("bob") {
		return nil, nil
	}
	l.taken = true
	return &ticks.Letter{
		ID: "m", From: "bob", JSON: json.RawMessage(`{}`), Done: l.done,
		Bury:    func(ctx context.Context, tx store.Store, _ string) error { return l.done(ctx, tx) },
		Release: func() { l.set(func() { l.taken = false }) },
	}, nil
}

func (l *lone) done(context.Context, store.Store) error {
	l.set(func() { l.waiting = false })
	return nil
}

func (l *lone) set(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

func (l *lone) Waiting(_ context.Context, _ store.Store, skip func(fsys.Caller) bool) (free, taken bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	waits := l.waiting && (skip == nil || !skip("bob"))
	return waits && !l.taken, waits && l.taken, nil
}

func (l *lone) Has(context.Context, store.Store, string) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting, nil
}

func (l *lone) work(ctx context.Context, outcome string) {
	l.Helper()
	if err := l.s.Work(ctx); err != nil {
		l.Fatal(err)
	}
	if n := len(l.lines); n == 0 || l.lines[n-1].Outcome != outcome {
		l.Errorf("the ticks are %+v, want the last to be %s", l.lines, outcome)
	}
}

// A message whose tick was cut off, or failed, is due again at once: by
// itself, it does not wait as one does that somebody else has taken.
func TestMessageIsDueAfterItsTick(t *testing.T) {
	l := newLone(t)
	ctx, end := context.WithCancel(t.Context())
	l.run = func(ctx context.Context) error {
		end()
		<-ctx.Done()
		return context.Cause(ctx)
	}
	l.work(ctx, "interrupted")
	if !l.due.Ready {
		t.Errorf("after it was interrupted, what is due is %+v", l.due)
	}
	l.run = func(context.Context) error { return errors.New("on purpose") }
	l.work(t.Context(), "failed")
	if !l.due.Ready && l.due.At.After(time.Now().Add(time.Second)) {
		t.Errorf("after it failed, what is due is %+v", l.due)
	}
	l.run = func(context.Context) error { return nil }
	l.work(t.Context(), "done")
	if l.due.Ready || !l.due.At.IsZero() {
		t.Errorf("after it was done, what is due is %+v", l.due)
	}
}

// From when its message is taken, to when the tick is recorded, the agent has
// something to do.
func TestAboutToBegin(t *testing.T) {
	l := newLone(t)
	looked := 0
	look := func() {
		looked++
		sum, err := l.s.Summary(t.Context())
		if err != nil || !sum.Pending && sum.Running == "" {
			t.Errorf("%+v, %v", sum, err)
		}
	}
	l.opening = look
	l.run = func(context.Context) error { look(); return nil }
	l.work(t.Context(), "done")
	if sum, err := l.s.Summary(t.Context()); err != nil || sum.Pending || looked != 2 {
		t.Errorf("%+v, %v, after %d looks", sum, err, looked)
	}
}

// What a program did that had ended well is kept, although its agent is being
// stopped.
func TestStopDuringTheCommit(t *testing.T) {
	l := newLone(t)
	l.run = func(ctx context.Context) error {
		err := l.st.Update(t.Context(), func(tx store.Store) error { return l.s.Stopped(t.Context(), tx, true) })
		l.s.Cut()
		<-ctx.Done()
		return err
	}
	l.work(t.Context(), "done")
	if l.commits != 1 || l.waiting {
		t.Errorf("%d commits; the message waits: %v", l.commits, l.waiting)
	}
	l.set(func() { l.waiting = true })
	if err := l.s.Work(t.Context()); err != nil || len(l.lines) != 1 {
		t.Errorf("%v; a stopped agent had the ticks %s", err, fmt.Sprint(l.lines))
	}
}
