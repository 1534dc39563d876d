package ticks

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func at(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		panic(err)
	}
	return t
}

func TestParseAlarm(t *testing.T) {
	now := at("2026-03-27T09:30:00Z") // a Friday, two days before summer time
	for _, c := range []struct{ words, next, text string }{
		{"+90s look here", "2026-03-27T09:31:30Z", "look here"},
		{"2026-04-01T08:00:00+02:00 x", "2026-04-01T06:00:00Z", "x"},
		{"0 8 * * 1-5 morning", "2026-03-30T08:00:00Z", "morning"},
		{`"0 8 * * 1-5" morning`, "2026-03-30T08:00:00Z", "morning"},
		{"TZ=Europe/Berlin 0 8 * * 1-5 morning", "2026-03-30T06:00:00Z", "morning"},
		{"TZ=Europe/Berlin 30 2 29 3 * does not exist", "2027-03-29T00:30:00Z", "does not exist"},
		{"@daily", "2026-03-28T00:00:00Z", ""},
		{"@every 1h30m x y", "2026-03-27T11:00:00Z", "x y"},
	} {
		a, err := parseAlarm(strings.Fields(c.words), now)
		if err != nil {
			t.Errorf("%s: %v", c.words, err)
			continue
		}
		if got := a.due().UTC().Format(time.RFC3339); got != c.next || a.Text != c.text {
			t.Errorf("%s: got %s %q, want %s %q", c.words, got, a.Text, c.next, c.text)
		}
	}
	for _, bad := range []string{"", "+", "+x", "+-5m", "0 8 * *", "61 * * * *", "@never", "0 0 31 2 *", "TZ=No/Where 0 8 * * *", "soon"} {
		if a, err := parseAlarm(strings.Fields(bad), now); err == nil {
			t.Errorf("%q was taken: %+v", bad, a)
		}
	}
}

// A clock that is set neither makes an alarm ring again at a time at which it
// has rung, nor keeps it from ringing.
func TestAlarmAndTheClock(t *testing.T) {
	rang := at("2026-03-30T08:00:00Z").UnixMilli()
	for now, want := range map[string]string{
		"2026-03-30T08:00:01Z": "2026-03-31T08:00:00Z", // as usual
		"2026-03-30T07:30:00Z": "2026-03-31T08:00:00Z", // set back a little
		"2026-01-10T07:30:00Z": "2026-01-10T08:00:00Z", // set back a lot
		"2027-01-10T07:30:00Z": "2027-01-10T08:00:00Z", // set forward: what was missed is not made up for
	} {
		a := alarm{Cron: "TZ=UTC 0 8 * * *", Rung: []span{{rang, rang}}}
		next, err := a.after(at(now))
		if err != nil || !next.Equal(at(want)) {
			t.Errorf("at %s: got %v, %v, want %s", now, next, err, want)
		}
	}
}

// TestAlarmRingsOnce sets the clock back and forward while an alarm rings: it
// rings once at each of its times that the clock came to, and never twice.
func TestAlarmRingsOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	for _, spec := range []string{"TZ=UTC * * * * *", "TZ=UTC 0 * * * *", "TZ=UTC 30 7 * * *"} {
		wall := at("2026-03-30T00:00:00Z")
		a := alarm{ID: "1", Cron: spec}
		next, err := a.after(wall)
		if err != nil {
			t.Fatal(err)
		}
		a.Next = next.UnixMilli()
		rung, came := map[int64]int{}, map[int64]bool{}
		schedule, err := a.schedule()
		if err != nil {
			t.Fatal(err)
		}
		look := func() {
			if next, err := a.after(wall); err != nil {
				t.Fatal(err)
			} else if a.due().After(wall) && next.Before(a.due()) {
				a.Next = next.UnixMilli() // resetAlarms
			}
			for !a.due().After(wall) {
				rung[a.Next]++
				if err := a.ring(); err != nil {
					t.Fatal(err)
				}
				next, err := a.after(wall)
				if err != nil {
					t.Fatal(err)
				}
				a.Next = next.UnixMilli()
			}
		}
		run := func(minutes int) {
			for range minutes {
				look()
				next := schedule.Next(wall)
				if wall = wall.Add(time.Minute); !next.After(wall) {
					came[next.UnixMilli()] = true
				}
				look()
			}
		}
		for range 8 { // the clock is right, then wrong, then right
			off := time.Duration(random.Int64N(int64(96*time.Hour))) - 48*time.Hour
			run(6 * 60)
			wall = wall.Add(off)
			run(60 + random.IntN(24*60))
			wall = wall.Add(-off)
		}
		run(48 * 60)
		for ms, n := range rung {
			if n > 1 {
				t.Errorf("%s rang %d times at %v", spec, n, time.UnixMilli(ms).UTC())
			}
		}
		for ms := range came {
			if rung[ms] == 0 {
				t.Errorf("%s did not ring at %v", spec, time.UnixMilli(ms).UTC())
			}
		}
		if len(came) < 3 {
			t.Errorf("%s: the clock came to %d times only", spec, len(came))
		}
	}
}

func TestBackoff(t *testing.T) {
	set := Settings{Backoff: time.Second, MaxBackoff: 30 * time.Second}
	for tries, want := range map[int]time.Duration{1: time.Second, 2: 4 * time.Second, 3: 16 * time.Second, 4: 30 * time.Second, 100: 30 * time.Second} {
		if got := set.backoff(tries); got != want {
			t.Errorf("after %d failures: got %v, want %v", tries, got, want)
		}
	}
}

func TestOutputKeepsBothEnds(t *testing.T) {
	o := newOutput(1 << 30)
	for range 1000 {
		if _, err := o.Write([]byte(strings.Repeat("x", 999) + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	o.Write([]byte("the end"))
	text := string(o.text())
	if len(text) > keptHead+keptTail+100 || !strings.HasSuffix(text, "the end\n") || !strings.Contains(text, "934471 bytes are left out") {
		t.Errorf("kept %d bytes, ending in %q", len(text), text[len(text)-100:])
	}
}
