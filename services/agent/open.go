package agent

import (
	"context"
	"encoding/json"

	"agent9/fsys"
	"agent9/namespace/budget"
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
	"agent9/services/tools"
	"agent9/store"
)

// opening is what a service can do that has more than its root, and was opened
// unless err: a method End, Wait or Close is what [opened] says of it.
func opening(s fsys.FileService, err error, more ...fsys.Node) (opened, error) {
	if err != nil {
		return opened{}, err
	}
	o := opened{roots: append([]fsys.Node{s.Root()}, more...)}
	if s, ok := s.(interface{ End() }); ok {
		o.end = s.End
	}
	if s, ok := s.(interface{ Wait(context.Context) error }); ok {
		o.wait = s.Wait
	}
	if s, ok := s.(interface{ Close(context.Context) error }); ok {
		o.close = s.Close
	}
	return o, nil
}

func openLogs(ctx context.Context, e Env) (_ opened, err error) {
	e.Agent.logs, err = logs.Open(ctx, e.Store, logs.Options{Now: e.Now, OnEvent: func(line []byte) { e.Happened(e.Agent.Name, line) }})
	return opening(e.Agent.logs, err)
}

func createIdentity(ctx context.Context, tx store.Store, house *House, name string) error {
	_, err := identity.Create(ctx, tx, house.Ring, name)
	return err
}

func openIdentity(ctx context.Context, e Env) (_ opened, err error) {
	e.Agent.identity, err = identity.Open(ctx, e.Store, e.Ring, e.Agent.Name, e.Note)
	return opening(e.Agent.identity, err)
}

func createStatus(ctx context.Context, tx store.Store, house *House, _ string) error {
	return status.Create(ctx, tx, house.Now())
}

func openStatus(ctx context.Context, e Env) (o opened, err error) {
	a := e.Agent
	a.status, err = status.Open(ctx, e.Store, status.Options{
		Name:        a.Name,
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
		Note:         e.Note,
	})
	if err != nil {
		return o, err
	}
	return opening(a.status, nil, nil, a.status.ConfigFile())
}

func openBudget(ctx context.Context, e Env) (o opened, err error) {
	a := e.Agent
	a.budget, err = budget.Open(ctx, e.Store, budget.Options{
		Name: a.Name, Now: e.Now, Defaults: e.Limits, Note: e.Note, Parent: e.Account,
		Moved: func(ctx context.Context, tx store.Store, from, to string) error {
			return e.Moved(ctx, tx, a.Name, from, to)
		},
	})
	if err != nil {
		return o, err
	}
	a.approvals = budget.NewApprovals(e.Life, a.budget)
	return opened{
		roots: []fsys.Node{a.budget.Root(), a.approvals.Root()},
		start: func() error { return a.approvals.Start(e.Life) },
		end:   func() { a.budget.End(); a.approvals.End() },
		close: func(context.Context) error { a.approvals.End(); return nil },
	}, nil
}

func openInbox(_ context.Context, e Env) (opened, error) {
	a := e.Agent
	a.inbox = inbox.New(e.Store, inbox.Options{
		Config:   a.inboxConfig,
		Note:     e.Note,
		Now:      e.Now,
		Reserved: func() bool { c := a.status.Config(); return c.OnMessages() },
		Arrived:  a.ticks.Arrived,
		Freed:    a.ticks.Freed,
	})
	return opening(a.inbox, nil, a.inbox.DeadLetter())
}

func openOutbox(ctx context.Context, e Env) (_ opened, err error) {
	e.Agent.outbox, err = inbox.NewOutbox(ctx, e.Store, e.Agent.Name, e.Agent.reach, e.Note, e.Now)
	return opening(e.Agent.outbox, err)
}

func openGoals(ctx context.Context, e Env) (opened, error) {
	tree, err := goals.New(ctx, e.Store, e.Note, e.Agent.changed(goalsPath))
	return opening(tree, err)
}

func openState(ctx context.Context, e Env) (_ opened, err error) {
	e.Agent.state, err = state.New(ctx, e.Store, state.Options{Note: e.Note, Changed: e.Agent.changed(statePath)})
	return opening(e.Agent.state, err)
}

func openSkills(ctx context.Context, e Env) (_ opened, err error) {
	e.Agent.skills, err = skills.Open(ctx, e.Store, e.Note)
	return opening(e.Agent.skills, err)
}

func openSecrets(_ context.Context, e Env) (opened, error) {
	a := e.Agent
	a.secrets = secrets.Open(secrets.Config{
		Store: e.Store, Box: e.Ring.Box(secretsBox), Agent: a.Name, Note: e.Note, Now: e.Now,
		Bindings: func() map[string]json.RawMessage { return a.status.Config().Secrets },
	})
	return opening(a.secrets, nil)
}

func openCompute(_ context.Context, e Env) (o opened, err error) {
	a := e.Agent
	a.compute, err = compute.Open(e.Life, compute.Config{
		Store: e.Store, Providers: e.Providers, Now: e.Now, Note: e.Note, Account: a.budget,
		Approvals: a.approvals, Trace: e.Trace, Allowed: a.allowed(computePath), Token: e.Tokens.Live,
	})
	if err != nil {
		return o, err
	}
	o, err = opening(a.compute, nil, a.compute.Policy())
	o.cancel = a.compute.CancelAll
	return o, err
}

func openTools(_ context.Context, e Env) (o opened, err error) {
	a := e.Agent
	a.tools, err = tools.Open(e.Life, tools.Options{
		Store: e.Store, Provider: e.Tools, Secret: a.secretFor(secrets.Tools), Note: e.Note,
		Account: a.budget, Working: a.mayWork, Now: e.Now,
		Servers: func() map[string]json.RawMessage { return a.status.Config().Tools },
	})
	o, err = opening(a.tools, err)
	o.stop = a.tools.Stop
	return o, err
}

func openContainers(_ context.Context, e Env) (o opened, err error) {
	a := e.Agent
	if a.sandboxes, err = containers.Open(e.Life, a.containersConfig(e)); err != nil {
		return o, err
	}
	o, err = opening(a.sandboxes, nil, a.sandboxes.Policy())
	o.cancel = a.sandboxes.StopAll
	return o, err
}

func openSessions(_ context.Context, e Env) (o opened, err error) {
	a := e.Agent
	s, err := sessions.Open(e.Life, sessions.Options{
		Store: e.Store, Name: a.Name, Run: a.answer, Admit: a.admitPrompt,
		Config: a.sessionConfig, Note: e.Note, Now: e.Now,
		Working: a.mayWork, Token: a.mayPrompt,
	})
	o, err = opening(s, err)
	o.start = func() error { return s.Start(e.Life) }
	o.stop = func() { s.Stop(errStopped) }
	return o, err
}

// secretFor gives out secrets for one use.
func (a *Agent) secretFor(use secrets.Use) func(ctx context.Context, name, target string) ([]byte, error) {
	return func(ctx context.Context, name, target string) ([]byte, error) {
		return a.secrets.Get(ctx, name, use, target)
	}
}
