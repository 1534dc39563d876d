package ticks_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agent9/fsys"
	"agent9/services/internal/wall"
	"agent9/services/ticks"
	"agent9/store"
	"agent9/store/mem"
)

// A clock is set by the test.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = t
}

type desk struct {
	*testing.T
	st *mem.DB
	s  *ticks.Schedule
	clock
	began chan string
	due   chan ticks.Due // what is due after the work
}

func newDesk(t *testing.T, most int) *desk {
	d := &desk{T: t, st: mem.New(), began: make(chan string, 1000), due: make(chan ticks.Due)}
	d.now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	d.open(most)
	return d
}

func (d *desk) open(most int) {
	var err error
	if d.s, err = ticks.NewSchedule(d.Context(), d.st, d.Now, most); err != nil {
		d.Fatal(err)
	}
}

func (d *desk) start() {
	d.s.Start(d.Context(), func(ctx context.Context, agent string) error {
		d.began <- agent
		select {
		case due := <-d.due:
			return d.st.Update(context.WithoutCancel(ctx), func(tx store.Store) error { return d.s.Set(ctx, tx, agent, due) })
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	d.Cleanup(func() { d.s.Close(context.Background()) })
}

func (d *desk) set(agent string, due ticks.Due) {
	d.Helper()
	if err := d.st.Update(d.Context(), func(tx store.Store) error { return d.s.Set(d.Context(), tx, agent, due) }); err != nil {
		d.Fatal(err)
	}
}

func (d *desk) next() string {
	d.Helper()
	select {
	case agent := <-d.began:
		return agent
	case <-time.After(90 * time.Second):
		d.Fatal("nothing begins")
		return ""
	}
}

func TestReadyInTheirOrder(t *testing.T) {
	d := newDesk(t, 1)
	for _, name := range []string{"c", "a", "b", "c", "a"} {
		d.set(name, ticks.Due{Ready: true})
	}
	d.start()
	var got []string
	for i := range 6 {
		got = append(got, d.next())
		d.due <- ticks.Due{Ready: i < 3, Last: true} // each has more, once
	}
	if want := []string{"c", "a", "b", "c", "a", "b"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestNoMoreThanMost(t *testing.T) {
	d := newDesk(t, 3)
	for i := range 10 {
		d.set(fmt.Sprint(i), ticks.Due{Ready: true})
	}
	d.start()
	for range 3 {
		d.next()
	}
	for range 7 {
		if n := d.s.Running(); n != 3 || len(d.began) > 0 {
			t.Fatalf("%d run, and %d more began", n, len(d.began))
		}
		d.due <- ticks.Due{}
		d.next()
	}
}

// What is due at a time is found when it has come, by a schedule that begins
// then, and, if the clock is set back, looked at again.
func TestTimes(t *testing.T) {
	d := newDesk(t, 1)
	t0 := d.Now()
	d.set("a", ticks.Due{At: t0.Add(time.Hour)})
	d.set("b", ticks.Due{At: t0.Add(time.Minute)})
	d.set("never", ticks.Due{At: t0.Add(time.Minute)})
	d.set("never", ticks.Due{})
	d.clock.set(t0.Add(2 * time.Hour))
	d.open(1)
	d.start()
	got := d.next()
	d.due <- ticks.Due{}
	got += d.next()
	d.due <- ticks.Due{At: t0.Add(24 * time.Hour)}
	if got != "ba" {
		t.Errorf("got %s", got)
	}
	d.set("after it", ticks.Due{Ready: true})
	d.next()        // so a's is stored
	d.clock.set(t0) // back
	d.due <- ticks.Due{}
	if got := d.next(); got != "a" {
		t.Errorf("after the clock was set back: %s", got)
	}
	d.due <- ticks.Due{}
}

func TestWorkThatFailsWaits(t *testing.T) {
	d := newDesk(t, 1)
	d.set("gone", ticks.Due{Ready: true})
	d.set("bad", ticks.Due{Ready: true})
	d.set("good", ticks.Due{Ready: true})
	var tried []string
	done := make(chan struct{})
	d.s.Start(d.Context(), func(ctx context.Context, agent string) error {
		tried = append(tried, agent)
		switch agent {
		case "gone":
			return fsys.NotExist
		case "bad":
			return errors.New("on purpose, by a test")
		}
		close(done)
		return d.st.Update(ctx, func(tx store.Store) error { return d.s.Set(ctx, tx, agent, ticks.Due{}) })
	})
	<-done
	if err := d.s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := []string{"gone", "bad", "good"}; !slices.Equal(tried, want) {
		t.Errorf("got %v, want %v", tried, want)
	}
	if _, err := d.st.Get(t.Context(), "of/gone"); fsys.CodeOf(err) != fsys.NotExist {
		t.Error("what is due of an agent that is gone was kept")
	}
}

// Go measures the time between two readings of the clock by another clock, which
// nobody sets; it must not hide that the one was set back.
func TestClockSetBackIsSeen(t *testing.T) {
	var c wall.Clock
	d := &desk{T: t, st: mem.New(), began: make(chan string, 10), due: make(chan ticks.Due)}
	var err error
	if d.s, err = ticks.NewSchedule(t.Context(), d.st, c.Now, 2); err != nil {
		t.Fatal(err)
	}
	d.start()
	d.set("later", ticks.Due{At: c.Now().Add(time.Hour)})
	d.set("now", ticks.Due{Ready: true})
	if got := d.next(); got != "now" {
		t.Fatalf("%s began", got)
	}
	c.Set(-24 * time.Hour)
	d.due <- ticks.Due{} // and the schedule looks at the clock
	if got := d.next(); got != "later" {
		t.Errorf("%s began", got)
	}
	d.due <- ticks.Due{}
}

// A clock that is set is noticed while the schedule sleeps, within the time that
// it sleeps at most, and when it begins.
func TestSetClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c wall.Clock
		st := mem.New()
		began := make(chan string, 10)
		var s *ticks.Schedule
		due := func(at time.Duration) {
			t.Helper()
			err := st.Update(t.Context(), func(tx store.Store) error {
				return s.Set(t.Context(), tx, "a", ticks.Due{At: c.Now().Add(at)})
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		start := func() {
			var err error
			if s, err = ticks.NewSchedule(t.Context(), st, c.Now, 1); err != nil {
				t.Fatal(err)
			}
			s.Start(t.Context(), func(ctx context.Context, agent string) error {
				began <- agent
				return st.Update(ctx, func(tx store.Store) error { return s.Set(ctx, tx, agent, ticks.Due{}) })
			})
		}
		looks := func(what string, want int) {
			t.Helper()
			<-time.After(time.Minute)
			synctest.Wait()
			if len(began) != want {
				t.Errorf("%s: it was looked at %d times, want %d", what, len(began), want)
			}
			for range len(began) {
				<-began
			}
		}
		start()
		due(time.Hour)
		looks("before its time", 0)
		c.Set(time.Hour)
		looks("the clock was set forward", 1)
		due(time.Hour)
		looks("before its time", 0)
		c.Set(-24 * time.Hour)
		looks("the clock was set back", 1)

		due(time.Hour)
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.Set(-24 * time.Hour)
		start()
		looks("the clock was set back while nobody looked", 1)
		due(time.Hour)
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		start()
		looks("a start", 0)
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
