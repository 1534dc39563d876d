package ninep

import (
	"context"

	"agent9/fsys"
)

func (n *Remote) Open(ctx context.Context, flag fsys.Flag) (fsys.Handle, error) {
	fid, err := n.fresh(ctx)
	if err != nil {
		return nil, err
	}
	h, err := n.c.open(ctx, fid, flag)
	if err != nil {
		return nil, err
	}
	return h, nil
}

// OpenPath walks to path and opens what is there, in two requests if path has
// up to 16 names.
func (n *Remote) OpenPath(ctx context.Context, path string, flag fsys.Flag) (fsys.Handle, error) {
	names, err := split(path)
	if err != nil {
		return nil, err
	}
	fid, err := n.freshBelow(ctx, names)
	if err != nil {
		return nil, err
	}
	h, err := n.c.open(ctx, fid, flag)
	if err != nil {
		return nil, err
	}
	return h, nil
}

// Linux open flags, and AT_REMOVEDIR.
const (
	openCreate = 0o100
	openExcl   = 0o200
	openTrunc  = 0o1000
	openAppend = 0o2000
	removeDir  = 0x200
)

// openTrunc9 is OTRUNC of open(5).
const openTrunc9 = 0x10

// openMode returns flag as Topen, or Tlopen, has it.
func (c *Client) openMode(flag fsys.Flag) (uint32, error) {
	var mode uint32 // reading is 0
	switch flag & (fsys.Read | fsys.Write) {
	case fsys.Write:
		mode = 1
	case fsys.Read | fsys.Write:
		mode = 2
	case 0:
		return 0, fsys.E(fsys.Invalid, "a file must be opened for reading, writing or both")
	}
	if c.dialect == linux {
		if flag&fsys.Trunc != 0 {
			mode |= openTrunc
		}
		if flag&fsys.Append != 0 {
			mode |= openAppend
		}
	} else if flag&fsys.Trunc != 0 {
		mode |= openTrunc9
	}
	return mode, nil
}

// open opens fid, which is the handle's from then on or, after an error,
// nobody's.
func (c *Client) open(ctx context.Context, fid uint32, flag fsys.Flag) (*remoteHandle, error) {
	mode, err := c.openMode(flag)
	if err != nil {
		c.clunk(fid)
		return nil, err
	}
	req := message{Type: topen, Fid: fid, Mode: mode}
	if c.dialect == linux {
		req = message{Type: tlopen, Fid: fid, Flags: mode}
	}
	r, err := c.do(ctx, req)
	if err != nil {
		return nil, err
	}
	defer r.free()
	return c.handle(fid, flag, r), nil
}

// handle returns the handle of fid, which r says was opened.
func (c *Client) handle(fid uint32, flag fsys.Flag, r *clientReply) *remoteHandle {
	most := c.msize - ioHeader
	if r.Iounit != 0 {
		most = min(most, r.Iounit)
	}
	return &remoteHandle{c: c, fid: fid, flag: flag, kind: kindOf(r.Qid.Type), most: int(most)}
}
