// Package programs is what an agent's program is: the one thing that runs in
// each of its ticks, with what set the tick off, in the agent's namespace.
// Drivers are in the packages below; one in Go is an [Agent].
//
// A program that returns nil, or ends with status 0, has done its work: what
// it changed in its tick is then stored. After anything else it never was, and
// the trigger comes again. So a program may fail at any point, and may see the
// same trigger more than once; only what acts outside of the namespace, or at
// once (compute, containers, logs, goals), then happens twice.
package programs

import (
	"context"
	"encoding/json"
	"io"

	"agent9/fsys"
)

// A Program is safe for concurrent use.
type Program interface {
	// Run performs one tick and returns when all of it has ended: nothing
	// that it started is left. When ctx ends, so does Run, soon, with
	// context.Cause(ctx) or an error that says more.
	Run(ctx context.Context, t Trigger, env Env) (Outcome, error)
}

// An Agent is a program that is written in Go and compiled into the daemon.
// ns is the agent's namespace in this tick, as a program outside sees it:
// fsys.ReadFile(ctx, ns, "state/notes"), fsys.WriteFile(ctx, ns, "outbox/new",
// …), fsys.Converse(ctx, ns, "compute/new", …). It is gone when Tick returns.
// A panic is an error.
type Agent interface {
	Tick(ctx context.Context, ns fsys.Node, t Trigger) error
}

// An Answerer is an Agent that answers prompts, too: what it writes to w is
// read as it comes.
type Answerer interface {
	Agent
	Answer(ctx context.Context, ns fsys.Node, t Trigger, w io.Writer) error
}

// A Trigger is what set a tick off, as a program gets it: one line of JSON.
type Trigger struct {
	Tick  string `json:"tick"` // the tick's number
	Agent string `json:"agent"`
	Cause Cause  `json:"cause"`
	Time  string `json:"time"` // of the beginning of the tick
	// Attempt is 1 at first, and one more after each failure.
	Attempt int `json:"attempt"`
	// Message is the message as it is in the inbox.
	Message json.RawMessage `json:"message,omitempty"`
	Alarm   *Alarm          `json:"alarm,omitempty"`
	Text    string          `json:"text,omitempty"` // of a manual tick
	Path    string          `json:"path,omitempty"` // of the watched file that was changed
	Prompt  *Prompt         `json:"prompt,omitempty"`
}

// A Cause is the class of a Trigger.
type Cause string

const (
	Message Cause = "message"
	Timer   Cause = "alarm"
	Manual  Cause = "manual"
	Watch   Cause = "watch"
	// Asked is no tick: a Prompt wants an answer.
	Asked Cause = "prompt"
)

// A Prompt is one of a session. What the program prints is the answer, and is
// read as it comes; nothing is held back, and nothing is run again but for a
// Prompt that the end of the daemon cut off.
type Prompt struct {
	Session int64           `json:"session"`
	Prompt  int64           `json:"prompt"`
	Author  fsys.Caller     `json:"author,omitempty"`
	Title   string          `json:"title,omitempty"` // of the session
	Profile string          `json:"profile,omitempty"`
	Text    string          `json:"text,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"` // instead of Text, of one that is JSON
}

// An Alarm is one that is due.
type Alarm struct {
	ID   string `json:"id"`
	Text string `json:"text,omitempty"`
	Due  string `json:"due"` // when it should have been
}

// Env is what a program is given besides its trigger.
type Env struct {
	NS fsys.Node // the agent's namespace in this tick
	// Addr serves NS at a socket of its own, which only this user can open,
	// until the tick ends, and returns its address as agentctl takes it.
	Addr func() (string, error)
	// Mount shows NS to the kernel until the tick ends, and returns where.
	Mount func() (string, error)
	// Secret returns a secret of the agent's, by its name in secrets/, to be
	// sent to the server of url.
	Secret func(ctx context.Context, name, url string) ([]byte, error)
	// Output takes what the program prints. An error says that it printed too
	// much, and must end.
	Output io.Writer
}

// An Outcome is what is to be known about a tick besides whether it failed.
type Outcome struct {
	Remark string // for people; such as that processes were left behind
}

// A Kind says how a program failed.
type Kind string

const (
	Failed   Kind = "failed"
	Killed   Kind = "killed" // by a signal
	TimedOut Kind = "timed out"
	Flooded  Kind = "flooded" // it printed more than it may
	Refused  Kind = "refused" // it could not be run at all
)

// A Failure is a program's error with its kind.
type Failure struct {
	Kind   Kind
	Reason string
}

func (f *Failure) Error() string { return f.Reason }

// Unwrap makes it fsys.Unavailable, as all that fails outside.
func (f *Failure) Unwrap() error {
	if f.Kind == TimedOut {
		return fsys.Timeout
	}
	return fsys.Unavailable
}

// Reason returns the words for people of any error.
func Reason(err error) string {
	if reason := fsys.ReasonOf(err); reason != "" {
		return reason
	}
	return err.Error()
}

// CannotRun is the failure of a program that could not be run, because of err
// in what was done for it, or, if that is nil, because of what itself.
func CannotRun(what string, err error) *Failure {
	if err != nil {
		what += ": " + Reason(err)
	}
	return &Failure{Kind: Refused, Reason: what}
}

// The causes that end a program's context.
var (
	ErrTimedOut = &Failure{TimedOut, "the program did not end in time"}
	ErrFlooded  = &Failure{Flooded, "the program printed more than is allowed"}
)
