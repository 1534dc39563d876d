package namespace

import (
	"context"
	"io/fs"

	"agent9/fsys"
)

// guard and guardHandle have every optional method there is and pass each on
// through the fsys helper, so a guarded node can do exactly what it could
// before. A new capability in fsys means one new method here. There is no way
// to the node behind a guard.
type guard struct {
	node   fsys.Node
	mount  *mount
	parent *guard // nil at the mount point
	name   string
}

var (
	_ fsys.Creator    = (*guard)(nil)
	_ fsys.Maker      = (*guard)(nil)
	_ fsys.Renamer    = (*guard)(nil)
	_ fsys.Remover    = (*guard)(nil)
	_ fsys.Truncater  = (*guard)(nil)
	_ fsys.AttrSetter = (*guard)(nil)
	_ fsys.Taker      = (*guard)(nil)
	_ fsys.Identifier = (*guard)(nil)
	_ fsys.Reader     = (*guardHandle)(nil)
	_ fsys.Writer     = (*guardHandle)(nil)
	_ fsys.Syncer     = (*guardHandle)(nil)
)

// path returns where g was walked to in its namespace, without the first slash.
func (g *guard) path() string {
	if g.parent == nil {
		return g.mount.path
	}
	return join(g.parent.path(), g.name)
}

// told reports err to the namespace if it is a refusal, and returns it. What
// merely says what there is, or what files of this kind do not have, is none:
// programs find that out by trying.
func (g *guard) told(ctx context.Context, op, name string, err error) error {
	if err == nil || g.mount.ns.Refused == nil {
		return err
	}
	if fsys.IsEOF(err) {
		return err
	}
	switch fsys.CodeOf(err) {
	case fsys.NotExist, fsys.Exist, fsys.IsDir, fsys.NotEmpty:
		if op != "write" && op != "sync" { // then it is what a request names
			return err
		}
	case fsys.Unsupported:
		if op == "setattr" {
			return err
		}
	case fsys.Canceled, fsys.BadHandle, fsys.NotDir:
		return err
	case fsys.Timeout:
		if op == "read" && ctx.Err() != nil { // the reader did not want to wait longer
			return err
		}
	}
	g.mount.ns.Refused(ctx, "/"+join(g.path(), name), op, err)
	return err
}

func (g *guard) change(ctx context.Context) (context.Context, error) {
	return g.mount.ask(ctx, Change, fsys.Changes)
}

func (g *guard) Stat(ctx context.Context) (fsys.Info, error) {
	ctx, err := g.mount.ask(ctx, Look, fsys.Changes)
	if err != nil {
		return fsys.Info{}, err
	}
	return g.node.Stat(ctx)
}

func (g *guard) Walk(ctx context.Context, name string) (fsys.Node, error) {
	n, err := g.walk(ctx, name)
	if err != nil {
		return nil, err
	}
	return n, nil
}

func (g *guard) walk(ctx context.Context, name string) (*guard, error) {
	ctx, err := g.mount.ask(ctx, Look, fsys.Changes)
	if err != nil {
		return nil, err
	}
	n, err := fsys.Walk(ctx, g.node, name)
	if err != nil {
		return nil, err
	}
	return &guard{n, g.mount, g, name}, nil
}

func (g *guard) List(ctx context.Context) ([]fsys.Entry, error) {
	asked, err := g.mount.ask(ctx, Read, fsys.Changes)
	if err != nil {
		return nil, g.told(ctx, "list", "", err)
	}
	list, err := fsys.List(asked, g.node)
	if err != nil {
		return nil, err
	}
	guards := make([]guard, len(list))
	out := make([]fsys.Entry, len(list))
	for i, e := range list {
		guards[i] = guard{e.Node, g.mount, g, e.Name}
		out[i] = fsys.Entry{Name: e.Name, Node: &guards[i], Info: e.Info}
	}
	return out, nil
}

func (g *guard) Open(ctx context.Context, flag fsys.Flag) (fsys.Handle, error) {
	h := &guardHandle{g: g, write: flag&(fsys.Write|fsys.Trunc|fsys.Append) != 0}
	asked, err := h.ask(ctx, flag)
	if err != nil {
		return nil, g.told(ctx, "open", "", err)
	}
	if h.h, err = g.node.Open(asked, flag); err != nil {
		if !g.announced(asked, flag, err) {
			g.told(ctx, "open", "", err)
		}
		return nil, err
	}
	return h, nil
}

// announced reports whether the mode of the file already says that nobody reads
// it, so that err, which is why it was not opened to be read, tells nothing new.
func (g *guard) announced(ctx context.Context, flag fsys.Flag, err error) bool {
	if flag != fsys.Read || fsys.CodeOf(err) != fsys.Permission {
		return false
	}
	info, err := g.node.Stat(ctx)
	return err == nil && info.Perm&0o444 == 0
}

// tries reports whether a Create is how a program tries whether it may keep a
// file of its own in a directory, as editors do beside each file that they
// open: it wants to be the first, and brings nothing. If it may not, nobody
// was refused what they asked for.
func tries(flag fsys.Flag) bool {
	return flag&fsys.Excl != 0 && flag&(fsys.Trunc|fsys.Append) == 0
}

// ask is asked before h is opened.
func (h *guardHandle) ask(ctx context.Context, flag fsys.Flag) (context.Context, error) {
	var err error
	if flag&fsys.Read != 0 {
		if ctx, err = h.g.mount.ask(ctx, Read, fsys.Changes); err != nil {
			return nil, err
		}
	}
	switch {
	case h.write:
		ctx, h.effect, err = h.g.askWrite(ctx)
		return ctx, err
	case h.g.Takes():
		h.takes = true
		return h.g.mount.ask(ctx, Write, fsys.Changes)
	}
	return ctx, nil
}

func (g *guard) ID() fsys.ID {
	if id := fsys.IDOf(g.node); id != (fsys.ID{}) {
		return id
	}
	return g.mount.ns.idAt(g.path())
}

func (g *guard) Takes() bool { return fsys.Takes(g.node) }

func (g *guard) askWrite(ctx context.Context) (context.Context, fsys.Effect, error) {
	info, err := g.node.Stat(ctx)
	if err != nil {
		return nil, 0, err
	}
	ctx, err = g.mount.ask(ctx, Write, info.Effect)
	return ctx, info.Effect, err
}

func (g *guard) Create(ctx context.Context, name string, perm fs.FileMode, flag fsys.Flag) (fsys.Node, fsys.Handle, error) {
	asked, err := g.change(ctx)
	var n fsys.Node
	var h fsys.Handle
	if err == nil {
		n, h, err = fsys.Create(asked, g.node, name, perm, flag)
	}
	if err != nil {
		if !tries(flag) {
			g.told(ctx, "create", name, err)
		}
		return nil, nil, err
	}
	made := &guard{n, g.mount, g, name}
	return made, &guardHandle{h: h, g: made, write: true}, nil
}

func (g *guard) Mkdir(ctx context.Context, name string, perm fs.FileMode) (fsys.Node, error) {
	asked, err := g.change(ctx)
	if err != nil {
		return nil, g.told(ctx, "mkdir", name, err)
	}
	n, err := fsys.Mkdir(asked, g.node, name, perm)
	if err != nil {
		return nil, g.told(ctx, "mkdir", name, err)
	}
	return &guard{n, g.mount, g, name}, nil
}

func (g *guard) Rename(ctx context.Context, name, newName string) error {
	asked, err := g.change(ctx)
	if err == nil {
		err = fsys.Rename(asked, g.node, name, newName)
	}
	return g.told(ctx, "rename", name, err)
}

func (g *guard) Remove(ctx context.Context) error {
	asked, err := g.change(ctx)
	if err == nil {
		err = fsys.Remove(asked, g.node)
	}
	return g.told(ctx, "remove", "", err)
}

func (g *guard) Truncate(ctx context.Context, size int64) error {
	asked, _, err := g.askWrite(ctx)
	if err == nil {
		err = fsys.Truncate(asked, g.node, size)
	}
	return g.told(ctx, "truncate", "", err)
}

func (g *guard) SetAttr(ctx context.Context, set fsys.Attr) error {
	asked, err := g.change(ctx)
	if err == nil {
		err = fsys.SetAttr(asked, g.node, set)
	}
	return g.told(ctx, "setattr", "", err)
}

// A guardHandle is of use only for as long as what it was opened for is
// allowed: what it has gathered does not act after that, and Close frees it.
type guardHandle struct {
	h      fsys.Handle
	g      *guard
	effect fsys.Effect // of a write
	write  bool
	takes  bool // a read takes away what it gives
}

// mayRead reports, as an error, that h may not be read any longer.
func (h *guardHandle) mayRead() error {
	if h.takes {
		if err := h.g.mount.still(Write, fsys.Changes); err != nil {
			return err
		}
	}
	return h.g.mount.still(Read, fsys.Changes)
}

// mayAct reports, as an error, that nothing may come of h any longer.
func (h *guardHandle) mayAct() error {
	switch {
	case h.write:
		return h.g.mount.still(Write, h.effect)
	case h.takes:
		return h.g.mount.still(Write, fsys.Changes)
	}
	return h.g.mount.still(Look, fsys.Changes)
}

func (h *guardHandle) Close() error { return h.h.Close() }

func (h *guardHandle) Held() int64 { return fsys.Held(h.h) }

func (h *guardHandle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	err := h.mayRead()
	if err == nil && h.write { // it ends a request that was gathered
		err = h.mayAct()
	}
	var n int
	if err == nil {
		n, err = fsys.ReadAt(ctx, h.h, p, off)
		if over := h.mayRead(); over != nil { // while it waited
			n, err = 0, over
		}
	}
	if err != nil {
		h.g.told(ctx, "read", "", err)
	}
	return n, err
}

func (h *guardHandle) Await(off int64, ready func()) (stop func()) {
	return fsys.Await(h.h, off, ready)
}

func (h *guardHandle) WriteAt(ctx context.Context, p []byte, off int64) (int, error) {
	err := h.mayAct()
	var n int
	if err == nil {
		n, err = fsys.WriteAt(ctx, h.h, p, off)
	}
	if err != nil {
		h.g.told(ctx, "write", "", err)
	}
	return n, err
}

func (h *guardHandle) Sync(ctx context.Context) error {
	err := h.mayAct()
	if err == nil {
		err = fsys.Sync(ctx, h.h)
	}
	return h.g.told(ctx, "sync", "", err)
}
