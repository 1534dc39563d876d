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

// read fills p from off, up to the file's size.
func (t *Tree) read(ctx context.Context, ino uint64, p []byte, off int64) (int, error) {
	size, n, whole, err := readOnce(ctx, t.st, ino, p, off)
	if err != nil || whole {
		return n, err
	}
	// A block was shorter than the size said: that is a hole, or a file that
	// was cut meanwhile. Who cuts a file must not make others read zeros.
	rec, err := loadInode(ctx, t.st, ino)
	if err != nil || rec.Size >= size {
		return n, err
	}
	err = t.st.Update(ctx, func(tx store.Store) error {
		_, n, _, err = readOnce(ctx, tx, ino, p, off)
		return err
	})
	return n, err
}

func readOnce(ctx context.Context, s store.Store, ino uint64, p []byte, off int64) (size int64, n int, whole bool, err error) {
	rec, err := loadInode(ctx, s, ino)
	if err != nil {
		return 0, 0, true, err
	}
	if off >= rec.Size {
		return rec.Size, 0, true, io.EOF
	}
	p = p[:min(int64(len(p)), rec.Size-off)]
	whole = true
	for n < len(p) {
		at := off + int64(n)
		in := int(at % blockSize)
		want := p[n:min(len(p), n+blockSize-in)]
		b, err := block(ctx, s, ino, at/blockSize)
		if err != nil {
			return rec.Size, 0, true, err
		}
		got := 0
		if in < len(b) {
			got = copy(want, b[in:])
		}
		if got < len(want) {
			clear(want[got:])
			whole = false
		}
		n += len(want)
	}
	return rec.Size, n, whole, nil
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
		return c.tx.Put(c.ctx, blockKey(ino, n), part)
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
