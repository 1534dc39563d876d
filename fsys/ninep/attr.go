package ninep

import (
	"io/fs"
	"math"
	"time"

	"agent9/fsys"
)

// dirOf describes a file in 9P2000.
func (r *request) dirOf(name string, q qid, info fsys.Info) dir {
	mtime := uint32(r.conn.srv.timeOf(info).Unix())
	owner := clip(r.att.name, fsys.MaxName)
	return dir{
		Qid: q, Mode: uint32(q.Type)<<24 | uint32(info.Perm.Perm()),
		Atime: mtime, Mtime: mtime, Length: uint64(info.Size),
		Name: name, UID: owner, GID: owner, MUID: owner,
	}
}

// timeOf is when a file was changed: for one that does not know, when the
// server began.
func (s *Server) timeOf(info fsys.Info) time.Time {
	if info.ModTime.IsZero() {
		return s.begun
	}
	return info.ModTime
}

// stat serves Tstat.
func (r *request) stat() error {
	at, _ := r.place()
	info, err := at.node.Stat(r.ctx)
	if err != nil {
		return err
	}
	r.m.Stat = r.dirOf(at.name, r.conn.srv.qidNow(at, info), info)
	return nil
}

// getAttr serves Tgetattr.
func (r *request) getAttr() error {
	m := &r.m
	at, _ := r.place()
	info, err := at.node.Stat(r.ctx)
	if err != nil {
		return err
	}
	t := r.conn.srv.timeOf(info)
	sec, nsec := uint64(t.Unix()), uint64(t.Nanosecond())
	size := uint64(info.Size)
	m.Qid = r.conn.srv.qidNow(at, info)
	m.Valid &= getBasic | getGen | getVers
	m.Attr = attr{
		Mode: linuxMode(m.Qid.Type, info.Perm), UID: r.att.uid, GID: r.att.uid,
		Nlink: 1, Size: size, Blksize: blockSize, Blocks: (size + 511) / 512,
		AtimeSec: sec, AtimeNsec: nsec, MtimeSec: sec, MtimeNsec: nsec,
		CtimeSec: sec, CtimeNsec: nsec,
		Generation: info.Gen, DataVersion: uint64(info.Version),
	}
	return nil
}

const blockSize = 4096

// remoteFS is the file system type that Rstatfs names. GNU tail -f polls a
// file of this type, as it should; it would wait for inotify otherwise.
const remoteFS = 0x6969

// statfs serves Tstatfs. There are no blocks to count.
func (r *request) statfs() error {
	r.m.Statfs = statfs{Type: remoteFS, Bsize: blockSize, NameLen: fsys.MaxName}
	return nil
}

// A change is what Twstat and Tsetattr ask for, checked.
type change struct {
	attr fsys.Attr
	size *int64
	name string // if not empty
}

// wstat serves Twstat (stat(5)).
func (r *request) wstat() error {
	at, kind := r.place()
	d := &r.m.Stat
	if *d == keepDir() {
		if r.using {
			return fsys.Sync(r.ctx, r.fid.handle)
		}
		return nil
	}
	c, err := r.wstatChange(d, at, kind)
	if err != nil {
		return err
	}
	return r.apply(at, c)
}

func (r *request) wstatChange(d *dir, at *place, kind fsys.Kind) (c change, err error) {
	keep := keepDir()
	owner := func(s string) bool { return s == "" || s == clip(r.att.name, fsys.MaxName) }
	switch {
	case d.Type != keep.Type && d.Type != 0, d.Dev != keep.Dev && d.Dev != 0,
		d.Qid != keep.Qid && d.Qid != at.qid, !owner(d.UID), !owner(d.GID), !owner(d.MUID):
		return c, fsys.E(fsys.Permission, "only name, mode, times and length can be changed")
	}
	if d.Mode != keep.Mode {
		if d.Mode&dmDir != uint32(at.qid.Type&qtDir)<<24 {
			return c, fsys.E(fsys.Permission, "a file cannot become a directory, nor a directory a file")
		}
		perm := fs.FileMode(d.Mode).Perm()
		c.attr.Perm = &perm
	}
	if d.Mtime != keep.Mtime {
		t := time.Unix(int64(d.Mtime), 0)
		c.attr.ModTime = &t
	}
	if d.Length != keep.Length {
		if err := c.setSize(d.Length, kind); err != nil {
			return c, err
		}
	}
	if d.Name != "" && d.Name != at.name {
		if c.name = d.Name; at.up == nil {
			return c, fsys.E(fsys.Permission, "the root has no name")
		}
		err = fsys.CheckName(d.Name)
	}
	return c, err
}

func (c *change) setSize(size uint64, kind fsys.Kind) error {
	if kind == fsys.Directory {
		return fsys.IsDir
	}
	if size > math.MaxInt64 {
		return fsys.TooLarge
	}
	n := int64(size)
	c.size = &n
	return nil
}

// setAttr serves Tsetattr (setattr in Linux's 9P2000.L).
func (r *request) setAttr() error {
	at, kind := r.place()
	valid, set := r.m.Valid, &r.m.Set
	var c change
	if valid&setUID != 0 && set.UID != r.att.uid || valid&setGID != 0 && set.GID != r.att.uid {
		return fsys.E(fsys.Unsupported, "the owner of a file cannot be changed")
	}
	if valid&setMode != 0 {
		perm := fs.FileMode(set.Mode).Perm()
		if set.Mode&0o7000 != 0 {
			return fsys.E(fsys.Unsupported, "files here have no set-id or sticky bits")
		}
		c.attr.Perm = &perm
	}
	if valid&setSize != 0 {
		if err := c.setSize(set.Size, kind); err != nil {
			return err
		}
	}
	switch {
	case valid&setMtime == 0:
	case valid&setMtimeTo != 0:
		t := time.Unix(int64(set.MtimeSec), int64(set.MtimeNsec))
		c.attr.ModTime = &t
	case valid&setSize == 0: // truncation changes the time by itself
		t := time.Now()
		c.attr.ModTime = &t
	}
	return r.apply(at, c)
}

// apply makes the changes of c in turn. Attributes come first, as they can be
// put back if a later change fails.
func (r *request) apply(at *place, c change) error {
	if c.attr == (fsys.Attr{}) {
		return r.applyRest(at, c)
	}
	before, err := at.node.Stat(r.ctx)
	if err != nil {
		return err
	}
	err = fsys.SetAttr(r.ctx, at.node, c.attr)
	if fsys.CodeOf(err) == fsys.Unsupported && c.size != nil && c.attr.Perm == nil {
		return r.applyRest(at, c) // v9fs sends the time with a shell's >
	}
	if err != nil {
		return err
	}
	if err = r.applyRest(at, c); err != nil {
		back := fsys.Attr{}
		if c.attr.Perm != nil {
			back.Perm = &before.Perm
		}
		if c.attr.ModTime != nil {
			back.ModTime = &before.ModTime
		}
		if berr := fsys.SetAttr(r.ctx, at.node, back); berr != nil {
			r.conn.srv.Log.Warn("could not restore attributes", "name", at.name, "err", berr)
		}
	}
	return err
}

func (r *request) applyRest(at *place, c change) error {
	if c.size != nil {
		if err := fsys.Truncate(r.ctx, at.node, *c.size); err != nil {
			return err
		}
	}
	if c.name != "" {
		return r.renameFid(at, c.name)
	}
	return nil
}
