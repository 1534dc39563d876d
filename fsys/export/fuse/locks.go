//go:build (linux && !386 && !arm && !mips && !mipsle) || darwin || freebsd

package fuse

import (
	"context"
	"fmt"
	"math"
	"sync"
	"syscall"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"agent9/fsys"
	"agent9/fsys/locks"
)

// A client has the locks of a mount whose tree is here.
type client struct{ t *tree }

func (c client) Over() bool         { return c.t.ctx.Err() != nil }
func (c client) Reserve(int64) bool { return true } // the kernel bounds what it asks for
func (c client) Give(int64)         {}

// lockers are the possible owners of locks, by the files that they asked through: a
// close(2) gives up all of its process's locks on the file.
type lockers struct {
	mu  sync.Mutex
	all map[locker]uint32 // the process that came first: others may have its file
}

type locker struct {
	in    *inode
	owner string
}

// enter returns the process that is known as who.
func (l *lockers) enter(who locker, process uint32) uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[locker]uint32{}
	}
	if first, ok := l.all[who]; ok {
		return first
	}
	l.all[who] = process
	return process
}

// leave returns the process that who was known as, if it was.
func (l *lockers) leave(who locker) (process uint32, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	process, known = l.all[who]
	delete(l.all, who)
	return process, known
}

// ownerOf names who locks: a process with fcntl(2), and an open file with
// flock(2).
func ownerOf(owner uint64, flock bool) string {
	if flock {
		return fmt.Sprintf("flock-%x", owner)
	}
	return fmt.Sprintf("fcntl-%x", owner)
}

// lockOf is what the kernel asks for.
func lockOf(in *gofuse.LkIn) (fsys.Lock, bool) {
	l := fsys.Lock{Start: in.Lk.Start, End: in.Lk.End, Process: in.Lk.Pid, Owner: ownerOf(in.Owner, in.LkFlags&gofuse.FUSE_LK_FLOCK != 0)}
	if l.End >= math.MaxInt64 {
		l.End = math.MaxUint64
	}
	switch in.Lk.Typ {
	case syscall.F_RDLCK:
		l.Kind = fsys.LockRead
	case syscall.F_WRLCK:
		l.Kind = fsys.LockWrite
	case syscall.F_UNLCK:
		l.Kind = fsys.LockUnlock
	default:
		return l, false
	}
	return l, true
}

func (t *tree) SetLk(cancel <-chan struct{}, input *gofuse.LkIn) gofuse.Status {
	return t.lock(cancel, input, false)
}

func (t *tree) SetLkw(cancel <-chan struct{}, input *gofuse.LkIn) gofuse.Status {
	return t.lock(cancel, input, true)
}

func (t *tree) lock(cancel <-chan struct{}, input *gofuse.LkIn, wait bool) gofuse.Status {
	f, st := t.file(input.Fh)
	if !st.Ok() {
		return st
	}
	l, ok := lockOf(input)
	if !ok {
		return errno(fsys.Invalid)
	}
	r, st := t.request(cancel)
	if !st.Ok() {
		return st
	}
	r.patience = 0
	defer r.end()
	l.Process = t.lockers.enter(locker{f.in, l.Owner}, l.Process)
	granted, err := t.setLock(r, f, l, wait)
	if err == nil && !granted {
		return gofuse.Status(syscall.EAGAIN)
	}
	if err == nil && l.Kind != fsys.LockUnlock && f.in.stored {
		t.forgetPages(f)
	}
	return t.status(err)
}

// forgetPages lets what f reads next come from the tree: who has just got a
// lock sees what its last holder wrote.
func (t *tree) forgetPages(f *file) {
	f.locked.Store(true)
	t.inodes.mu.Lock()
	f.in.attrs, f.in.pages = label{}, label{}
	t.inodes.mu.Unlock()
	t.server.InodeNotify(f.in.id, 0, 0)
}

// setLock asks the file's own server, if it has one, for a lock.
func (t *tree) setLock(ctx context.Context, f *file, l fsys.Lock, wait bool) (bool, error) {
	if h, ok := f.handle.(fsys.Locker); ok {
		return h.Lock(ctx, l, wait)
	}
	held, id, err := t.held(ctx, f, l, f.flag)
	if err != nil {
		return false, err
	}
	return t.locks.Set(ctx, id, held, wait)
}

func (t *tree) held(ctx context.Context, f *file, l fsys.Lock, flag fsys.Flag) (locks.Held, fsys.ID, error) {
	if err := locks.Check(l, flag); err != nil {
		return locks.Held{}, fsys.ID{}, err
	}
	f.mu.Lock()
	id := f.id
	f.mu.Unlock()
	if id == (fsys.ID{}) {
		id = t.idOf(ctx, f.in)
		f.mu.Lock()
		f.id = id
		f.mu.Unlock()
	}
	return locks.Held{Lock: l, Client: client{t}, Handle: f}, id, nil
}

// idOf is which file in is. Where the tree does not know, it is the one that
// this mount has there.
func (t *tree) idOf(ctx context.Context, in *inode) fsys.ID {
	node, err := t.nodeOf(ctx, in)
	if err == nil {
		if id := fsys.IDOf(node); id != (fsys.ID{}) {
			return id
		}
	}
	t.inodes.mu.Lock()
	dir, name := t.inodes.byID[in.place.dir], in.place.name
	t.inodes.mu.Unlock()
	switch {
	case in.id == gofuse.FUSE_ROOT_ID && t.root != (fsys.ID{}):
		return t.root
	case in.id == gofuse.FUSE_ROOT_ID, dir == nil:
		return fsys.ID{In: in}
	}
	return t.idOf(ctx, dir).Below(name, nil)
}

func (t *tree) GetLk(cancel <-chan struct{}, input *gofuse.LkIn, out *gofuse.LkOut) gofuse.Status {
	f, st := t.file(input.Fh)
	if !st.Ok() {
		return st
	}
	l, ok := lockOf(input)
	if !ok {
		return errno(fsys.Invalid)
	}
	r, st := t.request(cancel)
	if !st.Ok() {
		return st
	}
	defer r.end()
	found, err := t.lockedBy(r, f, l)
	if err != nil {
		return t.status(err)
	}
	out.Lk = gofuse.FileLock{Start: found.Start, End: min(found.End, math.MaxInt64), Pid: found.Process}
	switch found.Kind {
	case fsys.LockRead:
		out.Lk.Typ = syscall.F_RDLCK
	case fsys.LockWrite:
		out.Lk.Typ = syscall.F_WRLCK
	default:
		out.Lk.Typ = syscall.F_UNLCK
	}
	return gofuse.OK
}

func (t *tree) lockedBy(ctx context.Context, f *file, l fsys.Lock) (fsys.Lock, error) {
	if h, ok := f.handle.(fsys.Locker); ok {
		return h.LockedBy(ctx, l)
	}
	held, id, err := t.held(ctx, f, l, fsys.Read|fsys.Write)
	if err != nil {
		return fsys.Lock{}, err
	}
	return t.locks.LockedBy(id, held), nil
}

// unlock gives up what owner has locked of the file that is open as fh.
func (t *tree) unlock(cancel <-chan struct{}, fh uint64, owner string) {
	f, ok := t.files.get(fh)
	if !ok {
		return
	}
	process, known := t.lockers.leave(locker{f.in, owner})
	if !known {
		return
	}
	r, st := t.request(cancel)
	if !st.Ok() {
		return // with the daemon went what it had
	}
	defer r.end()
	t.setLock(r, f, fsys.Lock{Kind: fsys.LockUnlock, End: math.MaxUint64, Owner: owner, Process: process}, false)
}

// released gives up what was locked by way of f, which is closed.
func (t *tree) released(f *file) {
	f.mu.Lock()
	id := f.id
	f.mu.Unlock()
	if id != (fsys.ID{}) {
		t.locks.Release(id, f)
	}
}
