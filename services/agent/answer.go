package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/programs"
	"agent9/services/secrets"
	"agent9/services/sessions"
	"agent9/services/status"
	"agent9/store"
)

// answer answers a prompt of a session with the agent's program or, if it has
// none, with its model.
func (a *Agent) answer(ctx context.Context, t sessions.Turn, out *sessions.Answer) (budget.Micros, error) {
	c := a.status.Config()
	if c.Program != nil {
		return 0, a.perform(ctx, c, t, out)
	}
	if err := a.usable(computePath); err != nil {
		return 0, err
	}
	p := c.Sessions.Profiles[t.Profile] // an empty one, if there is none
	return sessions.Model{
		Jobs: a.compute.Root(), Account: a.budget,
		Name: cmp.Or(p.Model, c.Sessions.Model), Prompt: cmp.Or(p.Prompt, c.Prompt),
	}.Answer(ctx, t, out)
}

func (a *Agent) sessionConfig() sessions.Config {
	c := a.status.Config().Sessions
	return sessions.Config{
		Idle: time.Duration(c.Idle), Keep: time.Duration(c.Keep), KeepBytes: c.KeepBytes,
		Open: c.MaxOpen, Running: c.MaxRunning, Waiting: c.MaxWaiting,
		Profiles: slices.Sorted(maps.Keys(c.Profiles)),
	}
}

// admitPrompt refuses a prompt for a model that nobody would pay, or that came
// with a token which may not ask one. What a program does may cost nothing.
func (a *Agent) admitPrompt(ctx context.Context) error {
	if id := fsys.TokenOf(ctx); id != "" {
		if err := a.mayPrompt(ctx, nil, id); err != nil {
			return err
		}
	}
	if c := a.status.Config(); c.Program != nil {
		return nil
	}
	return budget.Admit(ctx)
}

// mayPrompt returns why no prompt is answered that came with the token of this
// id, or nil: what a model answers is a job of the token's. A program does what
// the operator has it do for whoever may prompt.
func (a *Agent) mayPrompt(ctx context.Context, tx store.Store, id string) error {
	_, write, err := a.house.Tokens.May(ctx, tx, id, computePath)
	if err == nil && !write && a.status.Config().Program == nil {
		err = fsys.E(fsys.Permission, "the prompt would be a job, and the token has no right to write at "+computePath)
	}
	return err
}

// perform has the agent's program answer t. It works in the agent's own tree,
// in which all acts at once; what it spends there is in the books of that.
func (a *Agent) perform(ctx context.Context, c status.Config, t sessions.Turn, out *sessions.Answer) error {
	program, err := a.program(*c.Program)
	if err != nil {
		return err
	}
	if out.Resumed() {
		if err := out.Again(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Tick.Timeout(), programs.ErrTimedOut)
	defer cancel()
	root := a.Self()
	addr, doneAddr := shared(a.house.ServeTick, a.Name, root)
	defer doneAddr()
	mount, doneMount := shared(a.house.MountTick, a.Name, root)
	defer doneMount()
	_, err = program.Run(ctx, programs.Trigger{
		Tick: fmt.Sprintf("session-%d-%d", t.Session, t.Prompt), Agent: a.Name, Cause: programs.Asked,
		Time: fsys.Stamp(a.house.Now()), Attempt: out.Attempt(),
		Prompt: &programs.Prompt{
			Session: t.Session, Prompt: t.Prompt, Author: t.Author, Title: t.Title, Profile: t.Profile,
			Text: t.Text, Data: t.Data,
		},
	}, programs.Env{NS: root, Addr: addr, Mount: mount, Secret: a.secretFor(secrets.Net), Output: out})
	var failed *programs.Failure
	if errors.As(err, &failed) {
		return fsys.E(fsys.Unavailable, failed.Reason)
	}
	return err
}

// shared returns what shares root when it is first asked, and what ends that.
func shared(share Share, name string, root fsys.Node) (at func() (string, error), done func()) {
	end := func() {}
	at = sync.OnceValues(func() (where string, err error) {
		if share == nil {
			return "", fsys.E(fsys.Unsupported, "this daemon cannot do that")
		}
		var stop func()
		if where, stop, err = share(name, root); err == nil {
			end = stop
		}
		return where, err
	})
	return at, func() { end() }
}
