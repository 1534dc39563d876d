package ninep

import (
	"math"
	"reflect"

	"agent9/fsys"
	"agent9/fsys/locks"
	"agent9/fsys/share"
)

// Types, flags and answers of Tlock.
const (
	lockUnlock = 2

	lockBlock = 1 // wait until it can be granted

	lockSuccess = 0
	lockBlocked = 1
)

// A locker is an attach, as it has locks.
type locker struct {
	att  *attach
	data *share.Part
}

func (l locker) Over() bool           { return l.att.over() }
func (l locker) Reserve(n int64) bool { return l.data.Reserve(share.Locks, n) }
func (l locker) Give(n int64)         { l.data.Give(share.Locks, n) }

// heldLock is what r asks for, for which its fid must be open for flag.
func (r *request) heldLock(flag fsys.Flag) (locks.Held, error) {
	l := &r.m.Lock
	h := locks.Held{
		Lock: fsys.Lock{
			Kind: fsys.LockKind(l.Type), Start: l.Start, End: math.MaxUint64, Owner: l.ClientID, Process: l.ProcID,
		},
		Client: locker{r.att, r.conn.data}, Handle: r.fid,
	}
	if l.Length != 0 {
		h.End = l.Start + l.Length - 1
	}
	return h, locks.Check(h.Lock, flag)
}

// lock serves Tlock. One that may wait is answered when it was granted.
func (r *request) lock() error {
	h, err := r.heldLock(r.fid.flag)
	if err != nil {
		return err
	}
	granted, err := r.conn.srv.Locks.Set(r.ctx, r.lockID(), h, r.m.Flags&lockBlock != 0)
	if r.m.Status = lockBlocked; granted {
		r.m.Status = lockSuccess
	}
	return err
}

// lockID is which file r's fid is: what it was when the fid first asked, as a
// rename may give it another path.
func (r *request) lockID() fsys.ID {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if r.fid.locks == (fsys.ID{}) {
		r.fid.locks = r.fid.at.id()
	}
	return r.fid.locks
}

// id is which file is at p. Where the tree does not know, it is the one that is
// reached by the same path from the same root.
func (p *place) id() fsys.ID {
	id := fsys.IDOf(p.node)
	switch {
	case id != (fsys.ID{}):
		return id
	case p.up != nil:
		return p.up.id().Below(p.name, p.node)
	case p.root != (fsys.ID{}):
		return p.root
	case reflect.ValueOf(p.node).Comparable():
		return fsys.ID{In: p.node}
	}
	return fsys.ID{In: p}
}

// getLock serves Tgetlock: a lock that is in the way, or that there is none.
func (r *request) getLock() error {
	h, err := r.heldLock(fsys.Read | fsys.Write)
	if err != nil {
		return err
	}
	found := r.conn.srv.Locks.LockedBy(r.lockID(), h)
	l := &r.m.Lock
	l.Type = uint8(found.Kind)
	if found.Kind == fsys.LockUnlock {
		return nil
	}
	l.Start, l.Length = found.Start, 0
	if found.End != math.MaxUint64 {
		l.Length = found.End - found.Start + 1
	}
	l.ProcID, l.ClientID = found.Process, found.Owner
	return nil
}

// unlock gives up the locks of a, whose grant has ended.
func (s *session) unlock(a *attach) {
	s.mu.Lock()
	held := map[*fid]fsys.ID{}
	for _, f := range s.fids {
		if f.att == a && f.locks != (fsys.ID{}) {
			held[f] = f.locks
		}
	}
	s.mu.Unlock()
	for f, id := range held {
		s.conn.srv.Locks.Release(id, f)
	}
}
