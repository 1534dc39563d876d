package ninep

import (
	"context"
	"math"

	"agent9/fsys"
)

var _ fsys.Locker = (*remoteHandle)(nil)

var errNoLocks = fsys.E(fsys.Unsupported, "there are no locks in 9P2000; attach with 9P2000.L")

// Lock is Tlock.
func (h *remoteHandle) Lock(ctx context.Context, l fsys.Lock, wait bool) (granted bool, err error) {
	m := message{Type: tlock, Lock: rangeOf(l)}
	if wait {
		m.Flags = lockBlock
	}
	err = h.locking(ctx, m, func(r *clientReply) error {
		if granted = r.Status == lockSuccess; !granted && r.Status != lockBlocked {
			return fsys.E(fsys.Busy, "the server grants no locks now")
		}
		return nil
	})
	return granted, err
}

// LockedBy is Tgetlock.
func (h *remoteHandle) LockedBy(ctx context.Context, l fsys.Lock) (found fsys.Lock, err error) {
	err = h.locking(ctx, message{Type: tgetlock, Lock: rangeOf(l)}, func(r *clientReply) error {
		found = fsys.Lock{
			Kind: fsys.LockKind(r.Lock.Type), Start: r.Lock.Start, End: math.MaxUint64, Owner: r.Lock.ClientID, Process: r.Lock.ProcID,
		}
		if r.Lock.Length != 0 {
			found.End = r.Lock.Start + r.Lock.Length - 1
		}
		return nil
	})
	return found, err
}

func (h *remoteHandle) locking(ctx context.Context, m message, done func(*clientReply) error) error {
	if h.c.dialect != linux {
		return errNoLocks
	}
	if err := h.begin(); err != nil {
		return err
	}
	defer h.end(ctx)
	m.Fid = h.fid
	r, err := h.c.do(ctx, m)
	if err != nil {
		return err
	}
	defer r.free()
	return done(r)
}

func rangeOf(l fsys.Lock) lockRange {
	r := lockRange{Type: uint8(l.Kind), Start: l.Start, ProcID: l.Process, ClientID: l.Owner}
	if l.End != math.MaxUint64 {
		r.Length = l.End - l.Start + 1
	}
	return r
}
