package agent

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"agent9/fsys"
	"agent9/namespace"
	"agent9/providers/programs"
	"agent9/services/inbox"
	"agent9/services/secrets"
	"agent9/services/state"
	"agent9/services/status"
	"agent9/services/ticks"
	"agent9/store"
)

// room is what a tick works in: the agent's own tree, in which state, outbox
// and some commands of ctl are held back until the tick is committed, and
// everything else acts at once.
type room struct {
	agent *Agent
	draft *state.Draft
	batch *inbox.Batch
	over  atomic.Bool

	mu    sync.Mutex
	done  []func() // last one first
	addr  string
	mount string
}

var _ ticks.Room = (*room)(nil)

// newRoom locks the agent's state for a tick.
func (a *Agent) newRoom() (ticks.Room, error) {
	draft, err := a.state.Lock()
	if err != nil {
		return nil, err
	}
	return &room{agent: a, draft: draft, batch: a.outbox.Batch()}, nil
}

func (r *room) Open(ctx context.Context, t programs.Trigger, staged *ticks.Staged) (programs.Env, error) {
	files, err := r.draft.Open(ctx)
	if err != nil {
		return programs.Env{}, err
	}
	ns := r.agent.view(viewer{room: r, instead: map[string]fsys.Node{
		statePath:  files,
		outboxPath: r.batch.Root(),
		ctlPath:    r.agent.status.Ctl(commands(staged.Verbs())),
	}})
	root := ns.Root()
	return programs.Env{
		NS: root,
		Addr: func() (string, error) {
			return r.once(&r.addr, r.agent.house.ServeTick, root)
		},
		Mount: func() (string, error) {
			return r.once(&r.mount, r.agent.house.MountTick, root)
		},
		Secret: r.agent.secretFor(secrets.Net),
	}, nil
}

// A Share makes an agent's tree reachable from outside of this program, until
// done is called, and returns where.
type Share func(agent string, root fsys.Node) (at string, done func(), err error)

// once shares root unless that was done.
func (r *room) once(at *string, share Share, root fsys.Node) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.over.Load():
		return "", fsys.E(fsys.Unavailable, "the tick is over")
	case *at != "":
		return *at, nil
	case share == nil:
		return "", fsys.E(fsys.Unsupported, "this daemon cannot do that")
	}
	where, done, err := share(r.agent.Name, root)
	if err != nil {
		return "", err
	}
	*at = where
	r.done = append(r.done, done)
	return where, nil
}

func (r *room) Commit(ctx context.Context, tx store.Store) error {
	r.leave()
	if err := r.draft.Commit(ctx, tx); err != nil {
		return fsys.Wrap(fsys.Internal, "state", err)
	}
	return r.batch.Commit(ctx, tx)
}

// leave ends what was seen of the room: nothing is added to it any more.
func (r *room) leave() { r.over.Store(true) }

func (r *room) Close() {
	r.leave()
	r.mu.Lock()
	done := r.done
	r.done = nil
	r.mu.Unlock()
	for _, f := range slices.Backward(done) {
		f()
	}
	r.batch.Close()
	r.draft.Close()
}

func commands(verbs []ticks.Verb) []status.Command {
	var list []status.Command
	for _, v := range verbs {
		list = append(list, status.Command{Verb: v.Name, Args: v.Args, Help: v.Help, Do: v.Do})
	}
	return list
}

// own marks what a tick changes as its own.
func own() namespace.Option {
	return namespace.Gated(func() string { return "" }, func(ctx context.Context, _ namespace.Op, _ fsys.Effect) (context.Context, error) {
		return ticks.Own(ctx), nil
	})
}
