package files

import (
	"context"
	"errors"
	"io"

	"agent9/fsys"
	"agent9/store"
)

// blockSize is how many bytes one record of contents has at most. An append
// to a file of any size rewrites at most one of them.
//
// A block holds no byte at or beyond the file's size; what it lacks below
// that, and a block that is not there, are zeros.
const blockSize = 16 << 10

// read fills p from off, up to the file's size, as one moment saw it.
func (t *Tree) read(ctx context.Context, ino uint64, p []byte, off int64) (n int, err error) {
	err = t.st.View(ctx, func(s store.Store) error {
		n, err = read(ctx, s, ino, p, off)
		return err
	})
	return n, err
}

func read(ctx context.Context, s store.Store, ino uint64, p []byte, off int64) (n int, err error) {
	rec, err := loadInode(ctx, s, ino)
	if err != nil {
		return 0, err
	}
	if off >= rec.Size {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), rec.Size-off)]
	for n < len(p) {
		at := off + int64(n)
		in := int(at % blockSize)
		want := p[n:min(len(p), n+blockSize-in)]
		if err := readBlock(ctx, s, ino, at/blockSize, want, in); err != nil {
			return 0, err
		}
		n += len(want)
	}
	return n, nil
}

// readBlock fills p with what block n has from in.
func readBlock(ctx context.Context, s store.Store, ino uint64, n int64, p []byte, in int) error {
	got := 0
	err := store.Lend(ctx, s, blockKey(ino, n), func(b []byte) error {
		got = copy(p, b[min(in, len(b)):])
		return nil
	})
	if errors.Is(err, fsys.NotExist) {
		err = nil
	}
	clear(p[got:])
	return err
}

// block returns block n; empty if there is none.
func block(ctx context.Context, s store.Store, ino uint64, n int64) ([]byte, error) {
	b, err := s.Get(ctx, blockKey(ino, n))
	if errors.Is(err, fsys.NotExist) {
		return nil, nil
	}
	return b, err
}

// write puts p at off and saves the inode.
func (c *change) write(ino uint64, rec inode, p []byte, off int64) error {
	if off > c.tree.opt.MaxFile-int64(len(p)) {
		return tooLarge
	}
	end := max(rec.Size, off+int64(len(p)))
	if err := c.grow(rec.Size, end); err != nil {
		return err
	}
	rec.Size = end
	rec.changed()
	for len(p) > 0 {
		n, in := off/blockSize, int(off%blockSize)
		part := p[:min(len(p), blockSize-in)]
		if err := c.patch(ino, n, in, part); err != nil {
			return err
		}
		off += int64(len(part))
		p = p[len(part):]
	}
	return c.save(ino, rec)
}

// patch puts part into block n.
func (c *change) patch(ino uint64, n int64, in int, part []byte) error {
	if len(part) == blockSize {
		return store.Give(c.ctx, c.tx, blockKey(ino, n), part) // the writer waits for the end
	}
	b, err := block(c.ctx, c.tx, ino, n)
	if err != nil {
		return err
	}
	if grow := in + len(part) - len(b); grow > 0 {
		b = append(b, make([]byte, grow)...)
	}
	copy(b[in:], part)
	return c.tx.Put(c.ctx, blockKey(ino, n), b)
}

// resize cuts or extends a file and saves the inode.
func (c *change) resize(ino uint64, rec inode, size int64) error {
	if err := c.grow(rec.Size, size); err != nil {
		return err
	}
	if err := c.cut(ino, rec.Size, size); err != nil {
		return err
	}
	rec.Size = size
	rec.changed()
	return c.save(ino, rec)
}

// cut drops the contents at and after to.
func (c *change) cut(ino uint64, from, to int64) error {
	if to >= from {
		return nil
	}
	first := to / blockSize
	if in := int(to % blockSize); in > 0 {
		b, err := block(c.ctx, c.tx, ino, first)
		if err != nil {
			return err
		}
		if in < len(b) {
			if err := c.tx.Put(c.ctx, blockKey(ino, first), b[:in]); err != nil {
				return err
			}
		}
		first++
	}
	for n := first; n <= (from-1)/blockSize; n++ {
		if err := c.tx.Delete(c.ctx, blockKey(ino, n)); err != nil {
			return err
		}
	}
	return nil
}
