//go:build (linux && !386 && !arm && !mips && !mipsle) || darwin || freebsd

package fuse

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"sync"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"agent9/fsys"
)

// An inode is a file that the kernel knows by number, from the look-up that
// named it until the kernel forgets it.
type inode struct {
	id     uint64 // the kernel's; never used again
	kind   fsys.Kind
	gen    uint64
	stored bool // and so cached; see stored.go

	// The rest is guarded by inodes.mu.
	place             // where it is
	ino     uint64    // what stat(2) shows; changes with the place
	node    fsys.Node // the latest that was walked to; nil after a directory above was renamed
	last    fsys.Info // for a file that is open and no longer has a place
	lookups uint64    // what the kernel will take back by FORGET
	opens   int       // handles
	thread  uint32    // that looked it up
	attrs   label     // all attributes that the kernel has are of this, or later; zero if not known
	pages   label     // the same of its pages
	changed uint64    // when it was changed through this mount
	entered time.Time // when the kernel was told its name
}

// A place is a name in a directory.
type place struct {
	dir  uint64
	name string
}

// inodes are those that the kernel has not forgotten.
type inodes struct {
	mu     sync.Mutex
	byID   map[uint64]*inode
	at     map[place]*inode // which of them is found by name now
	lastID uint64
	trimAt uint64 // see full
	clock  uint64 // counts changes through this mount
}

func newInodes(root fsys.Node) *inodes {
	top := &inode{id: gofuse.FUSE_ROOT_ID, kind: fsys.Directory, ino: 1, node: root, lookups: 1}
	return &inodes{
		byID:   map[uint64]*inode{top.id: top},
		at:     map[place]*inode{},
		lastID: top.id,
	}
}

func (t *inodes) get(id uint64) *inode {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id]
}

// node returns the node of in, walking to it again if need be.
func (t *inodes) node(ctx context.Context, in *inode) (fsys.Node, error) {
	t.mu.Lock()
	n, at, dir := in.node, in.place, t.byID[in.dir]
	t.mu.Unlock()
	if n != nil {
		return n, nil
	}
	if dir == nil {
		return nil, fsys.NotExist
	}
	up, err := t.node(ctx, dir)
	if err != nil {
		return nil, err
	}
	if n, err = fsys.Walk(ctx, up, at.name); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if in.node == nil && in.place == at {
		in.node = n
	}
	return n, nil
}

// enter returns the inode of node, which a walk to name in dir found for a
// thread, and counts one look-up of it.
//
// Of a Message file everybody who may be about to open it gets an inode of his
// own: the kernel locks an inode while a write to it is under way, or waits for
// the lock, and a request may take long.
func (t *inodes) enter(dir *inode, name string, node fsys.Node, info fsys.Info, thread uint32) *inode {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := place{dir.id, name}
	in := t.at[at]
	if in == nil || in.gen != info.Gen || in.kind != info.Kind ||
		in.stored != isStored(info) || manyInodes && in.kind == fsys.Message && (in.opens > 0 || in.thread != thread) {
		t.lastID++
		in = &inode{id: t.lastID, kind: info.Kind, gen: info.Gen, place: at, thread: thread,
			stored: isStored(info), attrs: labelOf(info)}
		t.byID[in.id] = in
		t.at[at] = in
	}
	in.ino = inoOf(dir.ino, name, in.gen)
	in.node, in.entered = node, time.Now()
	in.saw(info)
	in.told(info)
	in.lookups++
	return in
}

// inoOf chains the hashes of the names on the way to a file.
func inoOf(dir uint64, name string, gen uint64) uint64 {
	h := fnv.New64a()
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], dir)
	binary.LittleEndian.PutUint64(b[8:], gen)
	h.Write(b[:])
	h.Write([]byte(name))
	ino := h.Sum64()
	if ino <= 1 || ino == gofuse.FUSE_UNKNOWN_INO { // none, the root's, and "ask stat"
		ino += 1 << 40
	}
	return ino
}

// vanish says that name in dir was found to mean in, which may be nil, no more.
// Another file may have come there since, and in gone elsewhere.
func (t *inodes) vanish(dir *inode, name string, in *inode) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at := (place{dir.id, name}); t.at[at] == in {
		delete(t.at, at)
	}
}

// found returns the inode that the kernel knows by name, if any.
func (t *inodes) found(dir *inode, name string) *inode {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at[place{dir.id, name}]
}

// rename moves the inode at from to another name in the same directory.
func (t *inodes) rename(dir *inode, from, to string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	in := t.at[place{dir.id, from}]
	delete(t.at, place{dir.id, from})
	delete(t.at, place{dir.id, to})
	if in == nil {
		return
	}
	in.place.name = to
	in.ino = inoOf(dir.ino, to, in.gen)
	in.node = nil
	t.at[in.place] = in
	if in.kind == fsys.Directory {
		// What is below may remember the way by which it was found.
		for _, below := range t.at {
			below.node = nil
		}
	}
}

// forget takes back n look-ups.
func (t *inodes) forget(id, n uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	in := t.byID[id]
	if in == nil || id == gofuse.FUSE_ROOT_ID {
		return
	}
	if in.lookups -= min(n, in.lookups); in.lookups > 0 {
		return
	}
	delete(t.byID, id)
	if t.at[in.place] == in {
		delete(t.at, in.place)
	}
}

// here reports whether in is what its name means now, as far as is known.
func (t *inodes) here(in *inode) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return in.id == gofuse.FUSE_ROOT_ID || in.kind == fsys.Message || t.at[in.place] == in
}

func (t *inodes) inoOf(in *inode) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return in.ino
}

// inoAt returns the number of what name in dir is as far as is known: of what
// has an [fsys.Info].Gen and was not looked up yet, it is another one.
func (t *inodes) inoAt(dir *inode, name string) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if in := t.at[place{dir.id, name}]; in != nil {
		return in.ino
	}
	return inoOf(dir.ino, name, 0)
}

// inoWith is inoAt for an entry whose Info is known.
func (t *inodes) inoWith(dir *inode, e listed) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return inoOf(dir.ino, e.name, e.info.Gen)
}

// use counts the handles of in.
func (t *inodes) use(in *inode, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	in.opens += n
}

// saw remembers what in is like, for when it has lost its place.
func (t *inodes) saw(in *inode, info fsys.Info) {
	t.mu.Lock()
	defer t.mu.Unlock()
	in.saw(info)
}

// grew says that in was written up to size.
func (t *inodes) grew(in *inode, size int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if in.kind == fsys.File {
		in.last.Size = max(in.last.Size, size)
	}
}

// lost returns what an open file was like that has no place any more.
func (t *inodes) lost(in *inode) (last fsys.Info, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return in.last, in.opens > 0
}
