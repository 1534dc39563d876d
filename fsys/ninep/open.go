package ninep

import (
	"io/fs"

	"agent9/fsys"
	"agent9/fsys/share"
)

// Modes of Topen and Tcreate (open(5)).
const (
	oRead   = 0
	oWrite  = 1
	oRdWr   = 2
	oExec   = 3
	oTrunc  = 0x10
	oCexec  = 0x20
	oRclose = 0x40
)

// Linux open flags, in the numbering of 9P2000.L.
const (
	lAccess    = 0o3
	lCreate    = 0o100
	lExcl      = 0o200
	lTrunc     = 0o1000
	lAppend    = 0o2000
	lDirectory = 0o200000
)

// An openMode is what Topen, Tcreate, Tlopen and Tlcreate ask for.
type openMode struct {
	flag     fsys.Flag
	truncate bool // although it is not opened for writing
	remove   bool // when it is clunked
	dirOnly  bool
}

func (r *request) openMode() (o openMode, err error) {
	access, trunc, bad := r.m.Mode&3, r.m.Mode&oTrunc != 0, r.m.Mode&^(3|oTrunc|oCexec|oRclose) != 0
	if r.s.dialect == linux {
		access, trunc, bad = r.m.Flags&lAccess, r.m.Flags&lTrunc != 0, r.m.Flags&lAccess == 3
		o.dirOnly = r.m.Flags&lDirectory != 0
	} else {
		o.remove = r.m.Mode&oRclose != 0
	}
	if bad {
		return o, fsys.E(fsys.Invalid, "the open mode is invalid")
	}
	o.flag = [...]fsys.Flag{oRead: fsys.Read, oWrite: fsys.Write, oRdWr: fsys.Read | fsys.Write, oExec: fsys.Read}[access]
	switch {
	case trunc && o.flag&fsys.Write != 0:
		o.flag |= fsys.Trunc
	case trunc:
		o.truncate = true
	}
	if r.s.dialect == linux && r.m.Flags&lAppend != 0 && o.flag&fsys.Write != 0 {
		o.flag |= fsys.Append
	}
	return o, nil
}

// open serves Topen and Tlopen.
func (r *request) open() error {
	o, err := r.openMode()
	if err != nil {
		return err
	}
	at, kind := r.place()
	if kind == fsys.Directory && (o.flag != fsys.Read || o.truncate || o.remove) {
		return fsys.IsDir
	}
	if kind != fsys.Directory && o.dirOnly {
		return fsys.NotDir
	}
	if o.truncate {
		if err := fsys.Truncate(r.ctx, at.node, 0); err != nil {
			return err
		}
	}
	if kind == fsys.File {
		done, err := r.conn.data.Make(r.ctx)
		if err != nil {
			return err
		}
		defer done()
	}
	h, err := at.node.Open(r.ctx, o.flag)
	if err != nil {
		return err
	}
	r.m.Qid = at.qid
	if info, err := at.node.Stat(r.ctx); err == nil {
		r.m.Qid = r.conn.srv.qidNow(at, info)
	}
	return r.opened(at, h, o, 0)
}

// opened makes r's fid the open file at p, for which so much was paid, and fills
// in the reply.
func (r *request) opened(p *place, h fsys.Handle, o openMode, paid int64) error {
	r.m.Iounit = r.s.msize - ioHeader
	f := r.fid
	held := fsys.Held(h)
	if !r.conn.data.Reserve(share.Files, held) {
		r.conn.data.Give(share.Fids, paid)
		h.Close()
		return share.ErrFull
	}
	err := r.s.commit(r, func() error {
		if f.gone {
			return fsys.BadHandle
		}
		if err := r.s.goTo(f, p, paid); err != nil {
			return err
		}
		f.state, f.handle, f.flag = fidOpen, h, o.flag
		f.kind, f.remove = kindOf(p.qid.Type), o.remove
		f.bytes += held
		return nil
	})
	if err != nil {
		r.conn.data.Give(share.Files, held)
		r.conn.data.Give(share.Fids, paid)
		h.Close()
	}
	return err
}

// create serves Tcreate and Tlcreate: r's fid goes from the directory to the
// new file.
func (r *request) create() error {
	o, err := r.openMode()
	if err != nil {
		return err
	}
	m := &r.m
	at, _ := r.place()
	paid := placeCost(m.Name) // before, as the fid is to go there
	if !r.conn.data.Reserve(share.Fids, paid) {
		return share.ErrFull
	}
	var n fsys.Node
	var h fsys.Handle
	switch {
	case r.s.dialect == linux:
		if m.Flags&lExcl != 0 {
			o.flag |= fsys.Excl
		}
		n, h, err = fsys.OpenCreate(r.ctx, at.node, m.Name, fs.FileMode(m.Mode).Perm(), o.flag)
		o.flag &^= fsys.Excl
	case m.Perm&dmDir != 0:
		n, h, err = r.createDir(at, o)
	case m.Perm&(dmExcl|dmAuth) != 0:
		err = fsys.E(fsys.Unsupported, "exclusive-use files are not supported")
	default:
		if m.Perm&dmAppend != 0 && o.flag&fsys.Write != 0 {
			o.flag |= fsys.Append
		}
		n, h, err = fsys.Create(r.ctx, at.node, m.Name, r.inherit(at, 0o666), o.flag)
	}
	if err != nil {
		r.conn.data.Give(share.Fids, paid)
		return err
	}
	p, err := r.conn.srv.placeAt(r.ctx, at, m.Name, n)
	if err != nil {
		r.conn.data.Give(share.Fids, paid)
		h.Close()
		return err
	}
	m.Qid = p.qid
	return r.opened(p, h, o, paid)
}

func (r *request) createDir(at *place, o openMode) (fsys.Node, fsys.Handle, error) {
	if o.flag != fsys.Read || o.truncate {
		return nil, nil, fsys.IsDir
	}
	n, err := fsys.Mkdir(r.ctx, at.node, r.m.Name, r.inherit(at, 0o777))
	if err != nil {
		return nil, nil, err
	}
	h, err := n.Open(r.ctx, fsys.Read)
	return n, h, err
}

// inherit is the permission that open(5) gives a new file: what was asked for,
// less what the directory does not have either of the bits in mask.
func (r *request) inherit(at *place, mask fs.FileMode) fs.FileMode {
	perm := fs.FileMode(r.m.Perm).Perm()
	if info, err := at.node.Stat(r.ctx); err == nil {
		perm &= ^mask | info.Perm&mask
	}
	return perm
}

// mkdir serves Tmkdir.
func (r *request) mkdir() error {
	at, _ := r.place()
	n, err := fsys.Mkdir(r.ctx, at.node, r.m.Name, fs.FileMode(r.m.Mode).Perm())
	if err != nil {
		return err
	}
	p, err := r.conn.srv.placeAt(r.ctx, at, r.m.Name, n)
	if err != nil {
		return err
	}
	r.m.Qid = p.qid
	return nil
}
