package ninep

import (
	"context"
	"math"
	"slices"
	"sync"

	"agent9/fsys"
)

// Types, flags and answers of Tlock.
const (
	lockRead   = 0
	lockWrite  = 1
	lockUnlock = 2

	lockBlock = 1 // wait until it can be granted

	lockSuccess = 0
	lockBlocked = 1
)

// A lockTable keeps the advisory record locks of all clients, as fcntl(2)
// defines them, by qid path. Nothing here stops a read or a write. Two files
// are the same only if they were reached under the same attach name by the
// same caller.
type lockTable struct {
	mu    sync.Mutex
	files map[uint64]*fileLocks
}

type fileLocks struct {
	held    []heldLock
	changed chan struct{} // made by who waits, closed when locks go
}

// maxLocks is how many locks a file may have.
const maxLocks = 1024

var errManyLocks = fsys.E(fsys.Busy, "too many locks on this file")

type heldLock struct {
	start, end uint64 // the last byte; MaxUint64 is the end of the file
	write      bool
	owner      lockOwner
	fid        *fid
}

// A lockOwner is a process, as its client names it.
type lockOwner struct {
	session *session
	client  string
	proc    uint32
}

func (r *request) heldLock() (heldLock, error) {
	l := &r.m.Lock
	h := heldLock{l.Start, math.MaxUint64, l.Type == lockWrite, lockOwner{r.s, l.ClientID, l.ProcID}, r.fid}
	if l.Length != 0 {
		if h.end = l.Start + l.Length - 1; h.end < l.Start {
			return h, fsys.E(fsys.Invalid, "a lock out of range")
		}
	}
	if l.Type > lockUnlock {
		return h, fsys.E(fsys.Invalid, "there is no such type of lock")
	}
	return h, nil
}

// lock serves Tlock. One that may wait is answered when it was granted.
func (r *request) lock() error {
	h, err := r.heldLock()
	if err != nil {
		return err
	}
	table, path := &r.conn.srv.locks, r.lockPath()
	if r.m.Lock.Type == lockUnlock {
		r.m.Status = lockSuccess
		return table.unlock(path, h)
	}
	granted, err := table.lock(r.ctx, path, h, r.m.Flags&lockBlock != 0)
	r.m.Status = lockBlocked
	if granted {
		r.m.Status = lockSuccess
	}
	return err
}

// lockPath is where the locks of r's fid are: where the file was when the fid
// first asked, for a rename gives it another path.
func (r *request) lockPath() uint64 {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if r.fid.locks == 0 {
		r.fid.locks = r.fid.at.qid.Path
	}
	return r.fid.locks
}

// getLock serves Tgetlock: a lock that is in the way, or that there is none.
func (r *request) getLock() error {
	h, err := r.heldLock()
	if err != nil {
		return err
	}
	l := &r.m.Lock
	c, found := r.conn.srv.locks.conflict(r.lockPath(), h)
	if !found {
		l.Type = lockUnlock
		return nil
	}
	l.Type, l.Start, l.Length = lockRead, c.start, 0
	if c.write {
		l.Type = lockWrite
	}
	if c.end != math.MaxUint64 {
		l.Length = c.end - c.start + 1
	}
	l.ProcID, l.ClientID = c.owner.proc, c.owner.client
	return nil
}

func (t *lockTable) conflict(path uint64, h heldLock) (heldLock, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.files[path]; f != nil {
		if i := f.conflict(h); i >= 0 {
			return f.held[i], true
		}
	}
	return heldLock{}, false
}

func (f *fileLocks) conflict(h heldLock) int {
	return slices.IndexFunc(f.held, func(o heldLock) bool {
		return o.owner != h.owner && (o.write || h.write) && o.start <= h.end && h.start <= o.end
	})
}

func (t *lockTable) lock(ctx context.Context, path uint64, h heldLock, wait bool) (bool, error) {
	for {
		t.mu.Lock()
		if t.files == nil {
			t.files = map[uint64]*fileLocks{}
		}
		f := t.files[path]
		if f == nil {
			f = &fileLocks{}
			t.files[path] = f
		}
		if f.conflict(h) < 0 {
			defer t.mu.Unlock()
			if len(f.held) >= maxLocks {
				return false, errManyLocks
			}
			f.cut(h)
			f.held = append(f.held, h)
			f.wake() // a write lock may have become a read lock
			return true, nil
		}
		if !wait {
			t.mu.Unlock()
			return false, nil
		}
		if f.changed == nil {
			f.changed = make(chan struct{})
		}
		changed := f.changed
		t.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

func (t *lockTable) unlock(path uint64, h heldLock) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.files[path]
	if f == nil {
		return nil
	}
	if len(f.held) >= maxLocks && f.splits(h) {
		return errManyLocks
	}
	f.cut(h)
	t.settle(path, f)
	return nil
}

// release gives up what was locked through a fid that is gone.
func (t *lockTable) release(path uint64, fid *fid) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.files[path]; f != nil {
		f.held = slices.DeleteFunc(f.held, func(o heldLock) bool { return o.fid == fid })
		t.settle(path, f)
	}
}

func (t *lockTable) settle(path uint64, f *fileLocks) {
	f.wake()
	if len(f.held) == 0 {
		delete(t.files, path)
	}
}

func (f *fileLocks) wake() {
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// splits reports whether h without its owner's lock would leave two.
func (f *fileLocks) splits(h heldLock) bool {
	return slices.ContainsFunc(f.held, func(o heldLock) bool {
		return o.owner == h.owner && o.start < h.start && o.end > h.end
	})
}

// cut takes the range of h out of what its owner holds.
func (f *fileLocks) cut(h heldLock) {
	var rest []heldLock
	f.held = slices.DeleteFunc(f.held, func(o heldLock) bool {
		if o.owner != h.owner || o.start > h.end || h.start > o.end {
			return false
		}
		if o.start < h.start {
			left := o
			left.end = h.start - 1
			rest = append(rest, left)
		}
		if o.end > h.end {
			right := o
			right.start = h.end + 1
			rest = append(rest, right)
		}
		return true
	})
	f.held = append(f.held, rest...)
}
