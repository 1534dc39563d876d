//go:build (linux && !386 && !arm && !mips && !mipsle) || darwin || freebsd

package fuse

import (
	"context"
	"sync"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"agent9/fsys"
	"agent9/fsys/share"
)

// A dir is an open directory: what was listed when it was opened or rewound.
type dir struct {
	in *inode

	mu    sync.Mutex
	list  listing
	fresh bool // nothing of list was read yet
}

// A listing is what a directory had in it.
type listing struct {
	entries []listed
	began   uint64    // by inodes.now
	until   time.Time // when it is too old to be told of as what is
}

type listed struct {
	name string
	mode uint32 // 0 if the type is not known
	node fsys.Node
	info *fsys.Info // nil if it is not known
}

// bytes is about what l takes.
func (l listing) bytes() (n int64) {
	for _, e := range l.entries {
		n += share.EntryBytes + int64(len(e.name))
	}
	return n
}

func (t *tree) OpenDir(cancel <-chan struct{}, input *gofuse.OpenIn, out *gofuse.OpenOut) gofuse.Status {
	in, r, st := t.begin(cancel, input.NodeId)
	if !st.Ok() {
		return st
	}
	defer r.end()
	list, err := t.list(r, in)
	if err != nil {
		return t.status(err)
	}
	if !t.part.Reserve(share.Files, list.bytes()) {
		return t.status(share.ErrFull)
	}
	out.Fh = t.dirs.add(&dir{in: in, list: list, fresh: true})
	return gofuse.OK
}

func (t *tree) list(ctx context.Context, in *inode) (l listing, err error) {
	l.began, l.until = t.inodes.now(), time.Now().Add(recently)
	node, err := t.nodeOf(ctx, in)
	if err != nil {
		return l, err
	}
	entries, err := list(ctx, node)
	if err != nil {
		return l, err
	}
	l.entries = make([]listed, 2, 2+len(entries))
	l.entries[0], l.entries[1] = listed{name: ".", mode: gofuse.S_IFDIR}, listed{name: "..", mode: gofuse.S_IFDIR}
	for _, e := range entries {
		if fsys.CheckName(e.Name) == nil { // one bad name would make the kernel refuse them all
			l.entries = append(l.entries, listed{e.Name, typeOf(e), e.Node, e.Info})
		}
	}
	return l, nil
}

// typeOf returns the type of a listed node if that can be had for nothing, as
// from a node of our 9P client. To ask each node for it would cost more over a
// wire than the listing; who wants to know asks.
func typeOf(e fsys.Entry) uint32 {
	var kind fsys.Kind
	if k, ok := e.Node.(interface{ Kind() fsys.Kind }); ok {
		kind = k.Kind()
	} else if e.Info != nil {
		kind = e.Info.Kind
	} else {
		return 0
	}
	if kind == fsys.Directory {
		return gofuse.S_IFDIR
	}
	return gofuse.S_IFREG
}

func (t *tree) ReadDir(cancel <-chan struct{}, input *gofuse.ReadIn, out *gofuse.DirEntryList) gofuse.Status {
	return t.readDir(cancel, input, func(d *dir, _ *listing, _ listed, e gofuse.DirEntry) bool {
		return out.AddDirEntry(e)
	})
}

// ReadDirPlus also tells what the entries are, of those that the kernel may
// cache; of the others it learns no more than their names.
func (t *tree) ReadDirPlus(cancel <-chan struct{}, input *gofuse.ReadIn, out *gofuse.DirEntryList) gofuse.Status {
	st := t.readDir(cancel, input, func(d *dir, l *listing, what listed, e gofuse.DirEntry) bool {
		entry := out.AddDirLookupEntry(e)
		if entry == nil {
			return false
		}
		left := time.Until(l.until)
		if what.info == nil || !isStored(*what.info) || left <= 0 {
			return true
		}
		if in := t.inodes.enterListed(d.in, l.began, what); in != nil {
			t.reply(in, *what.info, entry)
			entry.SetAttrTimeout(left)
		}
		return true
	})
	if t.inodes.full() {
		go t.trim() // ends by itself
	}
	return st
}

// readDir gives add entries until there are no more or it has no room.
func (t *tree) readDir(cancel <-chan struct{}, input *gofuse.ReadIn, add func(*dir, *listing, listed, gofuse.DirEntry) bool) gofuse.Status {
	d, ok := t.dirs.get(input.Fh)
	if !ok {
		return errno(fsys.BadHandle)
	}
	_, r, st := t.begin(cancel, input.NodeId)
	if !st.Ok() {
		return st
	}
	defer r.end()
	if st := t.rewind(r, d, input.Offset); !st.Ok() {
		return st
	}
	d.mu.Lock()
	l := d.list
	d.mu.Unlock()
	for i := input.Offset; i < uint64(len(l.entries)); i++ {
		what := l.entries[i]
		e := gofuse.DirEntry{Name: what.name, Mode: what.mode, Off: i + 1}
		switch {
		case what.name == ".":
			e.Ino = t.inodes.inoOf(d.in)
		case what.name == "..": // not known
		case what.info != nil:
			e.Ino = t.inodes.inoWith(d.in, what)
		default:
			e.Ino = t.inodes.inoAt(d.in, what.name)
		}
		if !add(d, &l, what, e) {
			break
		}
	}
	return gofuse.OK
}

// rewind lists again if the directory is read from the beginning again.
func (t *tree) rewind(ctx context.Context, d *dir, off uint64) gofuse.Status {
	d.mu.Lock()
	again := off == 0 && !d.fresh
	d.fresh = false
	d.mu.Unlock()
	if !again {
		return gofuse.OK
	}
	list, err := t.list(ctx, d.in)
	if err != nil {
		return t.status(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !t.part.Reserve(share.Files, list.bytes()) {
		return t.status(share.ErrFull)
	}
	t.part.Give(share.Files, d.list.bytes())
	d.list = list
	return gofuse.OK
}

func (t *tree) ReleaseDir(input *gofuse.ReleaseIn) {
	if d, ok := t.dirs.remove(input.Fh); ok {
		t.part.Give(share.Files, d.list.bytes())
	}
}

func (t *tree) FsyncDir(<-chan struct{}, *gofuse.FsyncIn) gofuse.Status { return gofuse.OK }
