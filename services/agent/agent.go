// Package agent assembles the services of one agent and shows them as the
// trees that different people see.
//
//	/             status: README, status, ctl, events
//	/mounts       the mounts that this viewer is shown
//	/config       the operator's settings             A
//	/budget       limits, usage, ledger               A
//	/approvals    what waits for the operator         A
//	/inbox  /deadletter  /outbox
//	/logs, /logs/output
//	/state        the files of the agent's program
//	/goals
//	/skills
//	/tools        paid from the agent's budget
//	/identity
//	/secrets      names only; the values are for services    A
//	/sessions     paid from the agent's budget
//	/compute      paid from the agent's budget
//	/compute/policy                                   A
//	/containers   paid from the agent's budget
//	/containers/policy                                A
//
// A: only the operator may write there. A package and a row of the table
// in parts.go are all that it takes to add another service.
package agent

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"agent9/fsys"
	"agent9/namespace"
	"agent9/namespace/budget"
	"agent9/providers/models"
	"agent9/providers/programs"
	"agent9/providers/sandboxes"
	toolservers "agent9/providers/tools"
	"agent9/services/compute"
	"agent9/services/containers"
	"agent9/services/identity"
	"agent9/services/inbox"
	"agent9/services/logs"
	"agent9/services/secrets"
	"agent9/services/skills"
	"agent9/services/state"
	"agent9/services/status"
	"agent9/services/ticks"
	"agent9/services/tokens"
	"agent9/services/tools"
	"agent9/services/transports"
	"agent9/store"
)

// House is what the agents of a daemon share.
type House struct {
	// Life ends when the daemon does; the work of an agent lasts no longer.
	Life      context.Context
	Ring      *identity.KeyRing
	Providers []*models.Runner
	Sandboxes []*sandboxes.Runner
	Tools     toolservers.Provider // may be nil
	// Serve serves what root returns to a program in a sandbox of the agent called
	// name, as that agent, until conn ends.
	Serve  func(name string, root Inside, conn net.Conn)
	Limits budget.Limits // of an agent that was given none
	Now    func() time.Time
	// Post carries what agents send.
	Post transports.Table
	// Account finds the account above an agent's that is called name, and
	// Moved is told when an agent's is below another one: see budget.Options.
	Account func(ctx context.Context, tx store.Store, name string) (*budget.Account, error)
	Moved   func(ctx context.Context, tx store.Store, agent, from, to string) error
	Trace   fsys.Trace // may be nil
	// Due is told when an agent has something to do; then its Work is called.
	Due func(ctx context.Context, tx store.Store, agent string, d ticks.Due) error
	// Programs makes a program as config says; nil: there are none.
	Programs func(programs.Spec) (programs.Program, error)
	// ServeTick opens a socket for a tick, and MountTick mounts for one. Each
	// may be nil.
	ServeTick, MountTick Share
	Tokens               *tokens.Tokens
	// Happened is told of every event of every agent, as a line of JSON.
	Happened func(agent string, line []byte)
}

// An Agent is one agent's services over its part of the store. It may be
// built at any time and dropped when nothing refers to it: all that matters is
// in the store.
type Agent struct {
	Name  string
	house *House
	st    store.Updater
	gone  atomic.Bool

	status    *status.Service
	budget    *budget.Account
	approvals *budget.Approvals
	inbox     *inbox.Inbox
	outbox    *inbox.Outbox
	logs      *logs.Logs
	skills    *skills.Service
	secrets   *secrets.Service
	identity  *identity.Service
	compute   *compute.Service
	sandboxes *containers.Service
	tools     *tools.Service
	state     *state.State
	ticks     *ticks.Service

	table          table
	opened         []opened // as in table
	operator, self *namespace.Namespace
}

// Create writes what a new agent begins with, in a transaction on its part of
// the store.
func Create(ctx context.Context, tx store.Store, st store.Updater, house *House, name string) error {
	for _, p := range parts() {
		if p.create == nil {
			continue
		}
		if err := p.create(ctx, store.In(tx, store.Sub(st, p.prefix())), house, name); err != nil {
			return err
		}
	}
	return nil
}

// Open builds the agent whose part of the store is st. No other one has ever
// had its id.
func Open(ctx context.Context, st store.Updater, house *House, name, id string) (*Agent, error) {
	return open(ctx, st, house, name, id, parts())
}

func open(ctx context.Context, st store.Updater, house *House, name, id string, t table) (*Agent, error) {
	a := &Agent{Name: name, house: house, table: t}
	a.st = store.Owned(st, a)
	for _, p := range t {
		o, err := p.open(ctx, Env{House: house, Agent: a, ID: id, Store: store.Sub(a.st, p.prefix()), Note: a.note})
		if err != nil {
			return nil, err
		}
		a.opened = append(a.opened, o)
	}
	if err := a.endDisabled(); err != nil { // if the daemon ended before it had
		return nil, err
	}
	a.operator = a.view(viewer{operator: true})
	a.self = a.view(viewer{})
	// What is taken up again works in these trees.
	return a, a.start()
}

// start goes on with what waits.
func (a *Agent) start() error {
	for _, o := range a.opened {
		if o.start == nil {
			continue
		}
		if err := o.start(); err != nil {
			return err
		}
	}
	return nil
}

// note records an event.
func (a *Agent) note(tx store.Store, event string, detail any) error {
	return a.logs.Note(tx, event, a.tie(event, detail))
}

// Note records an event of the agent.
func (a *Agent) Note(ctx context.Context, event string, detail any) error {
	return a.logs.Event(ctx, event, detail)
}

// Pubkey returns the agent's public key, 64 hex digits.
func (a *Agent) Pubkey() string { return a.identity.Pubkey() }

// Operator returns the tree with all that the operator may do.
func (a *Agent) Operator() fsys.Node { return a.operator.Root() }

// Self returns the tree that the agent itself sees.
func (a *Agent) Self() fsys.Node { return a.self.Root() }

// Limited returns the agent's own tree for who has the token of this id, less
// what rights do not allow at the path of each mount, until over returns why the
// token has ended.
func (a *Agent) Limited(token string, rights func(mount string) (read, write bool), over func() error) fsys.Node {
	return a.view(viewer{token: token, rights: rights, over: over}).Root()
}

// Stopped reports whether the agent does no work.
func (a *Agent) Stopped() bool { return a.status.State() == status.Stopped }

// mayWork refuses what a stopped agent does not do.
func (a *Agent) mayWork() error {
	if a.Stopped() {
		return errStopped
	}
	return nil
}

// Leave settles what the agent still holds of the accounts above it, in the
// transaction that removes the agent.
func (a *Agent) Leave(ctx context.Context, tx store.Store) error {
	if err := a.budget.SettleAll(ctx, tx, "the agent was removed"); err != nil {
		return err
	}
	if err := a.house.Due(ctx, tx, a.Name, ticks.Due{}); err != nil {
		return err
	}
	return a.budget.Close(ctx, tx)
}

// Remove makes the agent disappear from all trees in which it is still seen,
// and ends what is read there.
func (a *Agent) Remove() {
	a.gone.Store(true)
	for _, o := range a.opened {
		if o.end != nil {
			o.end()
		}
	}
}

func (a *Agent) stateChanged(s status.State) error {
	if s != status.Stopped {
		return a.start()
	}
	var errs []error
	for i := range a.table.ending() {
		switch o := a.opened[i]; {
		case o.stop != nil:
			o.stop()
		case o.cancel != nil:
			errs = append(errs, o.cancel(nil))
		}
	}
	return errors.Join(errs...)
}

// ending does for each part what does, if that is something.
func (a *Agent) ending(ctx context.Context, what func(opened) func(context.Context) error) error {
	var errs []error
	for i := range a.table.ending() {
		if f := what(a.opened[i]); f != nil {
			errs = append(errs, f(ctx))
		}
	}
	return errors.Join(errs...)
}

func (a *Agent) inboxConfig() inbox.Config {
	c := a.status.Config()
	return inbox.Config{Limit: c.Inbox.Limit, Overflow: inbox.Overflow(c.Inbox.Overflow),
		DeadLimit: c.Deadletter.Limit, DropDead: inbox.Overflow(c.Deadletter.Overflow) == inbox.DropOldest}
}

// reach finds where the outbox delivers to.
func (a *Agent) reach(ctx context.Context, to string) (transports.Deliver, error) {
	return a.house.Post.Reach(ctx, a.Name, to)
}

func (a *Agent) fill(ctx context.Context, r *status.Report) error {
	u, err := a.budget.Usage(ctx)
	if err != nil {
		return err
	}
	r.Budget = status.Budget{Held: u.Held, SpentDay: u.Day.Spent, Spent: u.Total.Spent, Left: u.Left}
	if r.Queues.Inbox, r.Queues.DeadLetter, err = a.inbox.Depth(ctx); err != nil {
		return err
	}
	r.Queues.Jobs = a.compute.Unfinished() + a.sandboxes.Unfinished()
	if r.Queues.Approvals, err = a.approvals.Waiting(ctx); err != nil {
		return err
	}
	return a.tickState(ctx, r)
}

// Interrupted reports whether the agent whose part of the store is st has work
// that the end of the daemon cut off, or that waits, or files that were being
// written. Open settles it, or goes on with it.
func Interrupted(ctx context.Context, st store.Updater) (bool, error) {
	for _, p := range parts() {
		if p.interrupted == nil {
			continue
		}
		if open, err := p.interrupted(ctx, store.Sub(st, p.prefix())); open || err != nil {
			return open, err
		}
	}
	return false, nil
}

// Wait waits until the work that was cut off has ended and is recorded.
func (a *Agent) Wait(ctx context.Context) error {
	return a.ending(ctx, func(o opened) func(context.Context) error { return o.wait })
}

// Close cuts off what the agent is doing and waits until that is recorded, or
// until ctx ends.
func (a *Agent) Close(ctx context.Context) error {
	return a.ending(ctx, func(o opened) func(context.Context) error { return o.close })
}
