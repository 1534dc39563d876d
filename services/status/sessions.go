package status

import (
	"fmt"

	"agent9/fsys"
	"agent9/services/internal/work"
)

// Sessions bounds the conversations with the agent; what is absent has a
// default.
type Sessions struct {
	Idle       work.Duration `json:"idle,omitzero"`         // until one ends by itself; default 15m
	Keep       work.Duration `json:"keep,omitzero"`         // how long one that has ended is kept; default 30d
	KeepBytes  int64         `json:"keep_bytes,omitempty"`  // and how much of all of them; default 256 MiB
	MaxOpen    int           `json:"max_open,omitempty"`    // that have not ended; default 1024
	MaxRunning int           `json:"max_running,omitempty"` // that are answered at once; default 64
	MaxWaiting int           `json:"max_waiting,omitempty"` // prompts in one; default 64
	// Model answers, instead of the default one of compute.
	Model string `json:"model,omitempty"`
	// Profiles are what a session can be begun with, by name.
	Profiles map[string]Profile `json:"profiles,omitempty"`
}

// A Profile says who answers in a session: what is absent is as in the other
// sessions.
type Profile struct {
	Prompt string `json:"prompt,omitempty"`
	Model  string `json:"model,omitempty"`
}

func (s Sessions) check() error {
	for _, f := range []struct {
		name  string
		value int64
		most  int64
	}{
		{"keep_bytes", s.KeepBytes, 1 << 40},
		{"max_open", int64(s.MaxOpen), 1 << 20},
		{"max_running", int64(s.MaxRunning), 1 << 12},
		{"max_waiting", int64(s.MaxWaiting), 1 << 16},
	} {
		if f.value < 0 || f.value > f.most {
			return fsys.E(fsys.Invalid, fmt.Sprintf("sessions.%s must be from 1 to %d", f.name, f.most))
		}
	}
	for name := range s.Profiles {
		if err := fsys.CheckName(name); err != nil {
			return fsys.Wrap(fsys.Invalid, "sessions.profiles: "+name, err)
		}
	}
	return nil
}
