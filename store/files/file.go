package files

import (
	"context"

	"agent9/fsys"
)

// file is a file, whatever its name is by now.
type file struct {
	tree *Tree
	ino  uint64
}

var (
	_ fsys.Truncater  = (*file)(nil)
	_ fsys.Remover    = (*file)(nil)
	_ fsys.AttrSetter = (*file)(nil)
	_ fsys.Identifier = (*file)(nil)
)

func (f *file) ID() fsys.ID { return f.tree.id(f.ino) }

// Stat also describes a file that was removed but is still open.
func (f *file) Stat(ctx context.Context) (fsys.Info, error) {
	return statInode(ctx, f.tree.st, f.ino, false)
}

func (f *file) Open(ctx context.Context, flag fsys.Flag) (fsys.Handle, error) {
	if err := checkFlag(flag); err != nil {
		return nil, err
	}
	if !f.tree.opens.add(f.ino) {
		return nil, fsys.NotExist
	}
	h := newHandle(ctx, f, flag)
	if err := f.ready(ctx, h, flag); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

func (f *file) ready(ctx context.Context, h *handle, flag fsys.Flag) error {
	rec, err := loadInode(ctx, f.tree.st, f.ino)
	switch {
	case err != nil:
		return err
	case rec.Parent == 0:
		return fsys.NotExist
	}
	if flag&fsys.Write != 0 {
		err = rec.mayWrite()
	}
	if flag&fsys.Read != 0 && err == nil {
		err = rec.mayRead()
	}
	if flag&fsys.Trunc == 0 || err != nil {
		return err
	}
	h.dirty.Store(true)
	return f.tree.update(ctx, func(c *change) error {
		rec, err := c.inode(f.ino)
		if err != nil {
			return err
		}
		if err := c.untold(f.ino, rec); err != nil {
			return err
		}
		return c.resize(f.ino, rec, 0)
	})
}

func checkFlag(flag fsys.Flag) error {
	if flag&(fsys.Read|fsys.Write) == 0 || flag&(fsys.Trunc|fsys.Append) != 0 && flag&fsys.Write == 0 {
		return fsys.E(fsys.Invalid, "a file must be opened for reading, writing or both, and only a writer can truncate or append")
	}
	return nil
}

func (f *file) Truncate(ctx context.Context, size int64) error {
	if size < 0 {
		return fsys.E(fsys.Invalid, "a negative size")
	}
	return f.tree.update(ctx, func(c *change) error {
		rec, err := c.inode(f.ino)
		if err != nil {
			return err
		}
		if err := rec.mayWrite(); err != nil {
			return err
		}
		changed := rec.Size != size
		if err := c.resize(f.ino, rec, size); err != nil {
			return err
		}
		if rec.Parent == 0 || !changed {
			return nil
		}
		rec.Size = size
		return c.note(Changed, rec, "")
	})
}

func (f *file) Remove(ctx context.Context) error { return f.tree.remove(ctx, f.ino) }

func (f *file) SetAttr(ctx context.Context, set fsys.Attr) error {
	return f.tree.setAttr(ctx, f.ino, set)
}

func (t *Tree) setAttr(ctx context.Context, ino uint64, set fsys.Attr) error {
	return t.update(ctx, func(c *change) error {
		rec, err := c.inode(ino)
		if err != nil {
			return err
		}
		kept := rec.ModTime
		rec.changed()
		rec.ModTime = kept
		if set.Perm != nil {
			rec.Perm = set.Perm.Perm()
		}
		if set.ModTime != nil {
			rec.ModTime = set.ModTime.UnixNano()
		}
		return c.save(ino, rec)
	})
}
