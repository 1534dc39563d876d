//go:build (linux && !386 && !arm && !mips && !mipsle) || darwin || freebsd

package fuse

import (
	"context"
	"errors"
	"slices"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"agent9/fsys"
)

// What has an [fsys.Info].Version, Stored files and their directories, the
// kernel caches:
//
// Names, for namesFor. Whatever the kernel believes of a name, each request is
// for what the name leads to now: it walks again from the nearest directory that
// is not cached. If that is another file, or none, the answer is ESTALE, upon
// which the kernel looks up every name of the path again and tries once more. So
// an open or a stat never is of a file that was replaced.
//
// The contents of a file that is opened for reading, until an open finds another
// version than that of the pages. Before that open returns, the kernel has
// dropped older pages and an older size.
//
// Attributes only as long as recently says, and only those that came with a
// listing, for the stat of each name that often follows, and for who reads a
// file that it opened: the kernel asks before each read(2). Of a large file that
// is being read they are good for a tick of the kernel's clock, too.

// namesFor is how long the kernel keeps a name without asking.
const namesFor = time.Second

// recently is how long attributes that came with a listing are good, and how
// long who has a file open may not see that it was changed by others.
const recently = time.Second / 2

// maxAhead is the size of files that are read together with their opening.
const maxAhead = 64 << 10

// errStale says that an inode is no longer what is at its place.
var errStale = errors.New("another file is there now")

// A label is what tells one state of a file from every other. The version
// would do within one tree; time and size make sure of a tree that was removed
// and made again.
type label struct {
	version     uint32
	mtime, size int64
}

func labelOf(info fsys.Info) label {
	return label{info.Version, info.ModTime.UnixNano(), info.Size}
}

// isStored reports whether what info describes may be cached.
func isStored(info fsys.Info) bool {
	return retriesStale && info.Version != 0 && (info.Kind == fsys.File || info.Kind == fsys.Directory)
}

// way returns how to walk to in: from the nearest directory that is not
// stored, or the root.
func (t *inodes) way(in *inode) (from *inode, names []string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for in.stored && in.id != gofuse.FUSE_ROOT_ID {
		if t.at[in.place] != in {
			return nil, nil, errStale
		}
		names = append(names, in.name)
		if in = t.byID[in.dir]; in == nil {
			return nil, nil, errStale
		}
	}
	slices.Reverse(names)
	return in, names, nil
}

// from returns the node from which names lead to in.
func (t *tree) from(ctx context.Context, in *inode) (fsys.Node, []string, error) {
	top, names, err := t.inodes.way(in)
	if err != nil {
		return nil, nil, err
	}
	if !t.inodes.here(top) {
		return nil, nil, fsys.NotExist
	}
	node, err := t.inodes.node(ctx, top)
	return node, names, err
}

// reach walks to in, which is stored, and makes sure that it is what is there.
func (t *tree) reach(ctx context.Context, in *inode) (fsys.Node, fsys.Info, error) {
	top, names, err := t.from(ctx, in)
	if err != nil {
		return nil, fsys.Info{}, err
	}
	node, info, err := find(ctx, top, names...)
	if err = in.check(info, err); err != nil {
		if err == errStale {
			t.inodes.leave(in)
		}
		return nil, info, err
	}
	t.inodes.reached(in, node, info)
	return node, info, nil
}

// check returns errStale if what was found at the place of in, with err, is
// not in.
func (in *inode) check(info fsys.Info, err error) error {
	switch code := fsys.CodeOf(err); {
	case err != nil && (code == fsys.NotExist || code == fsys.NotDir):
		return errStale
	case err != nil:
		return err
	case in.id != gofuse.FUSE_ROOT_ID && (info.Gen != in.gen || info.Kind != in.kind):
		return errStale
	}
	return nil
}

// leave says that in is no longer at its place.
func (t *inodes) leave(in *inode) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.at[in.place] == in {
		delete(t.at, in.place)
	}
}

// named reports whether the kernel may come to in by a name that it keeps, and
// not only by what is open.
func (t *inodes) named(in *inode) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return in.stored && t.at[in.place] == in && time.Since(in.entered) < 2*namesFor
}

func (t *inodes) reached(in *inode, node fsys.Node, info fsys.Info) {
	t.mu.Lock()
	defer t.mu.Unlock()
	in.node = node
	in.saw(info)
	in.told(info)
}

// told says that the kernel is told the attributes in info. It may take them,
// or those of another answer at the same time, to be the later ones.
func (in *inode) told(info fsys.Info) {
	if in.attrs != labelOf(info) {
		in.attrs = label{}
	}
}

// openStored opens a stored file for reading, with its pages cached.
func (t *tree) openStored(ctx context.Context, in *inode, out *gofuse.OpenOut) gofuse.Status {
	top, names, err := t.from(ctx, in)
	if err != nil {
		return t.status(err)
	}
	until := time.Now().Add(recently)
	h, info, first, err := openFile(ctx, top, names, t.inodes.ahead(in))
	if cerr := in.check(info, err); cerr != nil {
		if err == nil {
			h.Close()
		}
		if cerr == errStale {
			t.inodes.leave(in)
		}
		return t.status(cerr)
	}
	f := &file{in: in, handle: h, flag: fsys.Read, info: info, until: until}
	if int64(len(first)) == info.Size {
		f.first = first
	}
	if st := t.opened(f, out); !st.Ok() {
		return st
	}
	out.OpenFlags = gofuse.FOPEN_NOFLUSH // there is nothing to sync
	if t.agree(in, info) {
		out.OpenFlags |= gofuse.FOPEN_KEEP_CACHE
	}
	return gofuse.OK
}

// agree makes sure that the kernel knows no size of in that is older than
// info, and reports whether its pages are of that version.
func (t *tree) agree(in *inode, info fsys.Info) (keep bool) {
	t.inodes.mu.Lock()
	known := in.attrs == labelOf(info)
	keep = in.pages == labelOf(info)
	in.saw(info)
	if !known {
		in.attrs = label{}
	}
	t.inodes.mu.Unlock()
	if known {
		return keep
	}
	// Attributes that were asked for before this are not taken after it.
	t.server.InodeNotify(in.id, -1, 0)
	t.inodes.mu.Lock()
	defer t.inodes.mu.Unlock()
	if labelOf(in.last) == labelOf(info) {
		in.attrs = labelOf(info)
	}
	return keep
}

// saw remembers the latest of what in was found to be. Answers may come in
// another order than they were made in.
func (in *inode) saw(info fsys.Info) {
	if !in.stored || !before(info, in.last) {
		in.last = info
	}
}

// before reports whether a is of an earlier version than b; numbers wrap.
func before(a, b fsys.Info) bool { return int32(a.Version-b.Version) < 0 }

// recent returns what f is, if that was found out recently and the kernel
// knows nothing later.
func (t *inodes) recent(f *file) (info fsys.Info, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := labelOf(f.info)
	return f.info, v.version != 0 && f.in.attrs == v && labelOf(f.in.last) == v && time.Now().Before(f.until)
}

// read says that the kernel asked for pages through a handle that was opened
// when in was as info says: it has dropped those that it had before, or knew that it need not.
func (t *inodes) read(in *inode, info fsys.Info) {
	t.mu.Lock()
	defer t.mu.Unlock()
	in.pages = labelOf(info)
}

// ahead returns how much of in is worth reading as it is opened.
func (t *inodes) ahead(in *inode) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if in.pages == labelOf(in.last) || in.last.Size == 0 || in.last.Size > maxAhead {
		return 0
	}
	return int(in.last.Size) + 1
}

// changing says that a request is about to change in, or has done so: what was
// listed before is not to be believed of it.
func (t *inodes) changing(in *inode) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clock++
	in.changed = t.clock
	if in.kind == fsys.File {
		in.attrs = label{}
	}
}

// now returns a time for [inodes.enterListed].
func (t *inodes) now() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.clock
}

// enterListed is enter for an entry of a listing that began at the time began,
// or nil if it or its directory has been changed through this mount since, or
// the kernel may know better.
func (t *inodes) enterListed(dir *inode, began uint64, e listed) *inode {
	t.mu.Lock()
	old := t.at[place{dir.id, e.name}]
	late := dir.changed > began || old != nil && (old.changed > began || old.gen == e.info.Gen && before(*e.info, old.last))
	t.mu.Unlock()
	if late {
		return nil
	}
	return t.enter(dir, e.name, e.node, *e.info, 0)
}
