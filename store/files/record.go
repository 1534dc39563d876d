package files

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io/fs"

	"agent9/fsys"
	"agent9/store"
)

// Inodes and entries are read far more often than anything else, so they are
// stored as a byte that says how and numbers as varints. Those that begin with
// a brace are JSON, as they were stored before; they become packed when they
// change.
const packed = 1

func (rec *inode) pack() []byte {
	b := make([]byte, 1, 32+len(rec.Name))
	b[0] = packed
	b = append(b, flag(rec.Dir))
	b = binary.AppendUvarint(b, uint64(rec.Perm))
	b = binary.AppendUvarint(b, uint64(rec.Size))
	b = binary.AppendVarint(b, rec.ModTime)
	b = binary.AppendUvarint(b, uint64(rec.Version))
	b = binary.AppendUvarint(b, rec.Parent)
	return append(b, rec.Name...)
}

func (rec *inode) unpack(b []byte) bool {
	r := unpacker{b: b}
	rec.numbers(&r)
	rec.Name = string(r.b)
	return !r.bad
}

func (rec *inode) numbers(r *unpacker) {
	rec.Dir = r.uint() != 0
	rec.Perm = fs.FileMode(r.uint())
	rec.Size = int64(r.uint())
	rec.ModTime = r.int()
	rec.Version = uint32(r.uint())
	rec.Parent = r.uint()
}

// A nameless is an inode without the copy of its name.
type nameless inode

func (rec *nameless) unpack(b []byte) bool {
	r := unpacker{b: b}
	(*inode)(rec).numbers(&r)
	return !r.bad
}

// sizeIn returns the size in the record of an inode, which is all that a read
// needs of it.
func sizeIn(key string, b []byte) (int64, error) {
	if len(b) > 0 && b[0] == packed {
		r := unpacker{b: b[1:]}
		r.uint() // Dir
		r.uint() // Perm
		if size := r.uint(); !r.bad {
			return int64(size), nil
		}
	}
	var rec inode
	err := decode(key, b, &rec)
	return rec.Size, err
}

func (e *entry) pack() []byte {
	return binary.AppendUvarint([]byte{packed, flag(e.Dir)}, e.Ino)
}

func (e *entry) unpack(b []byte) bool {
	r := unpacker{b: b}
	e.Dir = r.uint() != 0
	e.Ino = r.uint()
	return !r.bad
}

func flag(set bool) byte {
	if set {
		return 1
	}
	return 0
}

// An unpacker takes numbers off b. bad says that one was not there.
type unpacker struct {
	b   []byte
	bad bool
}

func (r *unpacker) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	r.skip(n)
	return v
}

func (r *unpacker) int() int64 {
	v, n := binary.Varint(r.b)
	r.skip(n)
	return v
}

func (r *unpacker) skip(n int) {
	if n <= 0 {
		r.bad, n = true, 0
	}
	r.b = r.b[n:]
}

// load reads what is stored at key into rec.
func load(ctx context.Context, s store.Store, key string, rec interface{ unpack(b []byte) bool }) error {
	return store.Lend(ctx, s, key, func(b []byte) error { return decode(key, b, rec) })
}

func decode(key string, b []byte, rec interface{ unpack(b []byte) bool }) error {
	switch {
	case len(b) > 0 && b[0] == packed && rec.unpack(b[1:]):
		return nil
	case bytes.HasPrefix(b, []byte("{")):
		return fsys.Wrap(fsys.Internal, "the database record "+key+" cannot be read", json.Unmarshal(b, rec))
	}
	return fsys.E(fsys.Internal, "the database record "+key+" cannot be read")
}
