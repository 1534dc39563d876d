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
	names []string
	fresh bool // nothing of names was read yet
}

func (t *tree) OpenDir(cancel <-chan struct{}, input *gofuse.OpenIn, out *gofuse.OpenOut) gofuse.Status {
	in, st := t.inode(input.NodeId)
	if !st.Ok() {
		return st
	}
	r := t.begin(cancel)
	defer r.end()
	names, err := t.list(r, in)
	if err != nil {
		return t.status(err)
	}
	out.Fh = t.dirs.add(&dir{in: in, names: names, fresh: true})
	return gofuse.OK
}

func (t *tree) list(ctx context.Context, in *inode) ([]string, error) {
	node, err := t.nodeOf(ctx, in)
	if err != nil {
		return nil, err
	}
	list, err := fsys.List(ctx, node)
	if err != nil {
		return nil, err
	}
	names := make([]string, 2, 2+len(list))
	names[0], names[1] = ".", ".."
	for _, e := range list {
		if fsys.CheckName(e.Name) == nil { // one bad name would make the kernel refuse them all
			names = append(names, e.Name)
		}
	}
	return names, nil
}

// ReadDir gives names only. To give the types too, every entry would have to be
// asked, which over a wire costs more than the listing; who wants to know asks.
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
	names := d.names
	d.mu.Unlock()
	self := t.inodes.inoOf(d.in)
	for i := input.Offset; i < uint64(len(names)); i++ {
		e := gofuse.DirEntry{Name: names[i], Off: i + 1}
		switch i {
		case 0:
			e.Ino, e.Mode = self, gofuse.S_IFDIR
		case 1:
			e.Mode = gofuse.S_IFDIR
		default:
			e.Ino = inoOf(self, e.Name, 0)
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
	names, err := t.list(ctx, d.in)
	if err != nil {
		return t.status(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names = names
	return gofuse.OK
}

func (t *tree) ReleaseDir(input *gofuse.ReleaseIn) { t.dirs.remove(input.Fh) }

func (t *tree) FsyncDir(<-chan struct{}, *gofuse.FsyncIn) gofuse.Status { return gofuse.OK }
