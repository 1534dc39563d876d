package sandboxes

import (
	"context"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
)

// A Runner is a Provider behind the rule that nothing runs unpaid, and all
// that services get.
type Runner struct {
	id       string
	provider Provider
}

// NewRunner returns the only way to use p. id is its name among providers.
func NewRunner(id string, p Provider) *Runner { return &Runner{id: id, provider: p} }

func (r *Runner) ID() string { return r.id }

// Info is Provider.Info.
func (r *Runner) Info(ctx context.Context) (Info, error) { return r.provider.Info(ctx) }

// Images is Provider.Images.
func (r *Runner) Images(ctx context.Context) ([]Image, error) { return r.provider.Images(ctx) }

// RemoveWorkspace is Provider.RemoveWorkspace.
func (r *Runner) RemoveWorkspace(ctx context.Context, name string) error {
	return r.provider.RemoveWorkspace(ctx, name)
}

// Create makes a sandbox, paid from hold, and starts it. The caller settles
// hold with what the Usage comes to. If Create fails, nothing is left of it.
func (r *Runner) Create(ctx context.Context, hold *budget.Hold, spec Spec, progress func(line string)) (*Box, error) {
	if hold == nil {
		return nil, fsys.E(fsys.Permission, "no money was set aside for this")
	}
	if hold.Waits() {
		return nil, fsys.E(fsys.Permission, "this waits for an approval")
	}
	if progress == nil {
		progress = func(string) {}
	}
	sandbox, err := r.provider.Create(ctx, spec, progress)
	if err != nil {
		return nil, err
	}
	b := newBox(sandbox)
	b.counted = true // there were none
	if err := b.Start(ctx); err != nil {
		undo, cancel := afterwards(ctx)
		defer cancel()
		if rerr := b.Remove(undo); rerr != nil {
			return nil, fsys.Wrap(fsys.CodeOf(err), "a sandbox could not be started, nor removed ("+rerr.Error()+")", err)
		}
		return nil, err
	}
	return b, nil
}

// Open returns a sandbox that was made before. It does not run until Start. An
// id is no proof: owns says from the sandbox's name, which the provider keeps,
// whether it belongs to the caller; one that does not is NotExist.
func (r *Runner) Open(ctx context.Context, id string, owns func(name string) bool) (*Box, error) {
	sandbox, err := r.provider.Open(ctx, id)
	if err != nil {
		return nil, err
	}
	name, err := sandbox.Name(ctx)
	if err != nil {
		return nil, err
	}
	if !owns(name) {
		return nil, fsys.E(fsys.NotExist, "there is no sandbox "+id)
	}
	return newBox(sandbox), nil
}

// Sweep removes every sandbox that keep does not want. It goes on after a
// failure, and returns the first.
func (r *Runner) Sweep(ctx context.Context, keep func(Found) bool) error {
	found, err := r.provider.List(ctx)
	if err != nil {
		return err
	}
	for _, f := range found {
		if keep(f) {
			continue
		}
		if rerr := r.remove(ctx, f.ID); rerr != nil && err == nil {
			err = rerr
		}
	}
	return err
}

func (r *Runner) remove(ctx context.Context, id string) error {
	sandbox, err := r.provider.Open(ctx, id)
	if err == nil {
		err = sandbox.Remove(ctx)
	}
	if err != nil && fsys.CodeOf(err) == fsys.NotExist {
		return nil // it went meanwhile
	}
	return err
}

// afterwards is a context for what must be done although ctx has ended.
func afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
}
