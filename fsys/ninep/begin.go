package ninep

import (
	"agent9/fsys"
	"agent9/fsys/share"
)

// begin registers r, or answers it at once if it can: with an error, or as
// it needs no service.
func (s *session) begin(r *request) (answered bool, err error) {
	c, m := s.conn, &r.m
	if m.Type != tclunk && int(c.data.Requests.Load()) >= c.srv.MaxRequests {
		return false, fsys.E(fsys.Busy, "too many requests are in progress on this connection")
	}
	if m.Type == twrite {
		if err := r.keepBody(); err != nil {
			return false, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch m.Type {
	case tauth:
		return false, errNoAuth
	case tattach:
		if m.Afid != noFid {
			return false, errNoAuth
		}
		err = s.reserve(r, m.Fid)
		r.ctx = &opContext{Context: s.ctx}
	default:
		err = s.beginFid(r)
	}
	if err != nil {
		return false, err
	}
	if m.Type == tclunk && r.fid.handle == nil && r.fid.state == fidWalked {
		s.conn.unfid(r.fid)
		return true, nil
	}
	if r.soon = r.brief(); !r.soon && !r.pay() {
		s.release(r)
		if r.spanEnd != nil {
			r.spanEnd(fsys.Outcome(share.ErrFull))
		}
		return false, share.ErrFull
	}
	s.tags[m.Tag] = r
	c.data.Requests.Add(1)
	return false, nil
}

// requestBytes is about what a request takes that may wait: a goroutine with
// its stack, and what is known of the request but for its names.
const requestBytes = 6 << 10

// pay takes what r needs while it is under way, if there is room for that. What
// gives something back is never refused.
func (r *request) pay() bool {
	data, n := r.conn.data, int64(requestBytes)
	if r.body == nil {
		n += int64(r.size)
	}
	unlock := r.m.Type == tlock && r.m.Lock.Type == lockUnlock
	if r.op == tclunk || r.op == tremove || unlock {
		data.Charge(share.Requests, n)
	} else if !data.Reserve(share.Requests, n) {
		return false
	}
	r.paid = n
	return true
}

// keepBody makes the data of a Twrite outlive the buffer that it was read into.
func (r *request) keepBody() error {
	r.body, r.m.Data = r.conn.in.keep(r.m.Data)
	if !r.body.move(r.conn.data) {
		r.body.free()
		r.body = nil
		return share.ErrFull
	}
	return nil
}

// lookUp returns a fid that is in use.
func (s *session) lookUp(num uint32) (*fid, error) {
	if f := s.fids[num]; f != nil && f.state != fidReserved {
		return f, nil
	}
	return nil, fsys.BadHandle
}

// reserve makes num a fid of r, to be in use when r commits.
func (s *session) reserve(r *request, num uint32) error {
	switch {
	case num == noFid:
		return fsys.E(fsys.BadHandle, "NOFID cannot be used as a fid")
	case s.fids[num] != nil:
		return fsys.E(fsys.BadHandle, "the new fid is in use")
	case len(s.fids) >= s.conn.srv.MaxFids:
		return fsys.E(fsys.Busy, "too many fids on this connection")
	}
	if !s.conn.data.Reserve(share.Fids, fidBytes) {
		return share.ErrFull
	}
	s.conn.data.Fids.Add(1)
	r.reserved = &fid{num: num, att: r.att}
	s.fids[num] = r.reserved
	if r.att != nil {
		r.att.fids.Add(1)
	}
	return nil
}

// beginFid finds the fids of r and checks that they are fit for it.
func (s *session) beginFid(r *request) (err error) {
	m := &r.m
	num := m.Fid
	switch m.Type {
	case tmkdir, tunlinkat, tsymlink, tmknod, tlink:
		num = m.DirFid
	case trename, trenameat:
		if r.dir, err = s.lookUp(m.DirFid); err != nil {
			return err
		}
	}
	f, err := s.lookUp(num)
	if err != nil {
		return err
	}
	if f.att.over() && m.Type != tclunk && m.Type != tremove {
		return errRevoked
	}
	r.fid, r.att = f, f.att
	switch m.Type {
	case twalk:
		// Clients of 9P2000.L walk from open directories (diodls), and their
		// servers let them; walk(5) does not.
		if f.state != fidWalked && (s.dialect == plan9 || m.NewFid == m.Fid) {
			return fsys.E(fsys.BadHandle, "an open fid cannot be walked")
		}
		if m.NewFid != m.Fid {
			err = s.reserve(r, m.NewFid)
		}
	case txattrwalk:
		err = s.reserve(r, m.NewFid)
	case topen, tlopen, tcreate, tlcreate:
		if f.state != fidWalked {
			return fsys.E(fsys.BadHandle, "the fid is open already")
		}
		f.state, r.opening = fidBusy, true
	case tread, treaddir:
		err = s.use(r, fsys.Read)
	case twrite:
		err = s.use(r, fsys.Write)
	case tfsync, tlock, tgetlock:
		err = s.use(r, 0)
	case twstat:
		if f.state == fidOpen {
			err = s.use(r, 0)
		}
	case tclunk, tremove:
		s.forget(f)
	}
	if err == nil {
		r.ctx = r.att.newContext(r)
	}
	return err
}

// use registers r as a user of its fid's handle, which must be open for flag.
func (s *session) use(r *request, flag fsys.Flag) error {
	f := r.fid
	switch {
	case f.state != fidOpen:
		return fsys.E(fsys.BadHandle, "the fid is not open")
	case f.flag&flag != flag:
		return fsys.E(fsys.BadHandle, "the fid is not open for this")
	}
	r.using = true
	f.ops = append(f.ops, r)
	return nil
}
