package status

import (
	"fmt"
	"path"
	"strings"
	"time"

	"agent9/fsys"
)

// Tick bounds the runs of the agent's program. Zero means the default.
type Tick struct {
	TimeoutS     int   `json:"timeout_s,omitempty"`      // 300; at most a day
	Retries      *int  `json:"retries,omitempty"`        // after the first failure: 3
	BackoffMS    int   `json:"backoff_ms,omitempty"`     // before the first retry: 1000; four times as long before each further one
	BackoffMaxMS int   `json:"backoff_max_ms,omitempty"` // 300000
	GiveUp       *int  `json:"give_up,omitempty"`        // triggers in a row that are given up until the agent has failed: 5; 0 is never
	OutputBytes  int64 `json:"output_bytes,omitempty"`   // that the program may print: 1 MiB
}

// Triggers say what sets off a tick, besides alarms and the verb tick.
type Triggers struct {
	Messages *bool    `json:"messages,omitempty"` // default true
	Watch    []string `json:"watch,omitempty"`    // files or directories in goals and state
}

// Watchable are the directories in which files can be watched.
var watchable = []string{"goals", "state"}

const maxWatch = 16

func (c *Config) checkTicks() error {
	t := c.Tick
	for _, f := range []struct {
		name          string
		value, lo, hi int64
	}{
		{"timeout_s", int64(t.TimeoutS), 0, 86_400},
		{"retries", int64(or(t.Retries, 0)), 0, 100},
		{"backoff_ms", int64(t.BackoffMS), 0, 86_400_000},
		{"backoff_max_ms", int64(t.BackoffMaxMS), 0, 86_400_000},
		{"give_up", int64(or(t.GiveUp, 0)), 0, 1_000_000},
		{"output_bytes", t.OutputBytes, 0, 1 << 30},
	} {
		if f.value < f.lo || f.value > f.hi {
			return fsys.E(fsys.Invalid, fmt.Sprintf("tick.%s must be from %d to %d", f.name, f.lo, f.hi))
		}
	}
	if len(c.Triggers.Watch) > maxWatch {
		return fsys.E(fsys.Invalid, fmt.Sprintf("triggers.watch: at most %d", maxWatch))
	}
	for _, w := range c.Triggers.Watch {
		if !canWatch(w) {
			return fsys.E(fsys.Invalid, "triggers.watch: "+w+" cannot be watched; what can is in "+strings.Join(watchable, " and ")+", such as goals/plan")
		}
	}
	if c.Program != nil {
		return c.Program.Check()
	}
	return nil
}

func canWatch(w string) bool {
	dir, _, _ := strings.Cut(w, "/")
	for _, d := range watchable {
		if dir == d && path.Clean(w) == w {
			return true
		}
	}
	return false
}

func or[T any](p *T, otherwise T) T {
	if p != nil {
		return *p
	}
	return otherwise
}

func nonzero[T int | int64](n, otherwise T) T {
	if n == 0 {
		return otherwise
	}
	return n
}

// OnMessages reports whether the program takes the agent's messages.
func (c *Config) OnMessages() bool { return c.Program != nil && or(c.Triggers.Messages, true) }

// The settings with their defaults.

func (t Tick) Timeout() time.Duration { return time.Duration(nonzero(t.TimeoutS, 300)) * time.Second }
func (t Tick) Tries() int             { return or(t.Retries, 3) }
func (t Tick) GivesUp() int           { return or(t.GiveUp, 5) }
func (t Tick) Output() int64          { return nonzero(t.OutputBytes, 1<<20) }

func (t Tick) Backoff() time.Duration {
	return time.Duration(nonzero(t.BackoffMS, 1000)) * time.Millisecond
}

func (t Tick) BackoffMax() time.Duration {
	return max(t.Backoff(), time.Duration(nonzero(t.BackoffMaxMS, 300_000))*time.Millisecond)
}
