// Package agent assembles the services of one agent and shows them as the
// trees that different people see.
//
//	/             status: README, status, ctl, mounts, events
//	/config       the operator's settings             A
//	/budget       limits, usage, ledger               A
//	/approvals    what waits for the operator         A
//	/inbox  /deadletter  /outbox
//	/logs
//	/goals
//	/identity
//	/compute      paid from the agent's budget
//	/compute/policy                                   A
//
// A: only the operator may write there. A row of the table in mounts.go is all
// that it takes to mount another service.
package agent

import (
	"context"
	"sync/atomic"
	"time"

	"agent9/fsys"
	"agent9/namespace"
	"agent9/namespace/budget"
	provider "agent9/providers/compute"
	"agent9/services/compute"
	"agent9/services/goals"
	"agent9/services/identity"
	"agent9/services/inbox"
	"agent9/services/logs"
	"agent9/services/status"
	"agent9/store"
	"agent9/store/files"
)

// House is what the agents of a daemon share.
type House struct {
	// Life ends when the daemon does; the work of an agent lasts no longer.
	Life      context.Context
	Ring      *identity.KeyRing
	Providers []*provider.Runner
	Limits    budget.Limits // of an agent that was given none
	Now       func() time.Time
	// Recipient finds the inbox of another agent for one who sends to it.
	Recipient func(ctx context.Context, to string) (*Agent, error)
	// Account finds the account above an agent's that is called name, and
	// Moved is told when an agent's is below another one: see budget.Options.
	Account func(ctx context.Context, tx store.Store, name string) (*budget.Account, error)
	Moved   func(ctx context.Context, tx store.Store, agent, from, to string) error
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
	goals     *files.Tree
	identity  *identity.Service
	compute   *compute.Service

	operator, self *namespace.Namespace
}

// The parts of an agent's store.
const (
	statusPart   = "status/"
	budgetPart   = "budget/"
	inboxPart    = "inbox/"
	outboxPart   = "outbox/"
	logsPart     = "logs/"
	goalsPart    = "goals/"
	identityPart = "identity/"
	computePart  = "compute/"
)

// Create writes what a new agent begins with, in a transaction on its part of
// the store.
func Create(ctx context.Context, tx store.Store, st store.Updater, house *House, name string) error {
	if err := status.Create(ctx, store.In(tx, store.Sub(st, statusPart)), house.Now()); err != nil {
		return err
	}
	_, err := identity.Create(ctx, store.In(tx, store.Sub(st, identityPart)), house.Ring, name)
	return err
}

// Open builds the agent whose part of the store is st.
func Open(ctx context.Context, st store.Updater, house *House, name string) (*Agent, error) {
	a := &Agent{Name: name, house: house, st: st}
	var err error
	if a.logs, err = logs.Open(ctx, store.Sub(st, logsPart), logs.Options{
		OnEvent: func(line []byte) { house.Happened(name, line) },
	}); err != nil {
		return nil, err
	}
	if a.identity, err = identity.Open(ctx, store.Sub(st, identityPart), house.Ring, name, a.note); err != nil {
		return nil, err
	}
	if a.status, err = status.Open(ctx, store.Sub(st, statusPart), status.Options{
		Name:        name,
		Pubkey:      a.identity.Pubkey(),
		Fill:        a.fill,
		Mounts:      func() string { return mountTable(a.self) },
		CheckConfig: checkConfig,
		Events:      a.logs.Trajectory(),
		Changed:     a.stateChanged,
		Note:        a.note,
	}); err != nil {
		return nil, err
	}
	if a.budget, err = budget.Open(ctx, store.Sub(st, budgetPart), budget.Options{
		Name: name, Now: house.Now, Defaults: house.Limits, Note: a.note, Parent: house.Account,
		Moved: func(ctx context.Context, tx store.Store, from, to string) error {
			return house.Moved(ctx, tx, name, from, to)
		},
	}); err != nil {
		return nil, err
	}
	a.approvals = budget.NewApprovals(house.Life, a.budget)
	a.inbox = inbox.New(store.Sub(st, inboxPart), inbox.Options{Config: a.inboxConfig, Note: a.note})
	if a.outbox, err = inbox.NewOutbox(ctx, store.Sub(st, outboxPart), name, a.findInbox, a.note); err != nil {
		return nil, err
	}
	if a.goals, err = goals.New(ctx, store.Sub(st, goalsPart), a.note); err != nil {
		return nil, err
	}
	if a.compute, err = compute.Open(house.Life, compute.Config{
		Store: store.Sub(st, computePart), Providers: house.Providers, Now: house.Now, Note: a.note, Account: a.budget,
		Approvals: a.approvals,
	}); err != nil {
		return nil, err
	}
	if err := a.approvals.Start(ctx); err != nil {
		return nil, err
	}
	a.operator = a.view(viewer{operator: true})
	a.self = a.view(viewer{})
	return a, nil
}

// note records an event. It is a method, so that whoever can record an event
// of an agent keeps the agent: there is never a second one of the same name.
func (a *Agent) note(tx store.Store, event string, detail any) error {
	return a.logs.Note(tx, event, detail)
}

// Operator returns the tree with all that the operator may do.
func (a *Agent) Operator() fsys.Node { return a.operator.Root() }

// Self returns the tree that the agent itself sees.
func (a *Agent) Self() fsys.Node { return a.self.Root() }

// Limited returns the agent's own tree, less what rights do not allow at the
// path of each mount.
func (a *Agent) Limited(rights func(mount string) (read, write bool)) fsys.Node {
	return a.view(viewer{rights: rights}).Root()
}

// Stopped reports whether the agent does no work.
func (a *Agent) Stopped() bool { return a.status.State() == status.Stopped }

// Leave settles what the agent still holds of the accounts above it, in the
// transaction that removes the agent.
func (a *Agent) Leave(ctx context.Context, tx store.Store) error {
	if err := a.budget.SettleAll(ctx, tx, "the agent was removed"); err != nil {
		return err
	}
	return a.budget.Close(ctx, tx)
}

// Remove makes the agent disappear from all trees in which it is still seen,
// and ends what is read there.
func (a *Agent) Remove() {
	a.gone.Store(true)
	for _, s := range []interface{ End() }{a.logs, a.budget, a.approvals, a.inbox, a.outbox} {
		s.End()
	}
}

func (a *Agent) stateChanged(s status.State) error {
	if s == status.Stopped {
		return a.compute.CancelAll()
	}
	return nil
}

func (a *Agent) inboxConfig() inbox.Config {
	c := a.status.Config().Inbox
	return inbox.Config{Limit: c.Limit, Overflow: inbox.Overflow(c.Overflow)}
}

// findInbox finds where the outbox delivers to.
func (a *Agent) findInbox(ctx context.Context, to string) (inbox.Deliver, error) {
	other, err := a.house.Recipient(ctx, to)
	if fsys.CodeOf(err) == fsys.NotExist && err != nil {
		return nil, fsys.Wrap(fsys.NotExist, "there is no agent "+to, fsys.NotExist)
	}
	if err != nil {
		return nil, err
	}
	if !other.status.Config().Accepts(a.Name) {
		return nil, fsys.E(fsys.Permission, to+" does not accept messages from "+a.Name)
	}
	// The closure holds the other agent, not only its inbox.
	return func(ctx context.Context, tx store.Store, m inbox.Message) (string, error) {
		if other.gone.Load() {
			return "", fsys.E(fsys.NotExist, "there is no agent "+to)
		}
		return other.inbox.Deliver(ctx, tx, m)
	}, nil
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
	r.Queues.Jobs = a.compute.Unfinished()
	r.Queues.Approvals, err = a.approvals.Waiting(ctx)
	return err
}

// Interrupted reports whether the agent whose part of the store is st has work
// that the end of the daemon cut off. Open settles it.
func Interrupted(ctx context.Context, st store.Updater) (bool, error) {
	return compute.Interrupted(ctx, store.Sub(st, computePart))
}

// Wait waits until the work that was cut off has ended and is recorded.
func (a *Agent) Wait(ctx context.Context) error { return a.compute.Wait(ctx) }

// Close cuts off what the agent is doing and waits until that is recorded, or
// until ctx ends.
func (a *Agent) Close(ctx context.Context) error {
	a.approvals.End()
	return a.compute.Close(ctx)
}
