//go:build (linux && !386 && !arm && !mips && !mipsle) || darwin || freebsd

package fuse

import (
	"bytes"
	"context"
	"io/fs"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"agent9/fsys"
	"agent9/fsys/share"
)

// A file is an open file.
type file struct {
	in     *inode
	handle fsys.Handle
	flag   fsys.Flag // that it was opened for

	age   int       // of the link, at open
	info  fsys.Info // of a file whose pages are cached, at open
	first []byte    // all of it, read at open
	until time.Time // when info and first are too old

	locked atomic.Bool // since it was opened, so that first is too old

	mu    sync.Mutex
	at    int64   // where the reply in reply was read from, on a Message file
	reply []byte  // a copy, as far as it is worth one
	bytes int64   // taken for what it keeps
	id    fsys.ID // that it may have locks on
}

// fileBytes is about what an open file takes, and its inode.
const fileBytes = 2 << 10

// count takes account of what f keeps now.
func (t *tree) count(f *file) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := fileBytes + int64(len(f.first)+len(f.reply)) + fsys.Held(f.handle)
	t.part.Charge(share.Files, now-f.bytes)
	f.bytes = now
}

func flagOf(open uint32) fsys.Flag {
	var f fsys.Flag
	switch open & syscall.O_ACCMODE {
	case syscall.O_RDONLY:
		f = fsys.Read
	case syscall.O_WRONLY:
		f = fsys.Write
	case syscall.O_RDWR:
		f = fsys.Read | fsys.Write
	}
	for bit, flag := range map[uint32]fsys.Flag{
		syscall.O_TRUNC:  fsys.Trunc,
		syscall.O_APPEND: fsys.Append,
		syscall.O_EXCL:   fsys.Excl,
	} {
		if open&bit != 0 {
			f |= flag
		}
	}
	return f
}

func (t *tree) Open(cancel <-chan struct{}, input *gofuse.OpenIn, out *gofuse.OpenOut) gofuse.Status {
	in, r, st := t.begin(cancel, input.NodeId)
	if !st.Ok() {
		return st
	}
	defer r.end()
	flag := flagOf(input.Flags) &^ fsys.Excl
	if in.stored && in.kind == fsys.File && flag == fsys.Read {
		return t.openStored(r, in, out)
	}
	if flag&fsys.Trunc != 0 {
		t.inodes.changing(in)
		defer t.inodes.changing(in)
	}
	h, err := t.open(r, in, flag)
	if err != nil {
		return t.status(err)
	}
	return t.opened(&file{in: in, handle: h, flag: flag}, out)
}

func (t *tree) open(ctx context.Context, in *inode, flag fsys.Flag) (fsys.Handle, error) {
	node, err := t.nodeOf(ctx, in)
	if err != nil {
		return nil, err
	}
	if flag&(fsys.Trunc|fsys.Write) == fsys.Trunc { // open(2) does that here
		if err := fsys.Truncate(ctx, node, 0); err != nil {
			return nil, err
		}
		flag &^= fsys.Trunc
	}
	return node.Open(ctx, flag)
}

func (t *tree) opened(f *file, out *gofuse.OpenOut) gofuse.Status {
	if f.bytes = fileBytes + int64(len(f.first)) + fsys.Held(f.handle); !t.part.Reserve(share.Files, f.bytes) {
		f.handle.Close()
		return t.status(share.ErrFull)
	}
	t.inodes.use(f.in, 1)
	f.age = t.link.now()
	out.Fh = t.files.add(f)
	out.OpenFlags = gofuse.FOPEN_DIRECT_IO | gofuse.FOPEN_PARALLEL_DIRECT_WRITES
	return gofuse.OK
}

func (t *tree) Create(cancel <-chan struct{}, input *gofuse.CreateIn, name string, out *gofuse.CreateOut) gofuse.Status {
	dir, r, st := t.begin(cancel, input.NodeId)
	if !st.Ok() {
		return st
	}
	defer r.end()
	t.inodes.changing(dir)
	defer t.inodes.changing(dir)
	up, err := t.nodeOf(r, dir)
	if err != nil {
		return t.status(err)
	}
	node, h, err := fsys.OpenCreate(r, up, name, fs.FileMode(input.Mode&0o777), flagOf(input.Flags))
	if err != nil {
		return t.status(err)
	}
	info, err := node.Stat(r)
	if err != nil {
		h.Close()
		return t.status(err)
	}
	in := t.inodes.enter(dir, name, node, info, input.Pid)
	t.reply(in, info, &out.EntryOut)
	return t.opened(&file{in: in, handle: h, flag: flagOf(input.Flags)}, &out.OpenOut)
}

// file returns an open file. One of a tree that was lost is no use.
func (t *tree) file(fh uint64) (*file, gofuse.Status) {
	if t.ctx.Err() != nil {
		return nil, gone
	}
	f, ok := t.files.get(fh)
	switch {
	case !ok:
		return nil, errno(fsys.BadHandle)
	case f.age != t.link.now():
		return nil, gofuse.EIO
	}
	return f, gofuse.OK
}

func (t *tree) Read(cancel <-chan struct{}, input *gofuse.ReadIn, buf []byte) (gofuse.ReadResult, gofuse.Status) {
	f, st := t.file(input.Fh)
	if !st.Ok() {
		return nil, st
	}
	off := int64(input.Offset)
	if f.info.Version != 0 {
		t.inodes.read(f.in, f.info)
	}
	if off < int64(len(f.first)) && !f.locked.Load() && time.Now().Before(f.until) {
		return gofuse.ReadResultData(f.first[off:min(off+int64(len(buf)), int64(len(f.first)))]), gofuse.OK
	}
	if n := f.replay(buf, off); n > 0 {
		return gofuse.ReadResultData(buf[:n]), gofuse.OK
	}
	r, st := t.request(cancel)
	if !st.Ok() {
		return nil, st
	}
	r.patience = 0
	defer r.end()
	done, err := t.part.More(r, f.in.kind, f.handle, 0)
	if err != nil {
		return nil, t.status(err)
	}
	defer done()
	n, err := fsys.ReadAt(r, f.handle, buf, off)
	if n == 0 && err != nil && !fsys.IsEOF(err) {
		return nil, t.status(err)
	}
	if f.remember(buf[:n], off) {
		t.count(f)
	}
	return gofuse.ReadResultData(buf[:n]), gofuse.OK
}

// maxReplay is how much of a reply a file remembers.
const maxReplay = 64 << 10

// remember keeps a reply for replay, and reports whether it does.
func (f *file) remember(p []byte, off int64) bool {
	if f.in.kind != fsys.Message {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at, f.reply = off, nil
	if len(p) <= maxReplay {
		f.reply = bytes.Clone(p)
	}
	return true
}

// replay reads the rest of the last reply again. A Message file gives each
// reply once, whatever the offset; but head(1) and the shell's read take more
// than a line, and then seek back to where the line ended.
func (f *file) replay(p []byte, off int64) int {
	if f.in.kind != fsys.Message {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if off <= f.at || off >= f.at+int64(len(f.reply)) {
		return 0
	}
	return copy(p, f.reply[off-f.at:])
}

func (t *tree) Write(cancel <-chan struct{}, input *gofuse.WriteIn, data []byte) (uint32, gofuse.Status) {
	f, st := t.file(input.Fh)
	if !st.Ok() {
		return 0, st
	}
	f.remember(nil, 0)
	r, st := t.request(cancel)
	if !st.Ok() {
		return 0, st
	}
	defer r.end()
	if f.in.stored {
		t.inodes.changing(f.in)
		defer t.inodes.changing(f.in)
	}
	done, err := t.part.More(r, f.in.kind, f.handle, len(data))
	if err != nil {
		return 0, t.status(err)
	}
	defer done()
	n, err := fsys.WriteAt(r, f.handle, data, int64(input.Offset))
	t.count(f)
	if n == 0 && err != nil {
		return 0, t.status(err)
	}
	t.inodes.grew(f.in, int64(input.Offset)+int64(n))
	return uint32(n), gofuse.OK
}

// Flush is a close(2) of one of the descriptors of a file, of which the
// others may go on.
func (t *tree) Flush(cancel <-chan struct{}, input *gofuse.FlushIn) gofuse.Status {
	st := t.sync(cancel, input.Fh)
	t.unlock(cancel, input.Fh, ownerOf(input.LockOwner, false))
	return st
}

func (t *tree) Fsync(cancel <-chan struct{}, input *gofuse.FsyncIn) gofuse.Status {
	return t.sync(cancel, input.Fh)
}

func (t *tree) sync(cancel <-chan struct{}, fh uint64) gofuse.Status {
	f, st := t.file(fh)
	if !st.Ok() {
		return st
	}
	r, st := t.request(cancel)
	if !st.Ok() {
		return st
	}
	defer r.end()
	return t.status(fsys.Sync(r, f.handle))
}

func (t *tree) Release(_ <-chan struct{}, input *gofuse.ReleaseIn) {
	if f, ok := t.files.remove(input.Fh); ok {
		t.inodes.use(f.in, -1)
		f.handle.Close()
		t.part.Give(share.Files, f.bytes)
		t.lockers.leave(locker{f.in, ownerOf(input.LockOwner, true)})
		t.released(f)
	}
}

// closeAll closes what the kernel no longer will.
func (t *tree) closeAll() {
	for _, f := range t.files.drain() {
		f.handle.Close()
		t.released(f)
	}
	t.dirs.drain()
}
