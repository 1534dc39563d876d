// Package locks keeps the advisory record locks (fcntl(2)) of a daemon's files:
// a table of all that its front ends serve, so that a lock excludes everybody,
// however the file is reached.
package locks

import (
	"context"
	"slices"
	"sync"

	"agent9/fsys"
)

// A Client is an owner of locks: an attach, or a mount.
type Client interface {
	// Over reports whether nothing of the client's counts any longer.
	Over() bool
	// Reserve takes bytes that a lock needs from what the client may make the
	// daemon keep, and Give gives them back.
	Reserve(n int64) bool
	Give(n int64)
}

// A Held is a lock of a client's. Clients and handles are compared.
type Held struct {
	fsys.Lock
	Client Client
	Handle any // goes with it
}

// A Table has the locks by the files' identities. The zero value has none.
type Table struct {
	mu    sync.Mutex
	files map[fsys.ID]*file
}

type file struct {
	held    []Held
	waiting int
	changed chan struct{} // made by a waiter, closed when locks are released
}

const (
	most      = 1024 // locks that a client may have on a file
	lockBytes = 256  // about what one takes, besides its owner's name
)

var (
	errMany = fsys.E(fsys.Busy, "too many locks on this file, or too much else on this connection; unlock some")
	errOver = fsys.E(fsys.Permission, "the grant was revoked or has expired")
	errLong = fsys.E(fsys.Invalid, "the name of a lock's owner is longer than 255 bytes")
)

// Check refuses a lock that a handle which was opened for flag cannot have.
func Check(l fsys.Lock, flag fsys.Flag) error {
	switch {
	case len(l.Owner) > fsys.MaxName:
		return errLong
	case l.Start > l.End:
		return fsys.E(fsys.Invalid, "a lock out of range")
	case l.Kind > fsys.LockUnlock:
		return fsys.E(fsys.Invalid, "there is no such type of lock")
	case l.Kind == fsys.LockWrite && flag&fsys.Write == 0:
		return fsys.E(fsys.BadHandle, "a lock for writing needs a file that is open for writing")
	case l.Kind == fsys.LockRead && flag&fsys.Read == 0:
		return fsys.E(fsys.BadHandle, "a lock for reading needs a file that is open for reading")
	}
	return nil
}

// Set takes, changes or gives up a lock, as [fsys.Locker.Lock] does.
func (t *Table) Set(ctx context.Context, id fsys.ID, h Held, wait bool) (granted bool, err error) {
	for {
		changed, err := t.try(id, h, wait)
		if changed == nil || err != nil {
			return err == nil && changed == nil, err
		}
		if !wait {
			return false, nil
		}
		select {
		case <-changed:
			err = nil
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		t.leave(id)
		if err != nil {
			return false, err
		}
	}
}

// never is what try returns to callers that do not wait.
var never = make(chan struct{})

// try sets h, or returns what is closed when that may be tried again: who waits
// calls leave then.
func (t *Table) try(id fsys.ID, h Held, wait bool) (changed <-chan struct{}, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h.Client.Over() {
		return nil, errOver
	}
	f := t.files[id]
	if f == nil {
		f = &file{}
	}
	if h.Kind != fsys.LockUnlock && f.conflict(h) >= 0 {
		if !wait {
			return never, nil
		}
		if f.changed == nil {
			f.changed = make(chan struct{})
		}
		f.waiting++
		return f.changed, nil
	}
	if err := f.set(h); err != nil {
		return nil, err
	}
	t.keep(id, f)
	return nil, nil
}

func (t *Table) leave(id fsys.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.files[id]; f != nil {
		f.waiting--
		t.settle(id, f)
	}
}

// keep wakes the waiters, as a lock has changed.
func (t *Table) keep(id fsys.ID, f *file) {
	if t.files == nil {
		t.files = map[fsys.ID]*file{}
	}
	t.files[id] = f
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
	t.settle(id, f)
}

func (t *Table) settle(id fsys.ID, f *file) {
	if len(f.held) == 0 && f.waiting == 0 {
		delete(t.files, id)
	}
}

// LockedBy returns a lock that is in the way of h, or LockUnlock.
func (t *Table) LockedBy(id fsys.ID, h Held) fsys.Lock {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.files[id]; f != nil {
		if i := f.conflict(h); i >= 0 {
			return f.held[i].Lock
		}
	}
	return fsys.Lock{Kind: fsys.LockUnlock}
}

// Release gives up what was locked by way of a handle.
func (t *Table) Release(id fsys.ID, handle any) {
	t.drop(id, func(o Held) bool { return o.Handle == handle })
}

func (t *Table) drop(id fsys.ID, which func(Held) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.files[id]
	if f == nil {
		return
	}
	f.held = slices.DeleteFunc(f.held, func(o Held) bool {
		if which(o) {
			o.Client.Give(o.bytes())
			return true
		}
		return false
	})
	t.keep(id, f)
}

// Len returns how many files have locks, or are waited for.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.files)
}

func (h Held) bytes() int64 { return lockBytes + int64(len(h.Owner)) }

func (h Held) sameOwner(o Held) bool {
	return o.Client == h.Client && o.Owner == h.Owner && o.Process == h.Process
}

func (f *file) conflict(h Held) int {
	return slices.IndexFunc(f.held, func(o Held) bool {
		return !o.sameOwner(h) && (o.Kind == fsys.LockWrite || h.Kind == fsys.LockWrite) &&
			o.Start <= h.End && h.Start <= o.End && !o.Client.Over()
	})
}

// set puts h in place of what its owner has in its range.
func (f *file) set(h Held) error {
	var rest, next []Held
	mine, freed := 0, int64(0)
	for _, o := range f.held {
		if o.Client == h.Client {
			mine++
		}
		if !o.sameOwner(h) || o.Start > h.End || h.Start > o.End {
			next = append(next, o)
			continue
		}
		mine, freed = mine-1, freed+o.bytes()
		if o.Start < h.Start {
			left := o
			left.End = h.Start - 1
			rest = append(rest, left)
		}
		if o.End > h.End {
			right := o
			right.Start = h.End + 1
			rest = append(rest, right)
		}
	}
	if h.Kind != fsys.LockUnlock {
		rest = append(rest, h)
	}
	var needs int64
	for _, o := range rest {
		needs += o.bytes()
	}
	if more := needs - freed; more > 0 && (mine+len(rest) > most || !h.Client.Reserve(more)) {
		return errMany
	} else if more < 0 {
		h.Client.Give(-more)
	}
	f.held = append(next, rest...)
	return nil
}
