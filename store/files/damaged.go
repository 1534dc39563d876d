package files

import (
	"context"
	"fmt"

	"agent9/fsys"
	"agent9/store"
)

// lost returns what else there is of an inode whose record is damaged: its name,
// and where it is. There is nothing to be told of its contents.
func (c *change) lost(ino uint64) (rec inode, err error) {
	for p, err := range store.All(c.ctx, store.Forgiving(c.tx), "d/") {
		var e entry
		switch {
		case err != nil:
			return rec, err
		case p.Value == nil:
			continue
		}
		if err := decode(p.Key, p.Value, &e); err != nil || e.Ino != ino {
			continue
		}
		rec.Dir = e.Dir
		rec.Parent, rec.Name = entryOf(p.Key)
		return rec, nil
	}
	return rec, nil
}

// entryOf returns the directory and the name in the key of an entry.
func entryOf(key string) (parent uint64, name string) {
	const digits = 16
	key = key[len("d/"):]
	parent, _ = parseIno(key[:digits])
	return parent, key[digits+len("/"):]
}

// dropLost takes away a file or an empty directory whose inode is damaged.
func (c *change) dropLost(ino uint64) (inode, error) {
	rec, err := c.lost(ino)
	if err != nil {
		return rec, err
	}
	if inside, err := store.Forgiving(c.tx).List(c.ctx, entriesOf(ino), "", 1); err != nil || len(inside) > 0 {
		if err == nil {
			err = fsys.NotEmpty
		}
		return rec, err
	}
	c.dying = append(c.dying, ino)
	for _, key := range []string{inodeKey(ino), untoldKey(ino), orphanKey(ino)} {
		if err := c.tx.Delete(c.ctx, key); err != nil {
			return rec, err
		}
	}
	if err := store.DeleteAll(c.ctx, c.tx, key("b/", ino, "/")); err != nil {
		return rec, err
	}
	return rec, c.count()
}

// count counts what there is, as nobody knows what was taken away.
func (c *change) count() error {
	last := c.use.Last
	c.use = usage{Last: last}
	for p, err := range store.All(c.ctx, store.Forgiving(c.tx), inodePart) {
		if err != nil {
			return err
		}
		var rec inode
		if p.Value != nil {
			if err := decode(p.Key, p.Value, &rec); err != nil {
				return err
			}
		}
		if ino, _ := parseIno(p.Key[len(inodePart):]); ino != rootIno && (rec.Parent != 0 || p.Value == nil) {
			c.use.Entries++
		}
		if !rec.Dir {
			c.use.Bytes += rec.Size
		}
	}
	return nil
}

// A nameOnly is an entry whose record is damaged, so that nobody knows what it
// stands for. It can be removed.
type nameOnly struct {
	in   *dir
	name string
}

func (n *nameOnly) ID() fsys.ID { return n.in.tree.id(0) }

func (n *nameOnly) Stat(context.Context) (fsys.Info, error) { return new(inode).info(0), nil }

func (n *nameOnly) Open(ctx context.Context, _ fsys.Flag) (fsys.Handle, error) {
	return nil, n.why(ctx)
}

// why says that the record is damaged, or that it is no more as it was.
func (n *nameOnly) why(ctx context.Context) error {
	if _, err := loadEntry(ctx, n.in.tree.st, n.in.ino, n.name); err != nil {
		return err
	}
	return fsys.NotExist
}

// Remove takes the entry away, and what says that it has this name.
func (n *nameOnly) Remove(ctx context.Context) error {
	return n.in.tree.update(ctx, func(c *change) error {
		rec := inode{Parent: n.in.ino, Name: n.name}
		for p, err := range store.All(ctx, store.Forgiving(c.tx), inodePart) {
			if err != nil {
				return err
			}
			var is inode
			if p.Value == nil || decode(p.Key, p.Value, &is) != nil || is.Parent != rec.Parent || is.Name != rec.Name {
				continue
			}
			ino, _ := parseIno(p.Key[len(inodePart):])
			if rec, err = c.drop(ino); err != nil {
				return fmt.Errorf("what %s is: %w", n.name, err)
			}
			break
		}
		if err := c.removed(rec); err != nil {
			return err
		}
		return c.count()
	})
}
