package ninep

import (
	"context"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"agent9/fsys"
)

// A disk is a directory of ordinary files and directories, in memory.
type disk struct {
	mu    sync.Mutex
	files map[string]fsys.Node
	up    *disk
	gens  *uint64
}

// maxDisk is how long a file of a disk may be.
const maxDisk = 16 << 20

func newDisk() *disk { return &disk{files: map[string]fsys.Node{}, gens: new(uint64)} }

var (
	_ fsys.Creator = (*disk)(nil)
	_ fsys.Maker   = (*disk)(nil)
	_ fsys.Renamer = (*disk)(nil)
	_ fsys.Remover = (*disk)(nil)
)

func (d *disk) Stat(context.Context) (fsys.Info, error) {
	return fsys.Info{Kind: fsys.Directory, Perm: 0o755}, nil
}

func (d *disk) Open(_ context.Context, f fsys.Flag) (fsys.Handle, error) { return fsys.OpenDir(f) }

func (d *disk) Walk(_ context.Context, name string) (fsys.Node, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.files[name]; n != nil {
		return n, nil
	}
	return nil, fsys.NotExist
}

func (d *disk) List(context.Context) (list []fsys.Entry, _ error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, n := range d.files {
		list = append(list, fsys.Entry{Name: name, Node: n})
	}
	slices.SortFunc(list, func(a, b fsys.Entry) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

func (d *disk) Create(ctx context.Context, name string, perm fs.FileMode, flag fsys.Flag) (fsys.Node, fsys.Handle, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files[name] != nil {
		return nil, nil, fsys.Exist
	}
	*d.gens++
	f := &diskFile{dir: d, name: name, gen: *d.gens, perm: perm, mtime: time.Unix(1000, 0)}
	d.files[name] = f
	h, err := f.Open(ctx, flag)
	return f, h, err
}

func (d *disk) Mkdir(_ context.Context, name string, _ fs.FileMode) (fsys.Node, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files[name] != nil {
		return nil, fsys.Exist
	}
	n := &disk{files: map[string]fsys.Node{}, up: d, gens: d.gens}
	d.files[name] = n
	return n, nil
}

func (d *disk) Rename(_ context.Context, name, newName string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.files[name]
	if n == nil {
		return fsys.NotExist
	}
	delete(d.files, name)
	d.files[newName] = n
	if f, ok := n.(*diskFile); ok {
		f.name = newName
	}
	return nil
}

func (d *disk) Remove(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.files) > 0 {
		return fsys.NotEmpty
	}
	for name, n := range d.up.files {
		if n == d {
			delete(d.up.files, name)
		}
	}
	return nil
}

type diskFile struct {
	dir  *disk
	name string
	gen  uint64

	mu      sync.Mutex
	b       []byte
	perm    fs.FileMode
	mtime   time.Time
	version uint32
	full    bool // Truncate fails
}

var (
	_ fsys.Truncater  = (*diskFile)(nil)
	_ fsys.AttrSetter = (*diskFile)(nil)
	_ fsys.Remover    = (*diskFile)(nil)
)

func (f *diskFile) Stat(context.Context) (fsys.Info, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fsys.Info{Perm: f.perm, Size: int64(len(f.b)), ModTime: f.mtime, Version: f.version, Gen: f.gen}, nil
}

func (f *diskFile) Open(_ context.Context, flag fsys.Flag) (fsys.Handle, error) {
	if flag&fsys.Trunc != 0 {
		f.mu.Lock()
		f.b = nil
		f.mu.Unlock()
	}
	return &diskHandle{f, flag}, nil
}

func (f *diskFile) Remove(context.Context) error {
	f.dir.mu.Lock()
	defer f.dir.mu.Unlock()
	if f.dir.files[f.name] != f {
		return fsys.NotExist
	}
	delete(f.dir.files, f.name)
	return nil
}

func (f *diskFile) Truncate(_ context.Context, size int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.full || size > maxDisk {
		return fsys.NoSpace
	}
	f.b = append(f.b, make([]byte, max(0, size-int64(len(f.b))))...)[:size]
	f.version++
	return nil
}

func (f *diskFile) SetAttr(_ context.Context, set fsys.Attr) error {
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

type diskHandle struct {
	f    *diskFile
	flag fsys.Flag
}

func (h *diskHandle) Close() error { return nil }

func (h *diskHandle) ReadAt(_ context.Context, p []byte, off int64) (int, error) {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	if off >= int64(len(h.f.b)) {
		return 0, io.EOF
	}
	return copy(p, h.f.b[off:]), nil
}

func (h *diskHandle) WriteAt(_ context.Context, p []byte, off int64) (int, error) {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	if h.flag&fsys.Append != 0 {
		off = int64(len(h.f.b))
	}
	if off > maxDisk {
		return 0, fsys.NoSpace
	}
	if grow := off + int64(len(p)) - int64(len(h.f.b)); grow > 0 {
		h.f.b = append(h.f.b, make([]byte, grow)...)
	}
	h.f.version++
	return copy(h.f.b[off:], p), nil
}
