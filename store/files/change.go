package files

import (
	"context"
	"errors"
	"path"

	"agent9/fsys"
	"agent9/store"
)

// A change is one transaction on a tree.
type change struct {
	ctx   context.Context
	tree  *Tree
	tx    store.Store
	use   usage
	dying []uint64 // files that this takes away
}

func (t *Tree) update(ctx context.Context, f func(c *change) error) error {
	c := &change{ctx: ctx, tree: t}
	defer func() { t.opens.dead(c.dying) }()
	return t.st.Update(ctx, func(tx store.Store) error {
		c.tx = tx
		var err error
		if c.use, err = loadUsage(ctx, tx); err != nil {
			return err
		}
		before := c.use
		if err := f(c); err != nil {
			return err
		}
		if c.use == before {
			return nil
		}
		return store.PutJSON(ctx, tx, usageKey, c.use)
	})
}

// inode returns an inode. If it is damaged, the change can go on without it.
func (c *change) inode(ino uint64) (inode, error) {
	return loadInode(c.ctx, store.Forgiving(c.tx), ino)
}

func (c *change) save(ino uint64, rec inode) error {
	return c.tx.Put(c.ctx, inodeKey(ino), rec.pack())
}

// directory returns a directory in which entries may change, and saves that
// they do.
func (c *change) directory(ino uint64) error {
	rec, err := c.inode(ino)
	if err != nil {
		return err
	}
	if err := rec.mayWrite(); err != nil {
		return err
	}
	rec.changed()
	return c.save(ino, rec)
}

func (c *change) entry(ino uint64, name string) (entry, error) {
	return loadEntry(c.ctx, c.tx, ino, name)
}

func (c *change) putEntry(ino uint64, name string, e entry) error {
	return c.tx.Put(c.ctx, entryKey(ino, name), e.pack())
}

// add makes a new entry in a directory.
func (c *change) add(parent uint64, name string, rec inode) (uint64, error) {
	if err := c.directory(parent); err != nil {
		return 0, err
	}
	if _, err := c.entry(parent, name); err == nil {
		return 0, fsys.Exist
	} else if !errors.Is(err, fsys.NotExist) {
		return 0, err
	}
	if c.use.Entries >= c.tree.opt.MaxEntries {
		return 0, fsys.E(fsys.NoSpace, "the limit on the number of files here is reached")
	}
	c.use.Entries++
	c.use.Last++
	ino := c.use.Last
	rec.Parent, rec.Name = parent, name
	rec.changed()
	if err := c.save(ino, rec); err != nil {
		return 0, err
	}
	if err := c.putEntry(parent, name, entry{ino, rec.Dir}); err != nil {
		return 0, err
	}
	return ino, c.note(Created, rec, "")
}

// note tells of a change to what rec describes.
func (c *change) note(op Op, rec inode, to string) error {
	if c.tree.opt.Note == nil {
		return nil
	}
	in, err := c.path(rec.Parent)
	if err != nil {
		return err
	}
	told := Change{Op: op, Path: path.Join(in, rec.Name), Dir: rec.Dir, Size: rec.Size}
	if to != "" {
		told.To = path.Join(in, to)
	}
	return c.tree.opt.Note(c.ctx, c.tx, told)
}

func (c *change) path(ino uint64) (string, error) {
	if ino == rootIno {
		return "", nil
	}
	rec, err := c.inode(ino)
	if store.IsDamaged(err) {
		rec, err = c.lost(ino)
	}
	if err != nil {
		return "", err
	}
	if rec.Parent == 0 { // damaged too, or removed
		return rec.Name, nil
	}
	in, err := c.path(rec.Parent)
	return path.Join(in, rec.Name), err
}

// grow accounts for a file that goes from one size to another, and refuses
// one that gets too large.
func (c *change) grow(from, to int64) error {
	switch {
	case to <= from:
	case to > c.tree.opt.MaxFile:
		return tooLarge
	case c.use.Bytes+to-from > c.tree.opt.MaxBytes:
		return fsys.E(fsys.NoSpace, "the limit on the total size of the files here is reached")
	}
	c.use.Bytes += to - from
	return nil
}

var tooLarge = fsys.E(fsys.TooLarge, "the file would exceed the size limit for files here")
