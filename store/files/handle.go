package files

import (
	"context"
	"sync/atomic"

	"agent9/fsys"
)

// handle is an open file.
type handle struct {
	tree   *Tree
	ino    uint64
	keys   keys // if it is open for reading
	flag   fsys.Flag
	opened context.Context // for what is left to do at Close
	dirty  atomic.Bool     // changed since it was last told of
	closed atomic.Bool
}

var (
	_ fsys.Reader = (*handle)(nil)
	_ fsys.Writer = (*handle)(nil)
	_ fsys.Syncer = (*handle)(nil)
)

// newHandle returns a handle that the caller has counted in opens.
func newHandle(ctx context.Context, f *file, flag fsys.Flag) *handle {
	h := &handle{tree: f.tree, ino: f.ino, flag: flag, opened: context.WithoutCancel(ctx)}
	if flag&fsys.Read != 0 {
		h.keys = keysOf(f.ino)
	}
	return h
}

func (h *handle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	if h.flag&fsys.Read == 0 || h.closed.Load() {
		return 0, fsys.BadHandle
	}
	if off < 0 {
		return 0, fsys.E(fsys.Invalid, "a negative offset")
	}
	return h.tree.read(ctx, h.keys, p, off)
}

// WriteAt is whole and durable when it returns, or did nothing. With
// fsys.Append it goes to what is the end then, so that writers who append at
// the same time do not overwrite each other.
func (h *handle) WriteAt(ctx context.Context, p []byte, off int64) (int, error) {
	if h.flag&fsys.Write == 0 || h.closed.Load() {
		return 0, fsys.BadHandle
	}
	if off < 0 {
		return 0, fsys.E(fsys.Invalid, "a negative offset")
	}
	if len(p) == 0 {
		return 0, nil
	}
	err := h.tree.update(ctx, func(c *change) error {
		rec, err := c.inode(h.ino)
		if err != nil {
			return err
		}
		at := off
		if h.flag&fsys.Append != 0 {
			at = rec.Size
		}
		if err := c.untold(h.ino, rec); err != nil {
			return err
		}
		return c.write(h.ino, rec, p, at)
	})
	if err != nil {
		return 0, err
	}
	h.dirty.Store(true)
	return len(p), nil
}

// Sync has nothing to make durable; it tells of what was written.
func (h *handle) Sync(ctx context.Context) error {
	if h.tree.opt.Note == nil || !h.dirty.Swap(false) {
		return nil
	}
	err := h.tree.update(fsys.Join(ctx, h.opened), func(c *change) error { return c.tell(h.ino) })
	if err != nil {
		h.dirty.Store(true)
	}
	return err
}

func (h *handle) Close() error {
	if h.closed.Swap(true) {
		return nil
	}
	err := h.Sync(h.opened)
	if h.tree.opens.done(h.ino) {
		if ferr := h.tree.free(h.opened, h.ino); err == nil {
			err = ferr
		}
	}
	return err
}
