package due_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agent9/store/due"
)

// clock is a clock that can be set.
type clock struct{ by atomic.Int64 }

func (c *clock) now() time.Time {
	return time.Now().Round(0).Add(time.Duration(c.by.Load()))
}

func (c *clock) set(by time.Duration) { c.by.Add(int64(by)) }

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// timer calls, until the time that is due has come, when the clock says.
func timer(t *testing.T, c *clock, at time.Time) (tm *due.Timer, done *atomic.Bool) {
	done = new(atomic.Bool)
	tm = due.New(c.now, func(context.Context) time.Time {
		if c.now().Before(at) {
			return at
		}
		done.Store(true)
		return time.Time{}
	})
	tm.At(at)
	tm.Start(t.Context())
	return tm, done
}

func TestATimerCallsOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := new(clock)
		_, done := timer(t, c, c.now().Add(time.Hour))
		pass(time.Hour - time.Millisecond)
		if done.Load() {
			t.Fatal("it called before the time")
		}
		pass(time.Millisecond)
		if !done.Load() {
			t.Fatal("it did not call at the time")
		}
	})
}

func TestATimerFollowsAClockThatIsSet(t *testing.T) {
	for _, tt := range []struct {
		name   string
		set    time.Duration
		early  time.Duration // it must not have called then
		latest time.Duration // nor may it be later
	}{
		{"forwards, beyond the time", 2 * time.Hour, 0, due.Recheck},
		{"forwards, or the machine slept", 30 * time.Minute, 30*time.Minute - 1, 30 * time.Minute},
		{"backwards", -time.Hour, 2*time.Hour - 1, 2 * time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := new(clock)
				_, done := timer(t, c, c.now().Add(time.Hour))
				c.set(tt.set)
				pass(tt.early)
				if done.Load() {
					t.Fatalf("it called %v after the clock was set", tt.early)
				}
				pass(tt.latest - tt.early)
				if !done.Load() {
					t.Fatalf("it had not called %v after the clock was set", tt.latest)
				}
			})
		})
	}
}

func TestAnEarlierTimeDuringACallIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, calls := make(chan struct{}), new(atomic.Int32)
		tm := due.New(time.Now, func(context.Context) time.Time {
			if calls.Add(1) == 1 {
				close(begun)
				time.Sleep(time.Second)
				return time.Now().Add(time.Hour)
			}
			return time.Time{}
		})
		tm.At(time.Now())
		tm.Start(t.Context())
		<-begun
		tm.At(time.Now())
		pass(time.Second)
		if n := calls.Load(); n != 2 {
			t.Fatalf("it called %d times", n)
		}
	})
}

func TestATimerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		calls, over := new(atomic.Int32), new(atomic.Bool)
		tm := due.New(time.Now, func(ctx context.Context) time.Time {
			calls.Add(1)
			<-ctx.Done()
			time.Sleep(time.Second)
			over.Store(true)
			return time.Now()
		})
		tm.At(time.Now())
		time.AfterFunc(time.Second, cancel)
		tm.Run(ctx)
		if !over.Load() {
			t.Error("Run returned while a call was running")
		}
		tm.At(time.Now())
		pass(time.Hour)
		if n := calls.Load(); n != 1 {
			t.Errorf("it called %d times", n)
		}
	})
}
