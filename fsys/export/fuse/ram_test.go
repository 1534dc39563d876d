//go:build linux && !386 && !arm && !mips && !mipsle

package fuse_test

import (
	"context"
	"io"
	"io/fs"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"agent9/fsys"
)

var ramGen atomic.Uint64

// A ramDir is a directory of files in memory that behaves as one on a disk.
type ramDir struct {
	gen uint64

	mu      sync.Mutex
	perm    fs.FileMode
	entries map[string]fsys.Node
	up      *ramDir
	gone    bool
}

var (
	_ fsys.Creator    = (*ramDir)(nil)
	_ fsys.Maker      = (*ramDir)(nil)
	_ fsys.Renamer    = (*ramDir)(nil)
	_ fsys.Remover    = (*ramDir)(nil)
	_ fsys.AttrSetter = (*ramDir)(nil)
	_ fsys.Truncater  = (*ramFile)(nil)
	_ fsys.AttrSetter = (*ramFile)(nil)
	_ fsys.Remover    = (*ramFile)(nil)
)

func newRAM() *ramDir {
	return &ramDir{gen: ramGen.Add(1), perm: 0o755, entries: map[string]fsys.Node{}}
}

func (d *ramDir) Stat(context.Context) (fsys.Info, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return fsys.Info{Kind: fsys.Directory, Perm: d.perm, Gen: d.gen}, nil
}

func (d *ramDir) Open(_ context.Context, f fsys.Flag) (fsys.Handle, error) { return fsys.OpenDir(f) }

func (d *ramDir) Walk(_ context.Context, name string) (fsys.Node, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.entries[name]; n != nil {
		return n, nil
	}
	return nil, fsys.NotExist
}

func (d *ramDir) List(context.Context) ([]fsys.Entry, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []fsys.Entry
	for name, n := range d.entries {
		list = append(list, fsys.Entry{Name: name, Node: n})
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list, nil
}

func (d *ramDir) Create(_ context.Context, name string, perm fs.FileMode, flag fsys.Flag) (fsys.Node, fsys.Handle, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gone {
		return nil, nil, fsys.NotExist
	}
	if d.entries[name] != nil {
		return nil, nil, fsys.Exist
	}
	f := &ramFile{gen: ramGen.Add(1), perm: perm, mtime: time.Now(), dir: d, name: name}
	d.entries[name] = f
	return f, &ramHandle{f, flag}, nil
}

func (d *ramDir) Mkdir(_ context.Context, name string, perm fs.FileMode) (fsys.Node, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.entries[name] != nil {
		return nil, fsys.Exist
	}
	sub := newRAM()
	sub.up, sub.perm = d, perm
	d.entries[name] = sub
	return sub, nil
}

func (d *ramDir) Rename(_ context.Context, name, newName string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.entries[name]
	if n == nil {
		return fsys.NotExist
	}
	if sub, ok := d.entries[newName].(*ramDir); ok && sub != n {
		if _, ok := n.(*ramDir); !ok {
			return fsys.IsDir
		}
		if len(sub.entries) > 0 {
			return fsys.NotEmpty
		}
	}
	delete(d.entries, name)
	d.entries[newName] = n
	if f, ok := n.(*ramFile); ok {
		f.name = newName
	}
	return nil
}

func (d *ramDir) Remove(context.Context) error {
	d.mu.Lock()
	n := len(d.entries)
	if n == 0 {
		d.gone = true
	}
	d.mu.Unlock()
	if n > 0 {
		return fsys.NotEmpty
	}
	if d.up == nil {
		return fsys.Permission
	}
	d.up.mu.Lock()
	defer d.up.mu.Unlock()
	for name, n := range d.up.entries {
		if n == fsys.Node(d) {
			delete(d.up.entries, name)
		}
	}
	return nil
}

func (d *ramDir) SetAttr(_ context.Context, set fsys.Attr) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if set.Perm != nil {
		d.perm = *set.Perm
	}
	return nil
}

type ramFile struct {
	gen  uint64
	dir  *ramDir
	name string // guarded by dir.mu

	mu    sync.Mutex
	perm  fs.FileMode
	mtime time.Time
	b     []byte
}

func (f *ramFile) Stat(context.Context) (fsys.Info, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fsys.Info{Perm: f.perm, Size: int64(len(f.b)), ModTime: f.mtime, Version: 1, Gen: f.gen}, nil
}

func (f *ramFile) Open(ctx context.Context, flag fsys.Flag) (fsys.Handle, error) {
	if flag&fsys.Trunc != 0 {
		f.Truncate(ctx, 0)
	}
	return &ramHandle{f, flag}, nil
}

func (f *ramFile) Truncate(_ context.Context, size int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resize(size)
	return nil
}

func (f *ramFile) resize(size int64) {
	f.mtime = time.Now()
	if grow := size - int64(len(f.b)); grow > 0 {
		f.b = append(f.b, make([]byte, grow)...)
	}
	f.b = f.b[:size]
}

func (f *ramFile) SetAttr(_ context.Context, set fsys.Attr) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if set.Perm != nil {
		f.perm = *set.Perm
	}
	if set.ModTime != nil {
		f.mtime = *set.ModTime
	}
	return nil
}

func (f *ramFile) Remove(context.Context) error {
	f.dir.mu.Lock()
	defer f.dir.mu.Unlock()
	if f.dir.entries[f.name] != fsys.Node(f) {
		return fsys.NotExist
	}
	delete(f.dir.entries, f.name)
	return nil
}

type ramHandle struct {
	f    *ramFile
	flag fsys.Flag
}

func (h *ramHandle) Close() error { return nil }

func (h *ramHandle) ReadAt(_ context.Context, p []byte, off int64) (int, error) {
	if h.flag&fsys.Read == 0 {
		return 0, fsys.BadHandle
	}
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	if off >= int64(len(h.f.b)) {
		return 0, io.EOF
	}
	return copy(p, h.f.b[off:]), nil
}

func (h *ramHandle) WriteAt(_ context.Context, p []byte, off int64) (int, error) {
	if h.flag&fsys.Write == 0 {
		return 0, fsys.BadHandle
	}
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	if h.flag&fsys.Append != 0 {
		off = int64(len(h.f.b))
	}
	if end := off + int64(len(p)); end > int64(len(h.f.b)) {
		h.f.resize(end)
	}
	h.f.mtime = time.Now()
	return copy(h.f.b[off:], p), nil
}
