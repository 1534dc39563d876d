package files

import (
	"context"
	"errors"
	"io"
	"sync"

	"agent9/fsys"
	"agent9/store"
)

// blockSize is how many bytes one record of contents has at most. An append
// to a file of any size rewrites at most one of them.
//
// A block holds no byte at or beyond the file's size; what it lacks below
// that, and a block that is not there, are zeros.
const blockSize = 16 << 10

// A reading is one read of a file. It is used again, as most are small and come
// often.
type reading struct {
	ctx  context.Context
	file keys
	s    store.Store
	p    []byte
	off  int64
	n    int // bytes of p that have been read

	size int64  // of the file
	part []byte // of p, which lies in one block
	in   int    // where in the block that begins
	got  int    // how much of it the block has

	// What the methods of these names are, made once.
	view            func(s store.Store) error
	measure, gather func(record []byte) error
}

var readings = sync.Pool{New: func() any {
	r := new(reading)
	r.view, r.measure, r.gather = r.doView, r.doMeasure, r.doGather
	return r
}}

func newReading(ctx context.Context, file keys, p []byte, off int64) *reading {
	r := readings.Get().(*reading)
	r.ctx, r.file, r.p, r.off, r.n = ctx, file, p, off, 0
	return r
}

// end returns how much was read, if not err.
func (r *reading) end(err error) (int, error) {
	n := r.n
	if err != nil {
		n = 0
	}
	r.ctx, r.file, r.s, r.p, r.part = nil, keys{}, nil, nil, nil
	readings.Put(r)
	return n, err
}

// read fills p from off, up to the file's size, as one moment saw it.
func (t *Tree) read(ctx context.Context, file keys, p []byte, off int64) (int, error) {
	r := newReading(ctx, file, p, off)
	return r.end(t.st.View(ctx, r.view))
}

// read fills p from off, up to the file's size, as s has it.
func read(ctx context.Context, s store.Store, file keys, p []byte, off int64) (int, error) {
	r := newReading(ctx, file, p, off)
	return r.end(r.doView(s))
}

func (r *reading) doView(s store.Store) error {
	r.s = s
	if err := store.Lend(r.ctx, s, r.file.inode, r.measure); err != nil {
		return err
	}
	if r.off >= r.size {
		return io.EOF
	}
	p := r.p[:min(int64(len(r.p)), r.size-r.off)]
	for r.n < len(p) {
		at := r.off + int64(r.n)
		r.in = int(at % blockSize)
		r.part = p[r.n:min(len(p), r.n+blockSize-r.in)]
		if err := r.block(at / blockSize); err != nil {
			return err
		}
		r.n += len(r.part)
	}
	return nil
}

func (r *reading) doMeasure(record []byte) (err error) {
	r.size, err = sizeIn(r.file.inode, record)
	return err
}

// block fills part with what block n has from in.
func (r *reading) block(n int64) error {
	r.got = 0
	err := store.Lend(r.ctx, r.s, r.file.block(n), r.gather)
	if errors.Is(err, fsys.NotExist) {
		err = nil
	}
	clear(r.part[r.got:])
	return err
}

func (r *reading) doGather(b []byte) error {
	r.got = copy(r.part, b[min(r.in, len(b)):])
	return nil
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
