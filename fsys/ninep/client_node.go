package ninep

import (
	"context"
	"io/fs"
	"strings"
	"sync"
	"time"

	"agent9/fsys"
)

// A Remote is a file or directory of a server. It need not be closed: it
// keeps a fid only while that is of use, and otherwise finds its file again by
// walking from the nearest directory above it that has one.
//
// Its Info.Effect is always fsys.Changes, which 9P does not tell.
type Remote struct {
	c      *Client
	parent *Remote // nil for the root
	name   string
	kind   fsys.Kind
	listed *fsys.Info // what a listing in 9P2000 said

	mu  sync.Mutex
	fid *nodeFid
}

var (
	_ fsys.Creator    = (*Remote)(nil)
	_ fsys.Maker      = (*Remote)(nil)
	_ fsys.Renamer    = (*Remote)(nil)
	_ fsys.Remover    = (*Remote)(nil)
	_ fsys.Truncater  = (*Remote)(nil)
	_ fsys.AttrSetter = (*Remote)(nil)
)

func (n *Remote) child(name string, kind fsys.Kind) *Remote {
	return &Remote{c: n.c, parent: n, name: name, kind: kind}
}

// Kind returns what the walk or the listing that found n said. It costs
// nothing.
func (n *Remote) Kind() fsys.Kind { return n.kind }

// Listed returns what the listing that n is from said of it: all that Stat
// would, in 9P2000; nothing, in 9P2000.L.
func (n *Remote) Listed() (fsys.Info, bool) {
	if n.listed == nil {
		return fsys.Info{}, false
	}
	return *n.listed, true
}

// hold returns a fid of n, not open, that stays until release is called. It
// walks only if n keeps none.
func (n *Remote) hold(ctx context.Context) (fid uint32, release func(), err error) {
	for {
		if fid, release, ok := n.kept(); ok {
			return fid, release, nil
		}
		fid, err := n.fresh(ctx)
		if err != nil {
			return 0, nil, err
		}
		if !n.adopt(fid) {
			n.c.clunk(fid) // another call was faster
		}
	}
}

// kept returns the fid that n keeps, if it keeps one.
func (n *Remote) kept() (fid uint32, release func(), ok bool) {
	n.mu.Lock()
	f := n.fid
	n.mu.Unlock()
	held := &n.c.held
	fid, ok = held.use(f)
	return fid, func() { held.release(f) }, ok
}

// fresh returns a new fid of n that is the caller's alone.
func (n *Remote) fresh(ctx context.Context) (uint32, error) {
	return n.freshBelow(ctx, nil)
}

// freshBelow returns a new fid of what names lead to from n.
func (n *Remote) freshBelow(ctx context.Context, names []string) (uint32, error) {
	fid, _, err := n.walkTo(ctx, names)
	return fid, err
}

// walkTo walks names from n to a new fid, in one request if there are up to 16
// of them and n, or a directory above it, keeps a fid.
func (n *Remote) walkTo(ctx context.Context, names []string) (uint32, []qid, error) {
	from, all, release, err := n.nearest(names)
	if err != nil {
		return 0, nil, err
	}
	defer release()
	fid, qids, err := n.c.walk(ctx, from, all)
	return fid, qids[min(len(all)-len(names), len(qids)):], err
}

// walk walks names from fid to a new fid, and returns the qids that it found.
func (c *Client) walk(ctx context.Context, from uint32, names []string) (uint32, []qid, error) {
	var qids []qid
	temporary := false
	for {
		step := names[:min(len(names), maxNames)]
		to := c.calls.newFid()
		r, err := c.do(ctx, message{Type: twalk, Fid: from, NewFid: to, Names: step})
		if err == nil {
			qids = append(qids, r.Qids...)
			if n := len(r.Qids); n < len(step) {
				err = c.stopped(ctx, from, step[:n+1], r.Qids)
			}
			r.free()
		}
		if temporary {
			c.clunk(from)
		}
		if err != nil {
			return 0, qids, err
		}
		if names = names[len(step):]; len(names) == 0 {
			return to, qids, nil
		}
		from, temporary = to, true
	}
}

// stopped finds out why a walk of names from fid stopped before the last of
// them: only a walk that begins there says so.
func (c *Client) stopped(ctx context.Context, from uint32, names []string, qids []qid) error {
	last := len(names) - 1
	if last < 1 {
		return fsys.NotExist
	}
	if qids[last-1].Type&qtDir == 0 {
		return fsys.NotDir
	}
	dir, _, err := c.walk(ctx, from, names[:last])
	if err != nil {
		return err
	}
	defer c.clunk(dir)
	fid, _, err := c.walk(ctx, dir, names[last:])
	if err == nil {
		c.clunk(fid) // it has come to be in between
		err = fsys.NotExist
	}
	return err
}

func (n *Remote) Walk(ctx context.Context, name string) (fsys.Node, error) {
	if n.kind != fsys.Directory {
		return nil, fsys.NotDir
	}
	if fsys.CheckName(name) != nil {
		return nil, fsys.NotExist
	}
	found, err := n.descend(ctx, []string{name})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// WalkPath walks a slash-separated path in as few requests as there can be.
func (n *Remote) WalkPath(ctx context.Context, path string) (fsys.Node, error) {
	names, err := split(path)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return n, nil
	}
	found, err := n.descend(ctx, names)
	if err != nil {
		return nil, err
	}
	return found, nil
}

func split(path string) (names []string, err error) {
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." {
			continue
		}
		if fsys.CheckName(name) != nil {
			return nil, fsys.NotExist
		}
		names = append(names, name)
	}
	return names, nil
}

func (n *Remote) descend(ctx context.Context, names []string) (*Remote, error) {
	if n.kind != fsys.Directory {
		return nil, fsys.NotDir
	}
	fid, qids, err := n.walkTo(ctx, names)
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		n = n.child(name, kindOf(qids[i].Type))
	}
	n.adopt(fid)
	return n, nil
}

func (n *Remote) Stat(ctx context.Context) (fsys.Info, error) {
	fid, release, err := n.hold(ctx)
	if err != nil {
		return fsys.Info{}, err
	}
	defer release()
	return n.c.stat(ctx, fid)
}

func (c *Client) stat(ctx context.Context, fid uint32) (fsys.Info, error) {
	r, err := c.do(ctx, c.statRequest(fid))
	if err != nil {
		return fsys.Info{}, err
	}
	defer r.free()
	return c.info(r), nil
}

func infoOfAttr(r *clientReply) fsys.Info {
	info := fsys.Info{
		Kind:    kindOf(r.Qid.Type),
		Perm:    fs.FileMode(r.Attr.Mode).Perm(),
		ModTime: time.Unix(int64(r.Attr.MtimeSec), int64(r.Attr.MtimeNsec)),
		Version: r.Qid.Version,
	}
	if r.Valid&getGen != 0 {
		info.Gen = r.Attr.Generation
	}
	return sized(info, r.Attr.Size)
}

func infoOfDir(d *dir) fsys.Info {
	return sized(fsys.Info{
		Kind:    kindOf(d.Qid.Type),
		Perm:    fs.FileMode(d.Mode).Perm(),
		ModTime: time.Unix(int64(d.Mtime), 0),
		Version: d.Qid.Version,
	}, d.Length)
}

// sized gives a size to what has one.
func sized(info fsys.Info, size uint64) fsys.Info {
	if info.Kind == fsys.File || info.Kind == fsys.Stream {
		info.Size = int64(min(size, 1<<62))
	}
	return info
}
