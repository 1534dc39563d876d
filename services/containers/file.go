package containers

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"sync"

	"agent9/fsys"
)

// file is a file or directory of a sandbox, by its path. It is found again in
// every run of the sandbox.
type file struct {
	w    *session
	path string // "": the root

	mu   sync.Mutex
	gen  uint64
	node fsys.Node // in the run gen
}

var (
	_ fsys.Creator    = (*file)(nil)
	_ fsys.Maker      = (*file)(nil)
	_ fsys.Renamer    = (*file)(nil)
	_ fsys.Remover    = (*file)(nil)
	_ fsys.Truncater  = (*file)(nil)
	_ fsys.AttrSetter = (*file)(nil)
)

// now returns what f is in the sandbox, and what to call when done with it.
func (f *file) now(ctx context.Context) (fsys.Node, func(), error) {
	root, gen, done, err := f.w.look(ctx)
	if err != nil {
		return nil, nil, err
	}
	f.mu.Lock()
	node := f.node
	if f.gen != gen {
		node = nil
	}
	f.mu.Unlock()
	if node == nil {
		if node, err = fsys.WalkPath(ctx, root, f.path); err != nil {
			done()
			return nil, nil, err
		}
		f.mu.Lock()
		f.gen, f.node = gen, node
		f.mu.Unlock()
	}
	return node, done, nil
}

// read is do for what changes nothing: the sandbox of a session that has ended
// is not run for it, if that can be.
func (f *file) read(ctx context.Context, op func(fsys.Node) error) error {
	n, done, err := f.rest(ctx)
	if n == nil && err == nil {
		return f.do(ctx, op)
	}
	if err == nil {
		err = op(n)
		done()
	}
	return err
}

// do calls op with what f is, and once more if the sandbox stopped meanwhile
// because the session ended.
func (f *file) do(ctx context.Context, op func(fsys.Node) error) error {
	for again := true; ; again = false {
		live := !f.w.Record().State.ended()
		n, done, err := f.now(ctx)
		if err == nil {
			err = op(n)
			done()
		}
		if err == nil || !again || !live || !f.w.cutOff(ctx, err) {
			return err
		}
	}
}

// cutOff reports whether an operation on the files of w failed with err because
// the sandbox was stopped under it; then it has been.
func (w *session) cutOff(ctx context.Context, err error) bool {
	if code := fsys.CodeOf(err); code != fsys.Canceled && code != fsys.Unavailable || ctx.Err() != nil || w.Ctx == nil || w.Ctx.Err() == nil {
		return false
	}
	select {
	case <-w.Done:
		return true
	case <-ctx.Done():
		return false
	}
}

func (f *file) child(name string) *file { return &file{w: f.w, path: path.Join(f.path, name)} }

// empty reports whether the files are not to be seen: there is no sandbox, or
// the session is being removed.
func (f *file) empty() bool {
	r := f.w.Record()
	return f.path == "" && (len(r.Hidden) > 0 || r.Sandbox == "")
}

func (f *file) Stat(ctx context.Context) (info fsys.Info, err error) {
	if f.path == "" { // costs no look inside
		return fsys.Info{Kind: fsys.Directory, Perm: 0o755, ModTime: f.w.ModTime()}, f.w.Present()
	}
	if !fsys.MayStart(ctx) && f.starts(ctx) {
		return fsys.Info{Kind: fsys.Directory, Perm: 0o755, Acts: true}, f.w.Present()
	}
	err = f.read(ctx, func(n fsys.Node) error {
		info, err = n.Stat(ctx)
		return err
	})
	return info, err
}

func (f *file) Walk(ctx context.Context, name string) (fsys.Node, error) {
	c := f.child(name)
	n, done, err := c.rest(ctx)
	switch {
	case err != nil:
		return nil, err
	case n != nil:
		done()
		return c, nil
	}
	err = f.do(ctx, func(n fsys.Node) error {
		node, err := fsys.Walk(ctx, n, name)
		if err == nil {
			c.mu.Lock()
			c.node, c.gen = node, f.generation()
			c.mu.Unlock()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (f *file) generation() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gen
}

// List has of the top only the workspace; see [everything].
func (f *file) List(ctx context.Context) ([]fsys.Entry, error) {
	if f.path == "" && !f.empty() {
		return f.top(ctx)
	}
	return f.all(ctx)
}

func (f *file) all(ctx context.Context) (list []fsys.Entry, err error) {
	if f.empty() {
		return nil, f.w.Present()
	}
	n, done, err := f.rest(ctx)
	switch {
	case err != nil:
		return nil, err
	case n != nil:
		defer done()
		return f.children(ctx, n, func(*file, fsys.Node) {})
	}
	err = f.do(ctx, func(n fsys.Node) error {
		list, err = f.children(ctx, n, func(c *file, n fsys.Node) { c.node, c.gen = n, f.generation() })
		return err
	})
	return list, err
}

// children lists n, which is what f is; found is told what each child is.
func (f *file) children(ctx context.Context, n fsys.Node, found func(c *file, n fsys.Node)) ([]fsys.Entry, error) {
	entries, err := fsys.List(ctx, n)
	list := make([]fsys.Entry, len(entries))
	for i, e := range entries {
		c := f.child(e.Name)
		found(c, e.Node)
		list[i] = fsys.Entry{Name: e.Name, Node: c}
	}
	return list, err
}

func (f *file) Create(ctx context.Context, name string, perm fs.FileMode, flag fsys.Flag) (fsys.Node, fsys.Handle, error) {
	n, done, err := f.now(ctx)
	if err != nil {
		return nil, nil, err
	}
	_, h, err := fsys.Create(ctx, n, name, perm, flag)
	if err != nil {
		done()
		return nil, nil, err
	}
	c := f.child(name)
	return c, newFileHandle(c, flag, h, done), nil
}

func (f *file) Mkdir(ctx context.Context, name string, perm fs.FileMode) (fsys.Node, error) {
	err := f.do(ctx, func(n fsys.Node) error {
		_, err := fsys.Mkdir(ctx, n, name, perm)
		return err
	})
	if err != nil {
		return nil, err
	}
	return f.child(name), nil
}

func (f *file) Rename(ctx context.Context, name, newName string) error {
	return f.do(ctx, func(n fsys.Node) error { return fsys.Rename(ctx, n, name, newName) })
}

func (f *file) Remove(ctx context.Context) error {
	if f.path != "" {
		return f.do(ctx, func(n fsys.Node) error { return fsys.Remove(ctx, n) })
	}
	if !f.empty() {
		return fsys.NotEmpty
	}
	return f.w.Hide(ctx, "files")
}

func (f *file) Truncate(ctx context.Context, size int64) error {
	return f.do(ctx, func(n fsys.Node) error { return fsys.Truncate(ctx, n, size) })
}

func (f *file) SetAttr(ctx context.Context, set fsys.Attr) error {
	return f.do(ctx, func(n fsys.Node) error { return fsys.SetAttr(ctx, n, set) })
}

func (f *file) Open(ctx context.Context, flag fsys.Flag) (fsys.Handle, error) {
	if f.path == "" {
		return fsys.OpenDir(flag)
	}
	h, done, err := f.open(ctx, flag)
	if err != nil {
		return nil, err
	}
	return newFileHandle(f, flag, h, done), nil
}

// open also returns what to call when done with the handle.
func (f *file) open(ctx context.Context, flag fsys.Flag) (h fsys.Handle, done func(), err error) {
	var n fsys.Node
	if flag == fsys.Read {
		n, done, err = f.rest(ctx)
	}
	if n == nil && err == nil {
		n, done, err = f.now(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	if h, err = n.Open(ctx, flag); err != nil {
		done()
		return nil, nil, err
	}
	return h, done, nil
}

// fileHandle is an open file of a sandbox. The end of the session does not
// close it: the sandbox then runs on for who looks at its files.
type fileHandle struct {
	f     *file
	flag  fsys.Flag
	ahead *ahead // nil if it may be written

	mu     sync.Mutex
	h      fsys.Handle
	done   func()
	closed bool
}

var (
	_ fsys.Reader = (*fileHandle)(nil)
	_ fsys.Writer = (*fileHandle)(nil)
	_ fsys.Syncer = (*fileHandle)(nil)
)

func newFileHandle(f *file, flag fsys.Flag, in fsys.Handle, done func()) *fileHandle {
	h := &fileHandle{f: f, flag: flag, h: in, done: done}
	if flag == fsys.Read {
		h.ahead = &ahead{read: h.readAt}
	}
	return h
}

func (h *fileHandle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	if h.ahead != nil {
		return h.ahead.ReadAt(ctx, p, off)
	}
	return h.readAt(ctx, p, off)
}

func (h *fileHandle) readAt(ctx context.Context, p []byte, off int64) (n int, err error) {
	err = h.do(ctx, func(in fsys.Handle) error {
		n, err = fsys.ReadAt(ctx, in, p, off)
		return err
	})
	return n, err
}

func (h *fileHandle) WriteAt(ctx context.Context, p []byte, off int64) (n int, err error) {
	err = h.do(ctx, func(in fsys.Handle) error {
		n, err = fsys.WriteAt(ctx, in, p, off)
		return err
	})
	return n, err
}

func (h *fileHandle) Sync(ctx context.Context) error {
	return h.do(ctx, func(in fsys.Handle) error { return fsys.Sync(ctx, in) })
}

func (h *fileHandle) do(ctx context.Context, op func(fsys.Handle) error) error {
	h.mu.Lock()
	in := h.h
	h.mu.Unlock()
	err := op(in)
	if err == nil || errors.Is(err, fsys.BadHandle) || !h.f.w.cutOff(ctx, err) {
		return err
	}
	if in, err = h.again(ctx, in); err != nil {
		return err
	}
	return op(in)
}

// again opens the file once more, instead of old, which ended with the run of
// the sandbox that it was opened in.
func (h *fileHandle) again(ctx context.Context, old fsys.Handle) (fsys.Handle, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return nil, fsys.BadHandle
	case h.h != old:
		return h.h, nil
	}
	in, done, err := h.f.open(ctx, h.flag&^(fsys.Trunc|fsys.Excl))
	if err != nil {
		return nil, err
	}
	h.h.Close()
	h.done()
	h.h, h.done = in, done
	return in, nil
}

func (h *fileHandle) Close() error {
	if h.ahead != nil {
		h.ahead.close()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	h.closed = true
	err := h.h.Close()
	h.done()
	return err
}
