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
// A: only the operator may write there. A row of the table in mounts.go is all
// that it takes to mount another service.
package agent

import (
	"context"
	"encoding/json"
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
	"agent9/services/goals"
	"agent9/services/identity"
	"agent9/services/inbox"
	"agent9/services/logs"
	"agent9/services/secrets"
	"agent9/services/sessions"
	"agent9/services/skills"
	"agent9/services/state"
	"agent9/services/status"
	"agent9/services/ticks"
	"agent9/services/tokens"
	"agent9/services/tools"
	"agent9/services/transports"
	"agent9/store"
	"agent9/store/files"
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
	goals     *files.Tree
	skills    *skills.Service
	secrets   *secrets.Service
	sessions  *sessions.Service
	identity  *identity.Service
	compute   *compute.Service
	sandboxes *containers.Service
	tools     *tools.Service
	state     *state.State
	ticks     *ticks.Service

	operator, self *namespace.Namespace
}

// The parts of an agent's store.
const (
	statusPart   = "status/"
	BudgetPart   = "budget/"
	inboxPart    = "inbox/"
	outboxPart   = "outbox/"
	logsPart     = "logs/"
	goalsPart    = "goals/"
	skillsPart   = "skills/"
	toolsPart    = "tools/"
	secretsPart  = "secrets/"
	sessionsPart = "sessions/"
	identityPart = "identity/"
	computePart  = "compute/"

	containersPart = "containers/"
	statePart      = "state/"
	ticksPart      = "ticks/"
)

// secretsBox is the purpose for which secrets are sealed.
const secretsBox = "secrets"

// Create writes what a new agent begins with, in a transaction on its part of
// the store.
func Create(ctx context.Context, tx store.Store, st store.Updater, house *House, name string) error {
	if err := status.Create(ctx, store.In(tx, store.Sub(st, statusPart)), house.Now()); err != nil {
		return err
	}
	_, err := identity.Create(ctx, store.In(tx, store.Sub(st, identityPart)), house.Ring, name)
	return err
}

// Open builds the agent whose part of the store is st. No other one has ever
// had its id.
func Open(ctx context.Context, st store.Updater, house *House, name, id string) (*Agent, error) {
	a := &Agent{Name: name, house: house, st: st}
	var err error
	if a.logs, err = logs.Open(ctx, store.Sub(st, logsPart), logs.Options{
		Now: house.Now,
		// It refers to a, so that a is not built a second time while its logs
		// have something to write.
		OnEvent: func(line []byte) { house.Happened(a.Name, line) },
	}); err != nil {
		return nil, err
	}
	if a.identity, err = identity.Open(ctx, store.Sub(st, identityPart), house.Ring, name, a.note); err != nil {
		return nil, err
	}
	if err := a.openTicks(ctx, store.Sub(st, ticksPart)); err != nil {
		return nil, err
	}
	if a.status, err = status.Open(ctx, store.Sub(st, statusPart), status.Options{
		Name:        name,
		Pubkey:      a.identity.Pubkey(),
		Fill:        a.fill,
		CheckConfig: a.checkConfig,
		Events:      a.logs.Trajectory(),
		Changed:     a.stateChanged,
		Changing: func(ctx context.Context, tx store.Store, to status.State) error {
			return a.ticks.Stopped(ctx, tx, to == status.Stopped)
		},
		Configured:   a.configured,
		Reconfigured: func() error { a.inbox.Recheck(); a.tools.Reconfigured(); return a.endDisabled() },
		Commands:     commands(a.ticks.Verbs()),
		Pending:      a.ticks.Alarms,
		Note:         a.note,
	}); err != nil {
		return nil, err
	}
	if a.budget, err = budget.Open(ctx, store.Sub(st, BudgetPart), budget.Options{
		Name: name, Now: house.Now, Defaults: house.Limits, Note: a.note, Parent: house.Account,
		Moved: func(ctx context.Context, tx store.Store, from, to string) error {
			return house.Moved(ctx, tx, name, from, to)
		},
	}); err != nil {
		return nil, err
	}
	a.approvals = budget.NewApprovals(house.Life, a.budget)
	a.inbox = inbox.New(store.Sub(st, inboxPart), a.inboxOptions())
	if a.outbox, err = inbox.NewOutbox(ctx, store.Sub(st, outboxPart), name, a.reach, a.note, house.Now); err != nil {
		return nil, err
	}
	if a.goals, err = goals.New(ctx, store.Sub(st, goalsPart), a.note, a.changed(goalsPath)); err != nil {
		return nil, err
	}
	if a.state, err = state.New(ctx, store.Sub(st, statePart), state.Options{Note: a.note, Changed: a.changed(statePath)}); err != nil {
		return nil, err
	}
	if a.skills, err = skills.Open(ctx, store.Sub(st, skillsPart), a.note); err != nil {
		return nil, err
	}
	a.secrets = secrets.Open(secrets.Config{
		Store: store.Sub(st, secretsPart), Box: house.Ring.Box(secretsBox), Agent: name, Note: a.note, Now: house.Now,
		Bindings: func() map[string]json.RawMessage { return a.status.Config().Secrets },
	})
	if a.compute, err = compute.Open(house.Life, compute.Config{
		Store: store.Sub(st, computePart), Providers: house.Providers, Now: house.Now, Note: a.note, Account: a.budget,
		Approvals: a.approvals, Trace: house.Trace, Allowed: a.allowed(computePath), Token: house.Tokens.Live,
	}); err != nil {
		return nil, err
	}
	if a.tools, err = tools.Open(house.Life, a.toolsOptions()); err != nil {
		return nil, err
	}
	if a.sandboxes, err = containers.Open(house.Life, a.containersConfig(id)); err != nil {
		return nil, err
	}
	if err := a.approvals.Start(ctx); err != nil {
		return nil, err
	}
	if a.sessions, err = sessions.Open(house.Life, a.sessionOptions()); err != nil {
		return nil, err
	}
	if err := a.endDisabled(); err != nil { // if the daemon ended before it had
		return nil, err
	}
	a.operator = a.view(viewer{operator: true})
	a.self = a.view(viewer{})
	// What is taken up again works in these trees.
	return a, a.sessions.Start(house.Life)
}

// note records an event. It is a method, so that whoever can record an event
// of an agent keeps the agent: there is never a second one of the same name.
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
	for _, s := range []interface{ End() }{a.logs, a.budget, a.approvals, a.inbox, a.outbox, a.sessions, a.tools} {
		s.End()
	}
}

func (a *Agent) stateChanged(s status.State) error {
	if s == status.Stopped {
		a.sessions.Stop(errStopped)
		a.ticks.Cut()
		a.tools.Stop()
		return errors.Join(a.compute.CancelAll(nil), a.sandboxes.StopAll(nil))
	}
	return a.sessions.Start(a.house.Life)
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
	for _, part := range []struct {
		prefix string
		open   func(context.Context, store.Store) (bool, error)
	}{
		{computePart, compute.Interrupted},
		{containersPart, containers.Interrupted},
		{toolsPart, tools.Interrupted},
		{sessionsPart, sessions.Interrupted},
		{goalsPart, files.Untold},
		{statePart, files.Untold},
	} {
		if open, err := part.open(ctx, store.Sub(st, part.prefix)); open || err != nil {
			return open, err
		}
	}
	return false, nil
}

// Wait waits until the work that was cut off has ended and is recorded.
func (a *Agent) Wait(ctx context.Context) error {
	if err := a.sessions.Wait(ctx); err != nil {
		return err
	}
	if err := a.sandboxes.Wait(ctx); err != nil {
		return err
	}
	return a.endTicks(ctx, a.compute.Wait(ctx))
}

// Close cuts off what the agent is doing and waits until that is recorded, or
// until ctx ends.
func (a *Agent) Close(ctx context.Context) error {
	a.approvals.End()
	return errors.Join(a.endTicks(ctx, a.sessions.Close(ctx)), a.sandboxes.Close(ctx), a.compute.Close(ctx), a.tools.Close(ctx), a.logs.Close(ctx))
}
