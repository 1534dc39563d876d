package work

import (
	"context"

	"agent9/fsys"
)

// A Walker has nodes by name.
type Walker interface {
	Walk(ctx context.Context, name string) (fsys.Node, error)
}

// Later is the directory that has a name in dir when something is done with
// it: listing names costs no look at what they are for.
func Later(dir Walker, name string) fsys.Node {
	return later{dir.Walk, name}
}

type later struct {
	walk func(ctx context.Context, name string) (fsys.Node, error)
	name string
}

var (
	_ fsys.Dir     = later{}
	_ fsys.Remover = later{}
)

func (l later) now(ctx context.Context) (fsys.Node, error) { return l.walk(ctx, l.name) }

func (l later) Stat(ctx context.Context) (fsys.Info, error) {
	n, err := l.now(ctx)
	if err != nil {
		return fsys.Info{}, err
	}
	return n.Stat(ctx)
}

func (l later) Open(ctx context.Context, flag fsys.Flag) (fsys.Handle, error) {
	n, err := l.now(ctx)
	if err != nil {
		return nil, err
	}
	return n.Open(ctx, flag)
}

func (l later) Walk(ctx context.Context, name string) (fsys.Node, error) {
	n, err := l.now(ctx)
	if err != nil {
		return nil, err
	}
	return fsys.Walk(ctx, n, name)
}

func (l later) List(ctx context.Context) ([]fsys.Entry, error) {
	n, err := l.now(ctx)
	if err != nil {
		return nil, err
	}
	return fsys.List(ctx, n)
}

func (l later) Remove(ctx context.Context) error {
	n, err := l.now(ctx)
	if err != nil {
		return err
	}
	return fsys.Remove(ctx, n)
}
