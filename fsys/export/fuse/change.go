//go:build (linux && !386 && !arm && !mips && !mipsle) || darwin || freebsd

package fuse

import (
	"context"
	"io/fs"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"agent9/fsys"
)

func (t *tree) Mkdir(cancel <-chan struct{}, input *gofuse.MkdirIn, name string, out *gofuse.EntryOut) gofuse.Status {
	dir, r, st := t.begin(cancel, input.NodeId)
	if !st.Ok() {
		return st
	}
	defer r.end()
	t.inodes.changing(dir)
	defer t.inodes.changing(dir)
	up, err := t.nodeOf(r, dir)
	if err != nil {
		return t.status(err)
	}
	node, err := fsys.Mkdir(r, up, name, fs.FileMode(input.Mode&0o777))
	if err != nil {
		return t.status(err)
	}
	info, err := node.Stat(r)
	if err != nil {
		return t.status(err)
	}
	t.inodes.vanish(dir, name, t.inodes.found(dir, name))
	t.reply(t.inodes.enter(dir, name, node, info, input.Pid), info, out)
	return gofuse.OK
}

// Unlink and Rmdir differ only in what the kernel has checked.
func (t *tree) Unlink(cancel <-chan struct{}, h *gofuse.InHeader, name string) gofuse.Status {
	dir, r, st := t.begin(cancel, h.NodeId)
	if !st.Ok() {
		return st
	}
	defer r.end()
	t.inodes.changing(dir)
	defer t.inodes.changing(dir)
	in := t.inodes.found(dir, name)
	node, err := t.named(r, in, dir, name)
	if err == nil {
		err = fsys.Remove(r, node)
	}
	if err == nil || fsys.CodeOf(err) == fsys.NotExist {
		t.inodes.vanish(dir, name, in)
	}
	return t.status(err)
}

func (t *tree) Rmdir(cancel <-chan struct{}, h *gofuse.InHeader, name string) gofuse.Status {
	return t.Unlink(cancel, h, name)
}

// named returns the node of in, which the kernel has just looked up, or walks.
func (t *tree) named(ctx context.Context, in, dir *inode, name string) (fsys.Node, error) {
	if in != nil && !in.stored {
		return t.inodes.node(ctx, in)
	}
	up, err := t.nodeOf(ctx, dir)
	if err != nil {
		return nil, err
	}
	return fsys.Walk(ctx, up, name)
}

// The flags of renameat2(2).
const renameNoReplace = 1

func (t *tree) Rename(cancel <-chan struct{}, input *gofuse.RenameIn, name, newName string) gofuse.Status {
	switch {
	case input.Newdir != input.NodeId:
		return errno(fsys.CrossDir)
	case input.Flags&^renameNoReplace != 0:
		return gofuse.EINVAL
	}
	dir, r, st := t.begin(cancel, input.NodeId)
	if !st.Ok() {
		return st
	}
	defer r.end()
	t.inodes.changing(dir)
	defer t.inodes.changing(dir)
	up, err := t.nodeOf(r, dir)
	if err != nil {
		return t.status(err)
	}
	if input.Flags&renameNoReplace != 0 {
		switch _, err := fsys.Walk(r, up, newName); {
		case err == nil:
			return errno(fsys.Exist)
		case fsys.CodeOf(err) != fsys.NotExist:
			return t.status(err)
		}
	}
	if err := fsys.Rename(r, up, name, newName); err != nil {
		return t.status(err)
	}
	t.inodes.rename(dir, name, newName)
	return gofuse.OK
}

func (t *tree) SetAttr(cancel <-chan struct{}, input *gofuse.SetAttrIn, out *gofuse.AttrOut) gofuse.Status {
	in, r, st := t.begin(cancel, input.NodeId)
	if !st.Ok() {
		return st
	}
	defer r.end()
	t.inodes.changing(in)
	defer t.inodes.changing(in)
	node, err := t.nodeOf(r, in)
	if err == nil {
		err = t.setattr(r, node, input)
	}
	if err != nil {
		return t.status(err)
	}
	return t.getattr(r, in, true, out)
}

func (t *tree) setattr(ctx context.Context, node fsys.Node, input *gofuse.SetAttrIn) error {
	if uid, ok := input.GetUID(); ok && uid != t.owner.Uid {
		return fsys.E(fsys.Permission, "the owner of a file cannot be changed")
	}
	if gid, ok := input.GetGID(); ok && gid != t.owner.Gid {
		return fsys.E(fsys.Permission, "the owner of a file cannot be changed")
	}
	if size, ok := input.GetSize(); ok {
		if err := fsys.Truncate(ctx, node, int64(size)); err != nil {
			return err
		}
	}
	var set fsys.Attr
	if mode, ok := input.GetMode(); ok {
		perm := fs.FileMode(mode & 0o777)
		set.Perm = &perm
	}
	if mtime, ok := input.GetMTime(); ok {
		set.ModTime = &mtime
	}
	if set == (fsys.Attr{}) {
		return nil
	}
	err := fsys.SetAttr(ctx, node, set)
	if fsys.CodeOf(err) == fsys.Unsupported && set.ModTime == nil {
		// An editor that keeps the mode as it is asks for nothing.
		if info, serr := node.Stat(ctx); serr == nil && info.Perm.Perm() == *set.Perm {
			return nil
		}
	}
	return err
}
