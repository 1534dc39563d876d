package files

import (
	"context"

	"agent9/fsys"
	"agent9/store"
)

// untold marks a file that is written, until that is told of.
func (c *change) untold(ino uint64, rec inode) error {
	if c.tree.opt.Note == nil || rec.Parent == 0 { // removed: that was told of
		return nil
	}
	return store.PutJSON(c.ctx, c.tx, untoldKey(ino), fsys.CallerOf(c.ctx))
}

// tell tells that a file was written.
func (c *change) tell(ino uint64) error {
	if err := c.tx.Delete(c.ctx, untoldKey(ino)); err != nil {
		return err
	}
	rec, err := c.inode(ino)
	if err != nil || rec.Parent == 0 {
		return err
	}
	return c.note(Changed, rec, "")
}

// Untold reports whether files of the tree in st were written by handles that
// have not been closed. When nobody has the tree, that is what a crash left;
// Recover tells of it.
func Untold(ctx context.Context, st store.Store) (bool, error) {
	page, err := st.List(ctx, untold, "", 1)
	return len(page) > 0, err
}

// Recover tells of what was written before a crash by handles that were not
// closed any more. It is for a tree that nobody has opened anything of yet.
func (t *Tree) Recover(ctx context.Context) error {
	for p, err := range store.All(ctx, t.st, untold) {
		if err != nil {
			return err
		}
		ino, ok := parseIno(p.Key[len(untold):])
		if !ok {
			continue
		}
		by, err := store.GetJSON[fsys.Caller](ctx, t.st, p.Key)
		if err != nil {
			return err
		}
		err = t.update(fsys.WithCaller(ctx, by), func(c *change) error { return c.tell(ino) })
		if err != nil {
			return err
		}
	}
	return nil
}
