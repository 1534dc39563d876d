package files

import (
	"context"
	"errors"
	"io/fs"

	"agent9/fsys"
	"agent9/store"
)

// dir is a directory, whatever its name is by now.
type dir struct {
	tree *Tree
	ino  uint64
}

var (
	_ fsys.Creator    = (*dir)(nil)
	_ fsys.Maker      = (*dir)(nil)
	_ fsys.Renamer    = (*dir)(nil)
	_ fsys.Remover    = (*dir)(nil)
	_ fsys.AttrSetter = (*dir)(nil)
)

func (d *dir) ID() fsys.ID { return d.tree.id(d.ino) }

func (d *dir) Stat(ctx context.Context) (fsys.Info, error) {
	return statInode(ctx, d.tree.st, d.ino, true)
}

func (d *dir) Open(_ context.Context, f fsys.Flag) (fsys.Handle, error) { return fsys.OpenDir(f) }

func (d *dir) Walk(ctx context.Context, name string) (fsys.Node, error) {
	e, err := loadEntry(ctx, d.tree.st, d.ino, name)
	switch {
	case store.IsDamaged(err):
		return &nameOnly{d, name}, nil
	case err != nil:
		return nil, err
	}
	return e.node(d.tree), nil
}

// List returns the entries in the order of their names, with what they are, as
// one moment saw them. Of what is damaged nothing but the name is known.
func (d *dir) List(ctx context.Context) ([]fsys.Entry, error) {
	var list []fsys.Entry
	err := d.tree.st.View(ctx, func(s store.Store) error {
		s = store.Forgiving(s)
		entries, err := listDir(ctx, s, d.ino)
		if err != nil {
			return err
		}
		list = make([]fsys.Entry, len(entries))
		infos := make([]fsys.Info, len(entries))
		inodes, err := inodesOf(ctx, s, entries)
		if err != nil {
			return err
		}
		for i, e := range entries {
			if inodes[i] != (inode{}) {
				infos[i] = inodes[i].info(e.Ino)
			}
			list[i] = fsys.Entry{Name: e.name, Node: e.node(d.tree), Info: &infos[i]}
			if e.Ino == 0 {
				list[i].Node = &nameOnly{d, e.name}
			}
		}
		return nil
	})
	return list, err
}

// inodesOf returns the inode of each entry; an empty one is damaged. Files that were made one after the
// other have numbers that follow one another, and are read so.
func inodesOf(ctx context.Context, s store.Store, entries []named) ([]inode, error) {
	inodes := make([]inode, len(entries))
	if len(entries) == 0 {
		return inodes, nil
	}
	first, last := entries[0].Ino, entries[0].Ino
	for _, e := range entries {
		first, last = min(first, e.Ino), max(last, e.Ino)
	}
	span := last - first + 1
	if span > 2*uint64(len(entries)) || first == 0 {
		for i, e := range entries {
			if e.Ino == 0 {
				continue
			}
			var err error
			if inodes[i], err = loadInode(ctx, s, e.Ino); err != nil && !store.IsDamaged(err) {
				return nil, err
			}
		}
		return inodes, nil
	}
	at := make([]int, span) // 1 + the index of the entry
	for i, e := range entries {
		at[e.Ino-first] = 1 + i
	}
	missing := len(entries)
	var bad error
	err := store.Scan(ctx, s, inodePart, inodeKey(first-1), func(key string, value []byte) bool {
		ino, ok := parseIno(key[len(inodePart):])
		if !ok || ino > last {
			return false
		}
		if i := at[ino-first]; i > 0 {
			if value != nil { // else it is damaged
				bad = decode(key, value, &inodes[i-1])
			}
			missing--
		}
		return bad == nil && missing > 0
	})
	if err == nil {
		err = bad
	}
	if err == nil && missing > 0 {
		err = fsys.E(fsys.Internal, "an entry of a directory has no inode")
	}
	return inodes, err
}

// A named entry is one with its name in the directory.
type named struct {
	entry
	name string
}

// listDir returns the entries of a directory in the order of their names.
func listDir(ctx context.Context, s store.Store, ino uint64) ([]named, error) {
	prefix := entriesOf(ino)
	var list []named
	var bad error
	err := store.Scan(ctx, s, prefix, "", func(key string, value []byte) bool {
		e := named{name: key[len(prefix):]}
		if value != nil { // else it is damaged, and which inode it has is not known
			bad = decode(key, value, &e.entry)
		}
		list = append(list, e)
		return bad == nil
	})
	if err == nil {
		err = bad
	}
	return list, err
}

func (d *dir) Create(ctx context.Context, name string, perm fs.FileMode, flag fsys.Flag) (fsys.Node, fsys.Handle, error) {
	if err := checkFlag(flag); err != nil {
		return nil, nil, err
	}
	f := &file{tree: d.tree}
	err := d.tree.update(ctx, func(c *change) error {
		var err error
		if f.ino, err = c.add(d.ino, name, inode{Perm: perm.Perm()}); err == nil {
			// Counted before others can see the file and remove it.
			d.tree.opens.add(f.ino)
		}
		return err
	})
	if err != nil {
		if f.ino != 0 {
			d.tree.opens.done(f.ino)
		}
		return nil, nil, err
	}
	return f, newHandle(ctx, f, flag), nil
}

func (d *dir) Mkdir(ctx context.Context, name string, perm fs.FileMode) (fsys.Node, error) {
	made := &dir{tree: d.tree}
	err := d.tree.update(ctx, func(c *change) (err error) {
		made.ino, err = c.add(d.ino, name, inode{Dir: true, Perm: perm.Perm()})
		return err
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}

// Rename replaces a file with a file, and an empty directory with a
// directory.
func (d *dir) Rename(ctx context.Context, name, newName string) error {
	return d.tree.update(ctx, func(c *change) error {
		e, err := c.entry(d.ino, name)
		if err != nil {
			return err
		}
		old, err := c.entry(d.ino, newName)
		switch {
		case name == newName:
			return nil
		case errors.Is(err, fsys.NotExist):
		case err != nil:
			return err
		case old.Dir && !e.Dir:
			return fsys.IsDir
		case e.Dir && !old.Dir:
			return fsys.NotDir
		default:
			if _, err := c.drop(old.Ino); err != nil {
				return err
			}
		}
		return c.rename(d.ino, e, name, newName)
	})
}

func (c *change) rename(parent uint64, e entry, name, newName string) error {
	if err := c.directory(parent); err != nil {
		return err
	}
	rec, err := c.inode(e.Ino)
	if err != nil {
		return err
	}
	if err := c.note(Renamed, rec, newName); err != nil {
		return err
	}
	rec.Name = newName
	if err := c.save(e.Ino, rec); err != nil {
		return err
	}
	if err := c.tx.Delete(c.ctx, entryKey(parent, name)); err != nil {
		return err
	}
	return c.putEntry(parent, newName, e)
}

// Remove removes an empty directory.
func (d *dir) Remove(ctx context.Context) error {
	if d.ino == rootIno {
		return fsys.E(fsys.Permission, "the top of a tree cannot be removed")
	}
	return d.tree.remove(ctx, d.ino)
}

func (d *dir) SetAttr(ctx context.Context, set fsys.Attr) error {
	return d.tree.setAttr(ctx, d.ino, set)
}
