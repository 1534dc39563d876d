// Package status serves the files at the top of an agent's tree:
//
//	README   the manual of the tree
//	status   Text: name, state, pubkey, created, ticks, queues, budget in short
//	ctl      Message: stop, start, and what other services add; reading it lists
//	         the commands and the alarms
//	config   Stored, JSON, validated on write: see [Config]
//	events   Stream: everything that happens to this agent, as JSON lines
//
// A stopped agent takes messages but does no work that costs.
package status

import (
	"context"
	_ "embed"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/store"
)

//go:embed tree.md
var manual string

// State is what an agent is doing.
type State string

const (
	Active      State = "active"
	Hibernating State = "hibernating" // until something sets off a tick
	Stopped     State = "stopped"
	Failed      State = "failed" // its program did, too often
)

// Report is the content of the status file.
type Report struct {
	Name    string `json:"name"`
	State   State  `json:"state"`
	Pubkey  string `json:"pubkey"`
	Created string `json:"created"`
	Reason  string `json:"reason,omitempty"` // why it has failed
	Ticks   Ticks  `json:"ticks"`
	Queues  Queues `json:"queues"`
	Budget  Budget `json:"budget"`
}

// Ticks is how the agent's program fares.
type Ticks struct {
	Count   uint64 `json:"count"`
	Failed  uint64 `json:"failed"`
	Running string `json:"running,omitempty"` // the number of the tick that runs
	Last    any    `json:"last_tick"`         // null: there was none
}

// Queues is how much waits where.
type Queues struct {
	Inbox      int `json:"inbox"`
	DeadLetter int `json:"deadletter"`
	Jobs       int `json:"jobs"`
	Approvals  int `json:"approvals"` // what waits for the operator; jobs count it too
	Alarms     int `json:"alarms"`
}

// Budget is the agent's money in short.
type Budget struct {
	Held     budget.Micros  `json:"held_microusd"`
	SpentDay budget.Micros  `json:"spent_day_microusd"`
	Spent    budget.Micros  `json:"spent_total_microusd"`
	Left     *budget.Micros `json:"left_microusd"` // null: no limit
}

// Options connects the service to the agent that it is about.
type Options struct {
	Name   string
	Pubkey string
	// Fill completes a report with what other services know.
	Fill func(ctx context.Context, r *Report) error
	// CheckConfig, if set, is asked before a new configuration is stored.
	CheckConfig func(Config) error
	Events      fsys.Node
	// Changing is told of a new state, and Configured of a new configuration,
	// in its transaction.
	Changing   func(ctx context.Context, tx store.Store, to State) error
	Configured func(ctx context.Context, tx store.Store, c Config) error
	// Changed is told of a new state, and Reconfigured of a new
	// configuration, once it is on disk.
	Changed      func(State) error
	Reconfigured func() error
	// Commands are more verbs of ctl, and Pending what reading it says after
	// the verbs.
	Commands []Command
	Pending  func(ctx context.Context) ([]byte, error)
	Note     store.Note
}

// Service is an agent's own record: when it was made, how it is configured,
// and whether it is stopped.
type Service struct {
	opts Options
	st   store.Updater

	config atomic.Pointer[Config] // what doc says; looked at by every operation

	mu     sync.Mutex
	record record
	doc    []byte
}

type record struct {
	Created string `json:"created"`
	State   State  `json:"state"`
}

const (
	recordKey = "record"
	configKey = "config"
)

// Create writes the record of a new agent in the transaction tx.
func Create(ctx context.Context, tx store.Store, now time.Time) error {
	b := fsys.Line(record{Created: fsys.Stamp(now), State: Active})
	if err := tx.Put(ctx, recordKey, b); err != nil {
		return err
	}
	return tx.Put(ctx, configKey, []byte("{}\n"))
}

// Open returns the service of an agent that was created in st.
func Open(ctx context.Context, st store.Updater, opts Options) (*Service, error) {
	s := &Service{opts: opts, st: st}
	var err error
	if s.record, err = store.GetJSON[record](ctx, st, recordKey); err != nil {
		return nil, fsys.Wrap(fsys.Internal, "the agent's record", err)
	}
	if s.doc, err = st.Get(ctx, configKey); err != nil {
		return nil, fsys.Wrap(fsys.Internal, "the agent's config", err)
	}
	c, err := ParseConfig(s.doc)
	if err != nil {
		return nil, fsys.Wrap(fsys.Internal, "the agent's config", err)
	}
	s.config.Store(&c)
	return s, nil
}

// State returns what the agent is doing.
func (s *Service) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record.State
}

// Config returns the configuration in force.
func (s *Service) Config() Config { return *s.config.Load() }

// Root returns the directory of the files.
func (s *Service) Root() fsys.Node {
	return fsys.NewTable(
		fsys.Entry{Name: "README", Node: fsys.Const(manual)},
		fsys.Entry{Name: "status", Node: fsys.JSON(s.report)},
		fsys.Entry{Name: "ctl", Node: s.Ctl(nil)},
		fsys.Entry{Name: "events", Node: s.opts.Events},
	)
}

func (s *Service) report(ctx context.Context) (Report, error) {
	s.mu.Lock()
	r := Report{Name: s.opts.Name, State: s.record.State, Pubkey: s.opts.Pubkey, Created: s.record.Created}
	s.mu.Unlock()
	return r, s.opts.Fill(ctx, &r)
}

// A Command is a verb of ctl. Do is given the words after it.
type Command struct {
	Verb, Args, Help string
	Do               func(ctx context.Context, words []string) ([]byte, error)
}

// commands are the verbs of ctl.
func (s *Service) commands() []Command {
	return append([]Command{
		{Verb: "stop", Help: "end running work and take on none; messages are still taken", Do: s.setTo(Stopped)},
		{Verb: "start", Help: "work again", Do: s.setTo(Active)},
	}, s.opts.Commands...)
}

func (s *Service) setTo(to State) func(context.Context, []string) ([]byte, error) {
	return func(ctx context.Context, words []string) ([]byte, error) {
		if len(words) > 0 {
			return nil, fsys.E(fsys.Invalid, "this command has no arguments")
		}
		return nil, s.setState(ctx, to)
	}
}

func (s *Service) verbs(ctx context.Context) ([]byte, error) {
	var b strings.Builder
	for _, c := range s.commands() {
		b.WriteString(strings.TrimSpace(c.Verb+" "+c.Args) + "\t" + c.Help + "\n")
	}
	if s.opts.Pending == nil {
		return []byte(b.String()), nil
	}
	more, err := s.opts.Pending(ctx)
	return append([]byte(b.String()), more...), err
}

func perform(ctx context.Context, commands []Command, words []string) ([]byte, error) {
	var verbs []string
	for _, c := range commands {
		if c.Verb == words[0] {
			return c.Do(ctx, words[1:])
		}
		verbs = append(verbs, c.Verb)
	}
	return nil, fsys.E(fsys.Invalid, "unknown command "+strings.Join(words, " ")+"; there are: "+strings.Join(verbs, ", "))
}

// Ctl returns the ctl file, in which instead are used in place of the commands
// of the same verbs.
func (s *Service) Ctl(instead []Command) fsys.Node {
	commands := s.commands()
	for i, c := range commands {
		for _, other := range instead {
			if other.Verb == c.Verb {
				commands[i] = other
			}
		}
	}
	return &fsys.Ctl{
		Do:   func(ctx context.Context, words []string) ([]byte, error) { return perform(ctx, commands, words) },
		Text: s.verbs,
	}
}

func (s *Service) setState(ctx context.Context, to State) error {
	if s.State() == to {
		return s.again(ctx, to)
	}
	err := s.st.Update(ctx, func(tx store.Store) error {
		next, err := store.GetJSON[record](ctx, tx, recordKey)
		if err != nil {
			return err
		}
		next.State = to
		if err := tx.Put(ctx, recordKey, fsys.Line(next)); err != nil {
			return err
		}
		if s.opts.Changing != nil {
			if err := s.opts.Changing(ctx, tx, to); err != nil {
				return err
			}
		}
		store.After(tx, func() {
			s.mu.Lock()
			s.record = next
			s.mu.Unlock()
		})
		return s.opts.Note.Record(tx, "agent."+string(to), struct {
			By fsys.Caller `json:"by"`
		}{fsys.CallerOf(ctx)})
	})
	if err == nil && s.opts.Changed != nil {
		err = s.opts.Changed(to)
	}
	return err
}

// again is for a state that is asked for again.
func (s *Service) again(ctx context.Context, to State) error {
	if s.opts.Changing == nil {
		return nil
	}
	return s.st.Update(ctx, func(tx store.Store) error { return s.opts.Changing(ctx, tx, to) })
}
