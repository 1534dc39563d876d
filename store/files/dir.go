package files

import (
	"context"
	"encoding/json"
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

func (d *dir) Stat(ctx context.Context) (fsys.Info, error) {
	rec, err := loadInode(ctx, d.tree.st, d.ino)
	return rec.info(d.ino), err
}

func (d *dir) Open(_ context.Context, f fsys.Flag) (fsys.Handle, error) { return fsys.OpenDir(f) }

func (d *dir) Walk(ctx context.Context, name string) (fsys.Node, error) {
	e, err := store.GetJSON[entry](ctx, d.tree.st, entryKey(d.ino, name))
	if err != nil {
		return nil, err
	}
	return e.node(d.tree), nil
}

// List returns the entries in the order of their names.
func (d *dir) List(ctx context.Context) ([]fsys.Entry, error) {
	prefix := entriesOf(d.ino)
	var list []fsys.Entry
	for p, err := range store.All(ctx, d.tree.st, prefix) {
		if err != nil {
			return nil, err
		}
		var e entry
		if err := json.Unmarshal(p.Value, &e); err != nil {
			return nil, fsys.Wrap(fsys.Internal, "the database record "+p.Key+" cannot be read", err)
		}
		list = append(list, fsys.Entry{Name: p.Key[len(prefix):], Node: e.node(d.tree)})
	}
	return list, nil
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
