package tokens

import (
	"context"

	"agent9/fsys"
	"agent9/store"
)

// files is the directory: one file per live token, in the order of their ids.
type files struct{ *Tokens }

var _ fsys.Set = files{}

// Stat gives the permission to remove.
func (files) Stat(context.Context) (fsys.Info, error) { return fsys.Info{Perm: 0o700}, nil }

func (t files) Walk(ctx context.Context, name string) (fsys.Node, error) {
	if _, _, err := t.find(ctx, t.st, name); err != nil && !store.IsDamaged(err) {
		return nil, err
	}
	return file{t.Tokens, name}, nil
}

func (t files) List(ctx context.Context) ([]fsys.Entry, error) {
	var list []fsys.Entry
	now := t.opts.Now()
	for p, err := range store.All(ctx, store.Forgiving(t.st), byHash) {
		if err != nil {
			return nil, err
		}
		if id := p.Key[len(byHash):]; p.Value == nil && len(id) > idDigits { // it can be removed
			list = append(list, fsys.Entry{Name: id[:idDigits], Node: file{t.Tokens, id[:idDigits]}})
			continue
		}
		var g Grant
		if err := g.UnmarshalJSON(p.Value); err != nil {
			return nil, fsys.Wrap(fsys.Internal, "a token's record", err)
		}
		if !g.expired(now) {
			list = append(list, fsys.Entry{Name: g.ID, Node: file{t.Tokens, g.ID}})
		}
	}
	return list, nil
}

// file describes one token.
type file struct {
	tokens *Tokens
	id     string
}

var _ fsys.Remover = file{}

func (f file) text() fsys.Node {
	return fsys.JSON(func(ctx context.Context) (Grant, error) {
		_, g, err := f.tokens.find(ctx, f.tokens.st, f.id)
		return g, err
	})
}

// Stat shows a file that its owner may write, so that rm does not ask back.
func (f file) Stat(ctx context.Context) (fsys.Info, error) {
	info, err := f.text().Stat(ctx)
	info.Perm = 0o600
	if store.IsDamaged(err) {
		err = nil // it is there, and can be removed
	}
	return info, err
}

func (f file) Open(ctx context.Context, flag fsys.Flag) (fsys.Handle, error) {
	return f.text().Open(ctx, flag)
}

func (f file) Remove(ctx context.Context) error { return f.tokens.Revoke(ctx, f.id) }
