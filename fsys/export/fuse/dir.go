//go:build (linux && !386 && !arm && !mips && !mipsle) || darwin || freebsd

package fuse

import (
	"context"
	"sync"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"agent9/fsys"
)

// A dir is an open directory: what was listed when it was opened or rewound.
type dir struct {
	in *inode

	mu    sync.Mutex
	list  []listed
	fresh bool // nothing of list was read yet
}

type listed struct {
	name string
	mode uint32 // 0 if the type is not known
}

func (t *tree) OpenDir(cancel <-chan struct{}, input *gofuse.OpenIn, out *gofuse.OpenOut) gofuse.Status {
	in, st := t.inode(input.NodeId)
	if !st.Ok() {
		return st
	}
	r := t.begin(cancel)
	defer r.end()
	list, err := t.list(r, in)
	if err != nil {
		return t.status(err)
	}
	out.Fh = t.dirs.add(&dir{in: in, list: list, fresh: true})
	return gofuse.OK
}

func (t *tree) list(ctx context.Context, in *inode) ([]listed, error) {
	node, err := t.nodeOf(ctx, in)
	if err != nil {
		return nil, err
	}
	entries, err := fsys.List(ctx, node)
	if err != nil {
		return nil, err
	}
	list := make([]listed, 2, 2+len(entries))
	list[0], list[1] = listed{".", gofuse.S_IFDIR}, listed{"..", gofuse.S_IFDIR}
	for _, e := range entries {
		if fsys.CheckName(e.Name) == nil { // one bad name would make the kernel refuse them all
			list = append(list, listed{e.Name, typeOf(e)})
		}
	}
	return list, nil
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
	d, ok := t.dirs.get(input.Fh)
	if !ok {
		return errno(fsys.BadHandle)
	}
	r := t.begin(cancel)
	defer r.end()
	if st := t.rewind(r, d, input.Offset); !st.Ok() {
		return st
	}
	d.mu.Lock()
	list := d.list
	d.mu.Unlock()
	for i := input.Offset; i < uint64(len(list)); i++ {
		e := gofuse.DirEntry{Name: list[i].name, Mode: list[i].mode, Off: i + 1}
		switch e.Name {
		case ".":
			e.Ino = t.inodes.inoOf(d.in)
		case "..": // not known
		default:
			e.Ino = t.inodes.inoAt(d.in, e.Name)
		}
		if !out.AddDirEntry(e) {
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
	d.list = list
	return gofuse.OK
}

func (t *tree) ReleaseDir(input *gofuse.ReleaseIn) { t.dirs.remove(input.Fh) }

func (t *tree) FsyncDir(<-chan struct{}, *gofuse.FsyncIn) gofuse.Status { return gofuse.OK }
