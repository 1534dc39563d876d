package agent

import (
	"context"
	"net"

	"agent9/fsys"
	"agent9/providers/sandboxes"
	"agent9/services/containers"
	"agent9/services/secrets"
	"agent9/services/tokens"
	"agent9/store"
)

func (a *Agent) containersConfig(e Env) containers.Config {
	c := containers.Config{
		Store: e.Store, Providers: e.Sandboxes, Now: e.Now, Note: e.Note,
		Account: a.budget, Approvals: a.approvals, Allowed: a.allowed(containersPath), Token: e.Tokens.Live, Agent: a.Name, Owner: e.ID,
		GitSecret: a.secretFor(secrets.Git),
		EnvSecret: func(ctx context.Context, name string) ([]byte, error) {
			return a.secrets.Get(ctx, name, secrets.Env, "")
		},
		Skills: a.skillFiles,
	}
	if serve := e.Serve; serve != nil {
		c.Serve = func(_ context.Context, token string, conn net.Conn) { serve(a.Name, a.inside(token), conn) }
	}
	return c
}

// Inside returns the tree that a program in a sandbox sees, and what is closed
// when that is over, or nil; it is watched as long as life lasts.
type Inside func(ctx, life context.Context) (root fsys.Node, done <-chan struct{}, err error)

// inside is for a sandbox that came with the token of this id, or with none. What
// was begun with a token may no more than it, and nothing after it.
func (a *Agent) inside(token string) Inside {
	return func(ctx, life context.Context) (fsys.Node, <-chan struct{}, error) {
		if token == "" {
			return a.Self(), nil, nil
		}
		grant, done, err := a.house.Tokens.Follow(life, token)
		if err != nil {
			return nil, nil, err
		}
		return a.Limited(token, grant.At, tokens.Ended(done)), done, nil
	}
}

// skillFiles are the agent's skills as a sandbox has them: none, if it came with
// a token that may not read them.
func (a *Agent) skillFiles(ctx context.Context) ([]sandboxes.File, error) {
	if id := fsys.TokenOf(ctx); id != "" {
		if read, _, err := a.house.Tokens.May(ctx, nil, id, skillsPath); !read || err != nil {
			return nil, err
		}
	}
	list, err := a.skills.Files(ctx)
	files := make([]sandboxes.File, len(list))
	for i, f := range list {
		files[i] = sandboxes.File{Name: f.Name, Data: f.Data}
	}
	return files, err
}

// Purge removes the sandboxes of an agent that is about to be removed.
func (a *Agent) Purge(ctx context.Context) error { return a.sandboxes.Purge(ctx) }

// WantsSandbox reports whether the sandbox that a provider has under this name
// and id is that of a session of the agent whose part of the store is st.
func WantsSandbox(ctx context.Context, st store.Updater, name, id string) (bool, error) {
	return containers.Wanted(ctx, store.Sub(st, containersPart), name, id)
}

// SandboxOwner returns the id of the agent whose sandbox has this name.
func SandboxOwner(name string) (id string, ok bool) {
	id, _, ok = containers.ParseSandboxName(name)
	return id, ok
}
