package host

import (
	"context"

	"agent9/fsys"
)

// purse is the directory of an account.
type purse struct {
	accounts *accounts
	name     string
	entry    entry
}

var (
	_ fsys.Dir     = (*purse)(nil)
	_ fsys.Remover = (*purse)(nil)
)

func (p *purse) root() (fsys.Node, error) {
	a, err := p.accounts.loaded(p.entry.ID)
	if err != nil {
		return nil, err
	}
	return a.Root(), nil
}

func (p *purse) Stat(context.Context) (fsys.Info, error) {
	if _, err := p.root(); err != nil {
		return fsys.Info{}, err
	}
	return fsys.Info{Kind: fsys.Directory, Perm: 0o555, Gen: p.entry.ID}, nil
}

func (p *purse) Open(_ context.Context, f fsys.Flag) (fsys.Handle, error) { return fsys.OpenDir(f) }

func (p *purse) Walk(ctx context.Context, name string) (fsys.Node, error) {
	root, err := p.root()
	if err != nil {
		return nil, err
	}
	return fsys.Walk(ctx, root, name)
}

func (p *purse) List(ctx context.Context) ([]fsys.Entry, error) {
	root, err := p.root()
	if err != nil {
		return nil, err
	}
	return fsys.List(ctx, root)
}

func (p *purse) Remove(ctx context.Context) error {
	return p.accounts.remove(ctx, p.name, p.entry)
}
