package files

import (
	"context"
	"errors"
	"sync"

	"agent9/fsys"
	"agent9/store"
)

func (t *Tree) remove(ctx context.Context, ino uint64) error {
	return t.update(ctx, func(c *change) error {
		rec, err := c.drop(ino)
		if store.IsDamaged(err) {
			rec, err = c.dropLost(ino)
		}
		if err != nil || rec.Parent == 0 {
			return err
		}
		return c.removed(rec)
	})
}

// removed takes away the entry of what was dropped, and tells of it.
func (c *change) removed(rec inode) error {
	if err := c.directory(rec.Parent); err != nil && !store.IsDamaged(err) {
		return err
	}
	if err := c.note(Removed, rec, ""); err != nil {
		return err
	}
	return c.tx.Delete(c.ctx, entryKey(rec.Parent, rec.Name))
}

// drop takes away what an entry stood for: at once, or, if it is an open
// file, when that is closed. The entry itself is the caller's. It returns
// what the inode was.
func (c *change) drop(ino uint64) (inode, error) {
	rec, err := c.inode(ino)
	switch {
	case err != nil:
		return rec, err
	case rec.Parent == 0:
		return rec, fsys.NotExist
	}
	c.use.Entries--
	if rec.Dir {
		inside, err := c.tx.List(c.ctx, entriesOf(ino), "", 1)
		if err == nil && len(inside) > 0 {
			err = fsys.NotEmpty
		}
		if err != nil {
			return rec, err
		}
		return rec, c.tx.Delete(c.ctx, inodeKey(ino))
	}
	if err := c.tx.Delete(c.ctx, untoldKey(ino)); err != nil {
		return rec, err
	}
	if !c.tree.opens.remove(ino) {
		c.dying = append(c.dying, ino)
		return rec, c.erase(ino, rec)
	}
	orphan := rec
	orphan.Parent, orphan.Name = 0, ""
	if err := c.save(ino, orphan); err != nil {
		return rec, err
	}
	return rec, c.tx.Put(c.ctx, orphanKey(ino), []byte("{}"))
}

// erase frees a file's space.
func (c *change) erase(ino uint64, rec inode) error {
	if err := c.cut(ino, rec.Size, 0); err != nil {
		return err
	}
	c.use.Bytes -= rec.Size
	return c.tx.Delete(c.ctx, inodeKey(ino))
}

// free erases a file that was removed while it was open, and does nothing
// for any other.
func (t *Tree) free(ctx context.Context, ino uint64) error {
	return t.update(ctx, func(c *change) error {
		if _, err := c.tx.Get(ctx, orphanKey(ino)); err != nil {
			if errors.Is(err, fsys.NotExist) {
				return nil // the removal was rolled back
			}
			return err
		}
		if c.tree.opens.remove(ino) {
			return nil // it was opened before the removal could be seen
		}
		c.dying = append(c.dying, ino)
		rec, err := c.inode(ino)
		if err != nil {
			return err
		}
		if err := c.erase(ino, rec); err != nil {
			return err
		}
		return c.tx.Delete(ctx, orphanKey(ino))
	})
}

// opens counts the handles on each file that has any, so that what is removed
// while it is open lives until it is closed. The zero value is empty.
type opens struct {
	mu    sync.Mutex
	files map[uint64]*users
}

type users struct {
	handles int
	removed bool // a transaction has removed it, or tried to
	dying   bool // a transaction is erasing it; no handle may be opened
}

// add counts one more handle, unless the file is being erased.
func (o *opens) add(ino uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	u := o.files[ino]
	switch {
	case u == nil:
		if o.files == nil {
			o.files = make(map[uint64]*users)
		}
		o.files[ino] = &users{handles: 1}
	case u.dying:
		return false
	default:
		u.handles++
	}
	return true
}

// done counts one handle less, and reports whether it was the last one of a
// file that may have to be freed.
func (o *opens) done(ino uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	u := o.files[ino]
	if u.handles--; u.handles > 0 {
		return false
	}
	delete(o.files, ino)
	return u.removed
}

// remove reports whether the file has handles. If not, none can be opened
// until dead is called.
func (o *opens) remove(ino uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if u := o.files[ino]; u != nil && u.handles > 0 {
		u.removed = true
		return true
	}
	if o.files == nil {
		o.files = make(map[uint64]*users)
	}
	o.files[ino] = &users{dying: true}
	return false
}

// dead ends what remove began, when the transaction has ended.
func (o *opens) dead(inos []uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, ino := range inos {
		delete(o.files, ino)
	}
}
