package store

import (
	"io"

	"agent9/fsys"
)

// Size returns how many bytes can be read.
func (l *Log) Size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size + int64(len(l.waiting))
}

// ReadAt fills p as far as there is data at off, which is at least one byte
// below Size.
func (l *Log) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fsys.E(fsys.Invalid, "a negative offset")
	}
	l.mu.Lock()
	size, tail, waiting := l.size, l.tail, l.waiting
	l.mu.Unlock()
	if off >= size+int64(len(waiting)) {
		return 0, io.EOF
	}
	n := 0
	for n < len(p) && off < size {
		in := off % blockSize
		data := tail.data
		if no := off / blockSize; data == nil || tail.no != no {
			var err error
			if data, err = getBlock(l.ctx, l.s, no, int(min(blockSize, in+size-off))); err != nil {
				return n, err
			}
		}
		m := copy(p[n:min(int64(len(p)), int64(n)+size-off)], data[in:])
		n, off = n+m, off+int64(m)
	}
	if n < len(p) {
		n += copy(p[n:], waiting[off-size:])
	}
	return n, nil
}
