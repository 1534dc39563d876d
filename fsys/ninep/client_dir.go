package ninep

import (
	"context"
	"io/fs"
	"math"

	"agent9/fsys"
)

// maxListed is how many entries of one directory are taken: a server may have
// no end of them.
const maxListed = 1 << 20

// List reads the directory; the entries' nodes are walked to when they are
// used. One with more than a million entries is TooLarge.
func (n *Remote) List(ctx context.Context) ([]fsys.Entry, error) {
	if n.kind != fsys.Directory {
		return nil, fsys.NotDir
	}
	fid, err := n.fresh(ctx)
	if err != nil {
		return nil, err
	}
	h, err := n.c.open(ctx, fid, fsys.Read)
	if err != nil {
		return nil, err
	}
	defer n.c.clunk(fid)
	var entries []fsys.Entry
	req := message{Type: tread, Fid: fid, Count: uint32(h.most)}
	if n.c.dialect == linux {
		req.Type = treaddir
	}
	for {
		r, err := n.c.do(ctx, req)
		if err != nil {
			return nil, err
		}
		count := len(r.Data)
		entries, err = n.entries(entries, r.Data, &req.Offset)
		r.free()
		if err != nil {
			return nil, fsys.Wrap(fsys.Unavailable, "a directory entry", err)
		}
		switch {
		case count == 0:
			return entries, nil
		case len(entries) > maxListed:
			return nil, fsys.E(fsys.TooLarge, "the directory has more entries than can be listed")
		}
	}
}

// entries appends those in data, and sets off to where the next ones are.
func (n *Remote) entries(to []fsys.Entry, data []byte, off *uint64) ([]fsys.Entry, error) {
	if n.c.dialect == plan9 {
		*off += uint64(len(data))
	}
	for len(data) > 0 {
		var e dirent
		var info *fsys.Info
		var err error
		if n.c.dialect == linux {
			data, err = decodeDirent(data, &e)
			*off = e.Offset
		} else {
			var d dir
			data, err = decodeDir(data, &d)
			i := infoOfDir(&d)
			e.Name, e.Qid, info = d.Name, d.Qid, &i
		}
		if err != nil {
			return nil, err
		}
		if fsys.CheckName(e.Name) != nil {
			continue // "." and ".."
		}
		node := n.child(e.Name, kindOf(e.Qid.Type))
		node.listed = info
		to = append(to, fsys.Entry{Name: e.Name, Node: node})
	}
	return to, nil
}

// Create fails with fsys.Exist if there is a file called name.
func (n *Remote) Create(ctx context.Context, name string, perm fs.FileMode, flag fsys.Flag) (fsys.Node, fsys.Handle, error) {
	mode, err := n.c.openMode(flag)
	if err != nil {
		return nil, nil, err
	}
	fid, err := n.fresh(ctx)
	if err != nil {
		return nil, nil, err
	}
	req := message{Type: tcreate, Fid: fid, Name: name, Perm: uint32(perm.Perm()), Mode: mode}
	if n.c.dialect == linux {
		req = message{Type: tlcreate, Fid: fid, Name: name, Flags: mode | openCreate | openExcl,
			Mode: uint32(perm.Perm()), Gid: noUID}
	}
	r, err := n.c.do(ctx, req)
	if err != nil {
		return nil, nil, err
	}
	defer r.free()
	h := n.c.handle(fid, flag, r)
	return n.child(name, h.kind), h, nil
}

func (n *Remote) Mkdir(ctx context.Context, name string, perm fs.FileMode) (fsys.Node, error) {
	if n.c.dialect == linux {
		fid, release, err := n.hold(ctx)
		if err != nil {
			return nil, err
		}
		defer release()
		return n.made(ctx, name, message{Type: tmkdir, DirFid: fid, Name: name, Mode: uint32(perm.Perm()), Gid: noUID})
	}
	fid, err := n.fresh(ctx)
	if err != nil {
		return nil, err
	}
	node, err := n.made(ctx, name, message{Type: tcreate, Fid: fid, Name: name, Perm: dmDir | uint32(perm.Perm())})
	if err == nil {
		n.c.clunk(fid)
	}
	return node, err
}

func (n *Remote) made(ctx context.Context, name string, req message) (fsys.Node, error) {
	if err := n.c.perform(ctx, req); err != nil {
		return nil, err
	}
	return n.child(name, fsys.Directory), nil
}

// perform is do for a request whose reply says nothing.
func (c *Client) perform(ctx context.Context, req message) error {
	r, err := c.do(ctx, req)
	if err == nil {
		r.free()
	}
	return err
}

// Rename gives an entry another name. Nodes that were walked to by the old
// one may not find their file any more.
func (n *Remote) Rename(ctx context.Context, name, newName string) error {
	if n.c.dialect == plan9 {
		stat := keepDir()
		stat.Name = newName
		return n.renameFid(ctx, name, message{Type: twstat, Stat: stat})
	}
	dir, release, err := n.hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	err = n.c.perform(ctx, message{Type: trenameat, Fid: dir, Name: name, DirFid: dir, NewName: newName})
	if fsys.CodeOf(err) == fsys.Unsupported { // by diod, for one
		err = n.renameFid(ctx, name, message{Type: trename, DirFid: dir, Name: newName})
	}
	return err
}

// renameFid performs req on a fid of name.
func (n *Remote) renameFid(ctx context.Context, name string, req message) error {
	fid, err := n.freshBelow(ctx, []string{name})
	if err != nil {
		return err
	}
	defer n.c.clunk(fid)
	req.Fid = fid
	return n.c.perform(ctx, req)
}

func (n *Remote) Remove(ctx context.Context) error {
	if n.c.dialect == linux && n.parent != nil {
		err := n.unlink(ctx)
		if err == nil || fsys.CodeOf(err) != fsys.Unsupported {
			return err
		}
	}
	fid, err := n.fresh(ctx)
	if err != nil {
		return err
	}
	return n.c.perform(ctx, message{Type: tremove, Fid: fid})
}

func (n *Remote) unlink(ctx context.Context) error {
	dir, release, err := n.parent.hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	req := message{Type: tunlinkat, DirFid: dir, Name: n.name}
	if n.kind == fsys.Directory {
		req.Flags = removeDir
	}
	return n.c.perform(ctx, req)
}

func (n *Remote) Truncate(ctx context.Context, size int64) error {
	if size < 0 {
		return fsys.E(fsys.Invalid, "a negative size")
	}
	stat := keepDir()
	stat.Length = uint64(size)
	return n.change(ctx, stat, setSize, setAttr{Size: uint64(size)})
}

// SetAttr keeps whole seconds of a time in 9P2000.
func (n *Remote) SetAttr(ctx context.Context, set fsys.Attr) error {
	stat, valid, attr := keepDir(), uint64(0), setAttr{}
	if set.Perm != nil {
		attr.Mode = uint32(set.Perm.Perm())
		stat.Mode = uint32(qidType(n.kind))<<24 | attr.Mode
		valid |= setMode
	}
	if t := set.ModTime; t != nil {
		if t.Unix() < 0 || t.Unix() >= math.MaxUint32 {
			return fsys.E(fsys.Invalid, "the time is outside the range of 9P")
		}
		attr.MtimeSec, attr.MtimeNsec = uint64(t.Unix()), uint64(t.Nanosecond())
		stat.Mtime = uint32(t.Unix())
		valid |= setMtime | setMtimeTo
	}
	return n.change(ctx, stat, valid, attr)
}

// change changes attributes, said in both dialects.
func (n *Remote) change(ctx context.Context, stat dir, valid uint64, attr setAttr) error {
	fid, release, err := n.hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	req := message{Type: twstat, Fid: fid, Stat: stat}
	if n.c.dialect == linux {
		req = message{Type: tsetattr, Fid: fid, Valid: valid, Set: attr}
	}
	return n.c.perform(ctx, req)
}
