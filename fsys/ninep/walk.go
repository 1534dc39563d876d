package ninep

import (
	"context"
	"io"

	"agent9/fsys"
)

// walk serves Twalk: as far as names lead, and all the way or NewFid is not
// made (walk(5)).
func (r *request) walk() error {
	m, f := &r.m, r.fid
	at, kind := r.place()
	m.Qids = m.qids[:0]
	for i, name := range m.Names {
		next, err := r.step(at, kind, name)
		if err != nil && i == 0 {
			return err
		}
		if err != nil {
			return nil
		}
		at, kind = next, kindOf(next.qid.Type)
		m.Qids = append(m.Qids, next.qid)
	}
	return r.s.commit(r, func() error {
		if n := r.reserved; n != nil {
			if err := r.s.goTo(n, at, 0); err != nil {
				return err
			}
			n.state = fidWalked
			return nil
		}
		if f.gone || f.state != fidWalked {
			return fsys.BadHandle
		}
		return r.s.goTo(f, at, 0)
	})
}

// place is where r's fid is now.
func (r *request) place() (*place, fsys.Kind) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.fid.at, kindOf(r.fid.at.qid.Type)
}

func (r *request) step(at *place, kind fsys.Kind, name string) (*place, error) {
	if kind != fsys.Directory {
		return nil, fsys.NotDir
	}
	if name == ".." {
		if at.up != nil {
			return at.up, nil
		}
		return at, nil
	}
	if err := fsys.CheckName(name); err != nil {
		return nil, err
	}
	n, err := fsys.Walk(r.ctx, at.node, name)
	if err != nil {
		return nil, err
	}
	return r.conn.srv.placeAt(r.ctx, at, name, n)
}

// xattrWalk serves Txattrwalk: there are no extended attributes but listAttr,
// and the list of them is empty.
func (r *request) xattrWalk() error {
	switch r.m.Name {
	case "":
	case listAttr:
		return r.listedWalk()
	default:
		return errNoAttr
	}
	at, _ := r.place()
	r.m.Size = 0
	return r.s.commit(r, func() error {
		n := r.reserved
		if err := r.s.goTo(n, at, 0); err != nil {
			return err
		}
		n.state = fidOpen
		n.handle, n.flag = emptyHandle{}, fsys.Read
		return nil
	})
}

// emptyHandle is an open file without contents.
type emptyHandle struct{}

func (emptyHandle) Close() error { return nil }

func (emptyHandle) ReadAt(context.Context, []byte, int64) (int, error) { return 0, io.EOF }
