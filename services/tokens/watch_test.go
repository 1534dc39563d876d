package tokens

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agent9/fsys"
	"agent9/store/due"
	"agent9/store/faulty"
	"agent9/store/mem"
)

// A wall is a clock that a test sets, beside the time of the bubble, which
// only goes on.
type wall struct{ off atomic.Int64 }

func (w *wall) now() time.Time { return time.Now().Add(time.Duration(w.off.Load())).Round(0) }

func (w *wall) set(by time.Duration) { w.off.Add(int64(by)) }

// A token that has expired stays so, if the clock is set back then: whether
// somebody asked for it, or nobody did.
func TestClockSetBackAfterExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w wall
		st := mem.New()
		tk := watched(t, st, Options{Now: w.now})
		issueFor := func(life time.Duration) string {
			g := grant(t, "alice", "rw", 0)
			g.Expires = w.now().Add(life)
			secret, _ := issue(t, tk, g)
			return secret
		}
		asked, unasked, week := issueFor(time.Hour), issueFor(time.Hour), issueFor(7*24*time.Hour)
		_, done := lookup(t, t.Context(), tk, unasked)
		_, goesOn := lookup(t, t.Context(), tk, week)
		w.set(24 * time.Hour)
		if _, _, err := tk.Lookup(t.Context(), asked); err != Unknown {
			t.Errorf("after a day: %v, want Unknown", err)
		}
		w.set(-24 * time.Hour)
		if _, _, err := tk.Lookup(t.Context(), asked); err != Unknown {
			t.Errorf("a token that was refused, after the clock was set back: %v, want Unknown", err)
		}

		other := issueFor(time.Hour)
		_, otherDone := lookup(t, t.Context(), tk, other)
		w.set(24 * time.Hour)
		elapse(due.Recheck)
		synctest.Wait()
		if !closed(done) || !closed(otherDone) {
			t.Error("a session goes on, a minute after the clock was set beyond its token's time")
		}
		w.set(-24 * time.Hour)
		for _, secret := range []string{unasked, other} {
			if _, _, err := tk.Lookup(t.Context(), secret); err != Unknown {
				t.Errorf("after the clock was set back: %v, want Unknown", err)
			}
		}
		if closed(goesOn) {
			t.Error("a token ended before its time")
		}
	})
}

// A clock that is set back gives a token the time until it is again what the
// token says, and one that is set forward a little takes it away: no more and no
// less.
func TestTokensFollowTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w wall
		tk := watched(t, mem.New(), Options{Now: w.now})
		g := grant(t, "alice", "rw", 0)
		g.Expires = w.now().Add(2 * time.Hour)
		secret, _ := issue(t, tk, g)
		_, done := lookup(t, t.Context(), tk, secret)
		w.set(-time.Hour)
		elapse(2*time.Hour + 59*time.Minute)
		synctest.Wait()
		if closed(done) {
			t.Error("the session ended an hour before the clock said so")
		}
		elapse(time.Minute)
		synctest.Wait()
		if !closed(done) {
			t.Error("the session goes on after the token's time")
		}
	})
}

func TestSessionsEndWithoutTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := faulty.New(mem.New())
		tk := watched(t, st, Options{})
		secret, _ := issue(t, tk, grant(t, "alice", "rw", time.Hour))
		_, done := lookup(t, t.Context(), tk, secret)
		st.Inject(func(at faulty.Moment) error {
			if at == faulty.Read {
				return nil
			}
			return fsys.NoSpace
		})
		elapse(time.Hour)
		synctest.Wait()
		if _, _, err := tk.Lookup(t.Context(), secret); !closed(done) || err != Unknown {
			t.Errorf("the session ended: %v, and another begins with %v; want true and Unknown", closed(done), err)
		}
		st.Inject(nil)
		elapse(due.Recheck)
		synctest.Wait()
		if text, keys := stored(t, st); keys != 0 {
			t.Errorf("it is still stored when that is possible again:\n%s", text)
		}
	})
}
