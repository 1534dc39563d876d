package agent

import (
	"context"
	"net"

	sandboxes "agent9/providers/containers"
	"agent9/services/containers"
	"agent9/services/secrets"
	"agent9/store"
)

func (a *Agent) containersConfig(id string) containers.Config {
	c := containers.Config{
		Store: store.Sub(a.st, containersPart), Providers: a.house.Sandboxes, Now: a.house.Now, Note: a.note,
		Account: a.budget, Approvals: a.approvals, Allowed: a.allowed(containersPath), Token: a.house.Token, Agent: a.Name, Owner: id,
		GitSecret: a.secretFor(secrets.Git),
		EnvSecret: func(ctx context.Context, name string) ([]byte, error) {
			return a.secrets.Get(ctx, name, secrets.Env, "")
		},
		Skills: a.skillFiles,
	}
	if serve := a.house.Serve; serve != nil {
		c.Serve = func(ctx context.Context, conn net.Conn) { serve(ctx, a.Name, conn) }
	}
	return c
}

// skillFiles are the agent's skills as a sandbox has them.
func (a *Agent) skillFiles(ctx context.Context) ([]sandboxes.File, error) {
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
