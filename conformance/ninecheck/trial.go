package ninecheck

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"
)

// A Check is one rule of the protocol, or a few that are seen together.
type Check struct {
	Name string // GROUP/RULE
	Says string // what the server is measured by, and where that is written
	only string // the one dialect that has it; empty: both
	need need
	run  func(*trial)
}

// A need is what a check cannot do without.
type need uint8

const (
	needWrite need = 1 << iota
	needHostile
	needStream
	needFile // a file that is not empty, below the attach
	needDir  // a directory below the attach
)

// A Frame is what one side sent, for people.
type Frame struct {
	Conn  int     `json:"conn"` // which connection of the check
	From  string  `json:"from"` // client or server
	At    float64 `json:"ms"`   // since the check began
	Text  string  `json:"text"`
	Hex   string  `json:"hex"` // of the first bytes
	Bytes int     `json:"bytes"`
}

// A Finding is a rule that was not kept.
type Finding struct {
	What   string  `json:"what"`
	Frames []Frame `json:"frames"` // the last ones until then
}

// Verdicts of a check.
const (
	Pass = "pass"
	Fail = "fail"
	Skip = "skip"
)

// A Result is how a check went.
type Result struct {
	Check    string    `json:"check"`
	Dialect  string    `json:"dialect"`
	Says     string    `json:"says"`
	Verdict  string    `json:"verdict"`
	Reason   string    `json:"reason,omitempty"` // of Skip
	Findings []Finding `json:"findings,omitempty"`
}

const (
	shownFrames  = 12
	shownHex     = 64
	mostFindings = 5 // of one check
)

// A trial is a check while it runs.
type trial struct {
	*subject
	ctx    context.Context
	begun  time.Time
	conns  []*conn
	frames []Frame
	result Result
}

// stop ends a trial that cannot go on.
type stop struct{}

// try runs one check.
func (s *subject) try(ctx context.Context, c *Check) Result {
	t := &trial{subject: s, ctx: ctx, begun: time.Now()}
	t.result = Result{Check: c.Name, Dialect: s.dialect.version, Says: c.Says, Verdict: Pass}
	if why := s.lacks(c); why != "" {
		t.result.Verdict, t.result.Reason = Skip, why
		return t.result
	}
	t.perform(c)
	return t.result
}

func (t *trial) perform(c *Check) {
	defer func() {
		for _, c := range t.conns {
			c.net.Close()
		}
		if r := recover(); r != nil {
			if _, ok := r.(stop); !ok {
				panic(r)
			}
		}
	}()
	c.run(t)
}

// lacks says why c cannot be run, or nothing.
func (s *subject) lacks(c *Check) string {
	switch {
	case c.only != "" && c.only != s.dialect.version:
		return "only in " + c.only
	case c.need&needWrite != 0 && s.Write == "":
		return "changes something: name a directory for it (--write)"
	case c.need&needHostile != 0 && !s.Hostile:
		return "sends what no client may send: ask for it (--hostile)"
	case c.need&needStream != 0 && s.Stream == "":
		return "needs a file whose read blocks (--stream)"
	case c.need&needFile != 0 && s.file == nil:
		return "no file with something in it was found"
	case c.need&needDir != 0 && s.dir == nil:
		return "no directory was found below the root"
	}
	return ""
}

// errorf records a finding. The check goes on, unless it has found enough.
func (t *trial) errorf(format string, args ...any) {
	t.result.Verdict = Fail
	from := max(0, len(t.frames)-shownFrames)
	t.result.Findings = append(t.result.Findings, Finding{
		What:   fmt.Sprintf(format, args...),
		Frames: append([]Frame(nil), t.frames[from:]...),
	})
	if len(t.result.Findings) >= mostFindings {
		panic(stop{})
	}
}

// fatalf records a finding and ends the check.
func (t *trial) fatalf(format string, args ...any) {
	t.errorf(format, args...)
	panic(stop{})
}

// skip ends the check without a verdict, if nothing was found yet.
func (t *trial) skip(format string, args ...any) {
	if t.result.Verdict == Pass {
		t.result.Verdict, t.result.Reason = Skip, fmt.Sprintf(format, args...)
	}
	panic(stop{})
}

// record adds what was sent or received to what a finding shows.
func (t *trial) record(conn int, from string, b []byte, text string) {
	t.frames = append(t.frames, Frame{
		Conn: conn, From: from, At: float64(time.Since(t.begun).Microseconds()) / 1000,
		Text: text, Hex: hex.EncodeToString(b[:min(len(b), shownHex)]), Bytes: len(b),
	})
}
