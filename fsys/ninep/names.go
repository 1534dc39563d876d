package ninep

import (
	"agent9/fsys"
	"agent9/fsys/share"
)

// remove serves Tremove, which is a clunk also when nothing is removed.
func (r *request) remove() error {
	if err := r.quiesce(); err != nil {
		return err
	}
	r.s.mu.Lock()
	f := r.fid
	revoked, at := r.att.over(), f.at
	f.remove = false
	r.s.mu.Unlock()
	err := errRevoked
	switch {
	case revoked:
	case at.up == nil:
		err = fsys.E(fsys.Permission, "the root cannot be removed")
	default:
		err = fsys.Remove(r.ctx, at.node)
	}
	if cerr := r.s.close(r.ctx, f, err != nil); err == nil {
		err = cerr
	}
	return err
}

// unlinkAt serves Tunlinkat.
func (r *request) unlinkAt() error {
	const removeDir = 0x200
	at, _ := r.place()
	if err := fsys.CheckName(r.m.Name); err != nil {
		return err
	}
	n, err := fsys.Walk(r.ctx, at.node, r.m.Name)
	if err != nil {
		return err
	}
	info, err := n.Stat(r.ctx)
	switch {
	case err != nil:
		return err
	case info.Kind == fsys.Directory && r.m.Flags&removeDir == 0:
		return fsys.IsDir
	case info.Kind != fsys.Directory && r.m.Flags&removeDir != 0:
		return fsys.NotDir
	}
	return fsys.Remove(r.ctx, n)
}

// renameAt serves Trenameat.
func (r *request) renameAt() error {
	r.s.mu.Lock()
	from, to := r.fid.at, r.dir.at
	r.s.mu.Unlock()
	if err := fsys.CheckName(r.m.Name); err != nil {
		return err
	}
	if !sameDir(from, to) {
		return fsys.CrossDir
	}
	return fsys.Rename(r.ctx, from.node, r.m.Name, r.m.NewName)
}

// rename serves Trename.
func (r *request) rename() error {
	r.s.mu.Lock()
	at, to := r.fid.at, r.dir.at
	r.s.mu.Unlock()
	if at.up == nil {
		return fsys.E(fsys.Permission, "the root has no name")
	}
	if !sameDir(at.up, to) {
		return fsys.CrossDir
	}
	return r.renameFid(at, r.m.Name)
}

func sameDir(a, b *place) bool { return a.qid.Path == b.qid.Path }

// renameFid gives the file at p, where r's fid is, another name in its
// directory.
func (r *request) renameFid(p *place, name string) error {
	paid := placeCost(name) // before, as the fid is to follow
	if !r.conn.data.Reserve(share.Fids, paid) {
		return share.ErrFull
	}
	if err := fsys.Rename(r.ctx, p.up.node, p.name, name); err != nil {
		r.conn.data.Give(share.Fids, paid)
		return err
	}
	moved := &place{up: p.up, name: name, node: p.node, qid: p.qid, gen: p.gen}
	if n, err := fsys.Walk(r.ctx, p.up.node, name); err == nil {
		if q, err := r.conn.srv.placeAt(r.ctx, p.up, name, n); err == nil {
			moved = q
		}
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if r.fid.at == p && !r.fid.gone {
		return r.s.goTo(r.fid, moved, paid)
	}
	r.conn.data.Give(share.Fids, paid)
	return nil
}
