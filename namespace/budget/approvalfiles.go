package budget

import (
	"context"
	"io/fs"

	"agent9/fsys"
)

// Root returns the directory of what waits, a file each.
func (p *Approvals) Root() fsys.Node { return fsys.NewTableWith(waiting{p}) }

type waiting struct{ p *Approvals }

func (d waiting) Walk(ctx context.Context, id string) (fsys.Node, error) {
	if _, err := d.p.load(ctx, d.p.a.st, id); err != nil {
		return nil, err
	}
	return d.p.file(id), nil
}

// Create is what a shell's > asks for when a file is gone: it is told why.
func (d waiting) Create(ctx context.Context, id string, _ fs.FileMode, _ fsys.Flag) (fsys.Node, fsys.Handle, error) {
	if _, err := d.Walk(ctx, id); err == nil {
		return nil, nil, fsys.Exist
	}
	return nil, nil, notOpen(id)
}

func (d waiting) Stat(context.Context) (fsys.Info, error) { return fsys.Info{Perm: 0o555}, nil }

func (d waiting) List(ctx context.Context) ([]fsys.Entry, error) {
	var list []fsys.Entry
	for w, err := range d.p.all(ctx) {
		if err != nil {
			return nil, err
		}
		list = append(list, fsys.Entry{Name: w.ID, Node: d.p.file(w.ID)})
	}
	return list, nil
}

// approvalFile is a Ctl that is there as long as its approval waits.
type approvalFile struct {
	*fsys.Ctl
	look func(ctx context.Context) ([]byte, error)
}

func (p *Approvals) file(id string) fsys.Node {
	look := func(ctx context.Context) ([]byte, error) {
		w, err := p.load(ctx, p.a.st, id)
		return fsys.Line(w), err
	}
	decide := func(ctx context.Context, words []string) ([]byte, error) { return nil, p.decide(ctx, id, words) }
	return approvalFile{&fsys.Ctl{Do: decide, Text: look}, look}
}

func (f approvalFile) Stat(ctx context.Context) (fsys.Info, error) {
	if _, err := f.look(ctx); err != nil {
		return fsys.Info{}, err
	}
	return f.Ctl.Stat(ctx)
}

func (f approvalFile) Open(ctx context.Context, flag fsys.Flag) (fsys.Handle, error) {
	if _, err := f.look(ctx); err != nil {
		return nil, err
	}
	return f.Ctl.Open(ctx, flag)
}
