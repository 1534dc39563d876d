package fsys

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
)

// A Table is a directory written down as data: each name once, so that Walk,
// List and Stat cannot disagree about what exists.
type Table struct {
	entries []Entry
	index   map[string]Node
	more    Set
	perm    fs.FileMode
}

// A Set is the part of a Table that comes and goes, such as one entry per
// job. Walk is a keyed look-up and returns NotExist for a name that is not
// there. A Set that also has Mkdir, Create, Rename or Remove (as in [Maker],
// [Creator], [Renamer], [Remover]) gives the Table that ability.
type Set interface {
	Walk(ctx context.Context, name string) (Node, error)
	List(ctx context.Context) ([]Entry, error)
}

var (
	_ FileService = (*Table)(nil)
	_ Creator     = (*Table)(nil)
	_ Maker       = (*Table)(nil)
	_ Renamer     = (*Table)(nil)
	_ Remover     = (*Table)(nil)
)

// NewTable returns a directory of fixed entries. It panics on a name that is
// given twice or cannot be one.
func NewTable(entries ...Entry) *Table { return NewTableWith(nil, entries...) }

// NewTableWith returns a directory of fixed entries and those of more, which
// may be nil. A fixed entry hides one of the same name in more.
func NewTableWith(more Set, entries ...Entry) *Table {
	t := &Table{entries: entries, index: make(map[string]Node, len(entries)), more: more, perm: 0o555}
	for _, e := range entries {
		if err := CheckName(e.Name); err != nil {
			panic(fmt.Sprintf("fsys: name %q: %v", e.Name, err))
		}
		if t.index[e.Name] != nil || e.Node == nil {
			panic(fmt.Sprintf("fsys: name %q is given twice, or without a node", e.Name))
		}
		t.index[e.Name] = e.Node
	}
	switch more.(type) {
	case setMaker, setCreator:
		t.perm = 0o755
	}
	return t
}

type (
	setMaker interface {
		Mkdir(ctx context.Context, name string, perm fs.FileMode) (Node, error)
	}
	setCreator interface {
		Create(ctx context.Context, name string, perm fs.FileMode, flag Flag) (Node, Handle, error)
	}
	setRenamer interface {
		Rename(ctx context.Context, name, newName string) error
	}
	setRemover interface {
		Remove(ctx context.Context) error
	}
	setStater interface {
		Stat(ctx context.Context) (Info, error)
	}
)

func (t *Table) Root() Node { return t }

// Stat asks the Set, if that has a Stat, for everything but the kind.
func (t *Table) Stat(ctx context.Context) (Info, error) {
	info := Info{Perm: t.perm}
	if s, ok := t.more.(setStater); ok {
		var err error
		if info, err = s.Stat(ctx); err != nil {
			return Info{}, err
		}
	}
	info.Kind = Directory
	return info, nil
}

func (t *Table) Open(_ context.Context, f Flag) (Handle, error) { return OpenDir(f) }

// OpenDir is what Open of any directory does: only reading is allowed.
func OpenDir(f Flag) (Handle, error) {
	if f&^Excl != Read {
		return nil, IsDir
	}
	return dirHandle{}, nil
}

type dirHandle struct{}

func (dirHandle) Close() error { return nil }

func (dirHandle) ReadAt(context.Context, []byte, int64) (int, error) { return 0, IsDir }

func (t *Table) Walk(ctx context.Context, name string) (Node, error) {
	if n := t.index[name]; n != nil {
		return n, nil
	}
	if t.more == nil {
		return nil, NotExist
	}
	return t.more.Walk(ctx, name)
}

func (t *Table) List(ctx context.Context) ([]Entry, error) {
	if t.more == nil {
		return t.entries, nil
	}
	more, err := t.more.List(ctx)
	if err != nil || len(t.entries) == 0 {
		return more, err
	}
	all := slices.Clone(t.entries)
	for _, e := range more {
		if t.index[e.Name] == nil {
			all = append(all, e)
		}
	}
	return all, nil
}

func (t *Table) Create(ctx context.Context, name string, perm fs.FileMode, flag Flag) (Node, Handle, error) {
	if t.index[name] != nil {
		return nil, nil, Exist
	}
	if c, ok := t.more.(setCreator); ok {
		return c.Create(ctx, name, perm, flag)
	}
	return nil, nil, E(Permission, "files cannot be created in this directory")
}

func (t *Table) Mkdir(ctx context.Context, name string, perm fs.FileMode) (Node, error) {
	if t.index[name] != nil {
		return nil, Exist
	}
	if m, ok := t.more.(setMaker); ok {
		return m.Mkdir(ctx, name, perm)
	}
	return nil, E(Permission, "directories cannot be created in this directory")
}

func (t *Table) Rename(ctx context.Context, name, newName string) error {
	r, ok := t.more.(setRenamer)
	if !ok || t.index[name] != nil || t.index[newName] != nil {
		return E(Permission, "this cannot be renamed")
	}
	return r.Rename(ctx, name, newName)
}

func (t *Table) Remove(ctx context.Context) error {
	if r, ok := t.more.(setRemover); ok {
		return r.Remove(ctx)
	}
	return E(Permission, "this directory cannot be removed")
}
