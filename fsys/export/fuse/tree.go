//go:build (linux && !386 && !arm && !mips && !mipsle) || darwin || freebsd

package fuse

import (
	"cmp"
	"context"
	"syscall"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"agent9/fsys"
	"agent9/fsys/locks"
	"agent9/fsys/share"
)

// A tree answers the kernel.
type tree struct {
	gofuse.RawFileSystem // ENOSYS for the rest, upon which the kernel does not ask again

	ctx    context.Context // of the mount; its end ends every request
	owner  gofuse.Owner
	shared bool      // others get in, and the kernel checks permissions
	born   time.Time // the time of files that have none

	part   *share.Part
	server *gofuse.Server
	link   link
	inodes *inodes
	files  handles[*file]
	dirs   handles[*dir]

	locks   *locks.Table // of a tree that keeps none itself
	lockers lockers
	root    fsys.ID
}

func newTree(ctx context.Context, root fsys.Node, opts Options) *tree {
	return &tree{
		RawFileSystem: gofuse.NewDefaultRawFileSystem(),
		ctx:           ctx,
		owner:         opts.owner(),
		shared:        opts.AllowOther,
		born:          time.Now(),
		inodes:        newInodes(root),
		locks:         cmp.Or(opts.Locks, &locks.Table{}),
		root:          opts.ID,
		part:          opts.Part,
	}
}

func (t *tree) String() string { return "agent9" }

// begin begins a request about the inode id.
func (t *tree) begin(cancel <-chan struct{}, id uint64) (*inode, *request, gofuse.Status) {
	in, st := t.inode(id)
	if !st.Ok() {
		return nil, nil, st
	}
	r, st := t.request(cancel)
	return in, r, st
}

// request begins a request, when the tree is there.
func (t *tree) request(cancel <-chan struct{}) (*request, gofuse.Status) {
	if st := t.link.enter(cancel, t.ctx.Done()); !st.Ok() {
		return nil, st
	}
	return &request{Context: t.ctx, interrupt: cancel, patience: patience, link: &t.link}, gofuse.OK
}

const (
	gone    = gofuse.Status(syscall.ENOTCONN) // the mount has ended
	stale   = gofuse.Status(syscall.ESTALE)
	refused = gofuse.EPERM // what link(2), symlink(2) and mknod(2) say where there is no such thing
)

// inode returns the inode of a request, and why not.
func (t *tree) inode(id uint64) (*inode, gofuse.Status) {
	if t.ctx.Err() != nil {
		return nil, gone
	}
	if in := t.inodes.get(id); in != nil {
		return in, gofuse.OK
	}
	return nil, stale
}

func (t *tree) status(err error) gofuse.Status {
	switch {
	case err == nil:
		return gofuse.OK
	case err == errStale:
		return stale
	case t.ctx.Err() != nil && fsys.CodeOf(err) == fsys.Canceled:
		return gone
	case fsys.CodeOf(err) == fsys.Unavailable && t.link.isLost():
		return gofuse.EIO
	}
	return errno(fsys.CodeOf(err))
}

func (t *tree) Lookup(cancel <-chan struct{}, h *gofuse.InHeader, name string, out *gofuse.EntryOut) gofuse.Status {
	dir, r, st := t.begin(cancel, h.NodeId)
	if !st.Ok() {
		return st
	}
	defer r.end()
	was := t.inodes.found(dir, name)
	node, info, err := t.walk(r, dir, name)
	if fsys.CodeOf(err) == fsys.NotExist {
		t.inodes.vanish(dir, name, was)
	}
	if err != nil {
		return t.status(err)
	}
	t.reply(t.inodes.enter(dir, name, node, info, h.Pid), info, out)
	if t.inodes.full() {
		go t.trim() // ends by itself
	}
	return gofuse.OK
}

func (t *tree) walk(ctx context.Context, dir *inode, name string) (node fsys.Node, info fsys.Info, err error) {
	if err := fsys.CheckName(name); fsys.CodeOf(err) == fsys.NameTooLong {
		return nil, info, err
	} else if err != nil {
		return nil, info, fsys.NotExist
	}
	from, names, err := t.from(ctx, dir)
	if err != nil {
		return nil, info, err
	}
	return find(ctx, from, append(names, name)...)
}

// reply tells the kernel of an inode that was looked up. Of what is not stored
// the name is not cached, and the attributes are for the stat for whose sake the
// kernel asked: a name that is kept would keep them for the next stat too.
func (t *tree) reply(in *inode, info fsys.Info, out *gofuse.EntryOut) {
	out.NodeId = in.id
	t.attr(in, info, &out.Attr)
	if in.stored {
		out.SetEntryTimeout(namesFor)
		return
	}
	out.SetAttrTimeout(1) // one tick of the kernel's clock
}

func (t *tree) attr(in *inode, info fsys.Info, a *gofuse.Attr) {
	a.Ino = t.inodes.inoOf(in)
	a.Mode = uint32(info.Perm.Perm()) | syscall.S_IFREG
	if info.Kind == fsys.Directory {
		a.Mode = uint32(info.Perm.Perm()) | syscall.S_IFDIR
	}
	a.Nlink = 1 // of a directory too: it says that subdirectories are not counted
	a.Size = uint64(info.Size)
	a.Blocks = (a.Size + 511) / 512
	a.Owner = t.owner
	mtime := info.ModTime
	if mtime.IsZero() {
		mtime = t.born
	}
	a.SetTimes(&mtime, &mtime, &mtime)
}

func (t *tree) Forget(id, n uint64) { t.inodes.forget(id, n) }

func (t *tree) GetAttr(cancel <-chan struct{}, input *gofuse.GetAttrIn, out *gofuse.AttrOut) gofuse.Status {
	in, st := t.inode(input.NodeId)
	if !st.Ok() {
		return st
	}
	byHandle := input.Flags()&gofuse.FUSE_GETATTR_FH != 0
	if byHandle {
		if f, ok := t.files.get(input.Fh()); ok {
			if info, ok := t.inodes.recent(f); ok {
				t.attr(in, info, &out.Attr)
				if info.Size > maxAhead {
					out.SetTimeout(1) // one tick of the kernel's clock
				}
				return gofuse.OK
			}
		}
	}
	r, st := t.request(cancel)
	if !st.Ok() {
		return st
	}
	defer r.end()
	return t.getattr(r, in, byHandle || !t.inodes.named(in), out)
}

// getattr tells what in is; of what has no name any more, as it last was, if
// somebody has it open and opened says that this is who asks.
func (t *tree) getattr(ctx context.Context, in *inode, opened bool, out *gofuse.AttrOut) gofuse.Status {
	info, err := t.stat(ctx, in)
	if opened && (err == errStale || fsys.CodeOf(err) == fsys.NotExist) {
		if info, ok := t.inodes.lost(in); ok {
			t.attr(in, info, &out.Attr)
			out.Nlink = 0
			return gofuse.OK
		}
	}
	if err != nil {
		return t.status(err)
	}
	t.attr(in, info, &out.Attr)
	return gofuse.OK
}

// stat is NotExist, or errStale, if in is not what is at its place.
func (t *tree) stat(ctx context.Context, in *inode) (fsys.Info, error) {
	if in.stored {
		_, info, err := t.reach(ctx, in)
		return info, err
	}
	node, err := t.nodeOf(ctx, in)
	if err != nil {
		return fsys.Info{}, err
	}
	info, err := node.Stat(ctx)
	if err == nil && in.id != gofuse.FUSE_ROOT_ID && (info.Gen != in.gen || info.Kind != in.kind) {
		err = fsys.NotExist
	}
	if err == nil {
		t.inodes.saw(in, info)
	}
	return info, err
}

// nodeOf returns the node of in, and never that of another file that has come
// to its place.
func (t *tree) nodeOf(ctx context.Context, in *inode) (fsys.Node, error) {
	if in.stored {
		node, _, err := t.reach(ctx, in)
		return node, err
	}
	if !t.inodes.here(in) {
		return nil, fsys.NotExist
	}
	return t.inodes.node(ctx, in)
}

func (t *tree) Access(cancel <-chan struct{}, input *gofuse.AccessIn) gofuse.Status {
	if t.shared {
		return gofuse.ENOSYS // the kernel checks by itself
	}
	in, r, st := t.begin(cancel, input.NodeId)
	if !st.Ok() {
		return st
	}
	defer r.end()
	info, err := t.stat(r, in)
	if err != nil {
		return t.status(err)
	}
	// Root too: the tree refuses it what the bits refuse.
	if all := uint32(info.Perm | info.Perm>>3 | info.Perm>>6); input.Mask&^all&7 != 0 {
		return gofuse.EACCES
	}
	return gofuse.OK
}

// StatFs has no numbers of blocks: df(1) leaves the mount out, as it does /proc.
func (t *tree) StatFs(_ <-chan struct{}, _ *gofuse.InHeader, out *gofuse.StatfsOut) gofuse.Status {
	out.Bsize, out.Frsize = 4096, 4096
	out.NameLen = fsys.MaxName
	return gofuse.OK
}

func (t *tree) Symlink(<-chan struct{}, *gofuse.InHeader, string, string, *gofuse.EntryOut) gofuse.Status {
	return refused
}

func (t *tree) Link(<-chan struct{}, *gofuse.LinkIn, string, *gofuse.EntryOut) gofuse.Status {
	return refused
}

func (t *tree) Mknod(<-chan struct{}, *gofuse.MknodIn, string, *gofuse.EntryOut) gofuse.Status {
	return refused
}
