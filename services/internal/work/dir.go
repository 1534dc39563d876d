package work

import (
	"context"
	"slices"
	"time"

	"agent9/fsys"
)

// Work is what has a directory made by [Dir].
type Work interface {
	// Present fails with NotExist if the work has been removed.
	Present() error
	// Hidden are the names of files that were removed.
	Hidden() []string
	// ModTime is when something happened to the work last.
	ModTime() time.Time
	// Hide takes a file out of the directory.
	Hide(ctx context.Context, name string) error
	// Remove removes the work; it may go on for a while, unseen.
	Remove(ctx context.Context) error
}

// A File is one that the directory of every W has.
type File[W any] struct {
	Name string
	Node func(W) fsys.Node
}

// Dir is the directory of w, which has files. Removing one of them only hides
// it, so that rm -r works; removing the directory removes w.
func Dir[W Work](w W, files []File[W]) fsys.Node { return fsys.NewTableWith(dir[W]{w, files}) }

type dir[W Work] struct {
	w     W
	files []File[W]
}

func (d dir[W]) Walk(_ context.Context, name string) (fsys.Node, error) {
	if err := d.w.Present(); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(d.files, func(f File[W]) bool { return f.Name == name })
	if i < 0 || slices.Contains(d.w.Hidden(), name) {
		return nil, fsys.NotExist
	}
	return d.node(d.files[i]), nil
}

func (d dir[W]) List(context.Context) ([]fsys.Entry, error) {
	if err := d.w.Present(); err != nil {
		return nil, err
	}
	hidden := d.w.Hidden()
	var list []fsys.Entry
	for _, f := range d.files {
		if !slices.Contains(hidden, f.Name) {
			list = append(list, fsys.Entry{Name: f.Name, Node: d.node(f)})
		}
	}
	return list, nil
}

func (d dir[W]) Stat(context.Context) (fsys.Info, error) {
	if err := d.w.Present(); err != nil {
		return fsys.Info{}, err
	}
	return fsys.Info{Perm: 0o755, ModTime: d.w.ModTime()}, nil
}

func (d dir[W]) Remove(ctx context.Context) error {
	if err := d.w.Present(); err != nil {
		return err
	}
	return d.w.Remove(ctx)
}

// node is the node of f. A directory is as it is; a file can be hidden.
func (d dir[W]) node(f File[W]) fsys.Node {
	n := f.Node(d.w)
	if sub, ok := n.(fsys.Dir); ok {
		return sub
	}
	return file{d.w, f.Name, n}
}

// file is a file of w. Removing it hides it.
type file struct {
	w    Work
	name string
	node fsys.Node
}

var (
	_ fsys.Truncater = file{}
	_ fsys.Remover   = file{}
)

func (f file) Stat(ctx context.Context) (fsys.Info, error) {
	if err := f.w.Present(); err != nil {
		return fsys.Info{}, err
	}
	info, err := f.node.Stat(ctx)
	info.ModTime = f.w.ModTime()
	return info, err
}

func (f file) Open(ctx context.Context, flag fsys.Flag) (fsys.Handle, error) {
	if err := f.w.Present(); err != nil {
		return nil, err
	}
	return f.node.Open(ctx, flag)
}

func (f file) Truncate(ctx context.Context, size int64) error {
	return fsys.Truncate(ctx, f.node, size)
}

func (f file) Remove(ctx context.Context) error {
	if err := f.w.Present(); err != nil {
		return err
	}
	return f.w.Hide(ctx, f.name)
}
