package main

import (
	"io"
	"path"

	"agent9/fsys"
)

// A treePlace is in the tree.
type treePlace struct {
	*session
	path, own, name string // own: the part after the colon
}

var _ place = (*treePlace)(nil)

func (t *treePlace) String() string { return t.name }

func (t *treePlace) base() string {
	if t.own == "" {
		return ""
	}
	return path.Base(t.own)
}

func (t *treePlace) join(name string) place {
	separator := "/"
	if t.own == "" || t.name[len(t.name)-1] == '/' {
		separator = ""
	}
	return &treePlace{t.session, join(t.path, name), join(t.own, name), t.name + separator + name}
}

func (t *treePlace) look() (item, error) {
	n, err := t.walk(t.path)
	if err != nil {
		return item{}, err
	}
	info, err := n.Stat(t.Context.Context)
	it := item{dir: info.Kind == fsys.Directory, size: info.Size, kind: info.Kind, perm: info.Perm}
	if info.ModTime.Unix() > 0 {
		it.time = info.ModTime
	}
	if info.Kind == fsys.Message {
		it.skip = "it is a message file, which has no contents; agentctl put writes to it"
	}
	return it, err
}

func (t *treePlace) list() ([]string, error) { return t.names(t.path) }

// open does not open an empty stream: a read may take away what comes.
func (t *treePlace) open(it item) (io.ReadCloser, error) {
	if it.kind == fsys.Stream && it.size == 0 {
		return io.NopCloser(noBytes{}), nil
	}
	h, err := t.session.open(t.path, fsys.Read)
	if err != nil {
		return nil, err
	}
	end := int64(-1)
	if it.kind == fsys.Stream {
		end = it.size
	}
	return &treeReader{t.session, h, 0, end}, nil
}

type noBytes struct{}

func (noBytes) Read([]byte) (int, error) { return 0, io.EOF }

// A treeReader reads a file of the tree, to end if that is not negative.
type treeReader struct {
	*session
	h        fsys.Handle
	off, end int64
}

func (r *treeReader) Read(p []byte) (int, error) {
	if r.end >= 0 {
		if r.off >= r.end {
			return 0, io.EOF
		}
		p = p[:min(int64(len(p)), r.end-r.off)]
	}
	n, err := fsys.ReadAt(r.Context.Context, r.h, p, r.off)
	if r.off += int64(n); n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

func (r *treeReader) Close() error { return r.h.Close() }

// store makes the file, or writes into the one that there is. One that was made
// for a copy that failed is removed.
func (t *treePlace) store(it item, r io.Reader) error {
	ctx := t.Context.Context
	n, err := t.walk(t.path)
	if err == nil {
		if err := t.putInto(n, fsys.Write|fsys.Trunc, r); err != nil {
			return err
		}
		return t.attributes(n, it)
	}
	if fsys.CodeOf(err) != fsys.NotExist {
		return err
	}
	dir, err := t.walk(path.Dir(t.path))
	if err != nil {
		return err
	}
	n, h, err := fsys.OpenCreate(ctx, dir, path.Base(t.path), it.perm|0o200, fsys.Write|fsys.Trunc)
	if err != nil {
		return err
	}
	if err := t.session.finish(h, writeAll(ctx, h, r)); err != nil {
		fsys.Remove(ctx, n)
		return err
	}
	return t.attributes(n, it)
}

// attributes gives n the mode and time of it, where a tree keeps them.
func (t *treePlace) attributes(n fsys.Node, it item) error {
	set := fsys.Attr{Perm: &it.perm}
	if !it.time.IsZero() {
		set.ModTime = &it.time
	}
	err := fsys.SetAttr(t.Context.Context, n, set)
	if code := fsys.CodeOf(err); err != nil && (code == fsys.Unsupported || code == fsys.Permission) {
		return nil
	}
	return err
}

func (t *treePlace) mkdir(item) error {
	n, err := t.walk(t.path)
	if err == nil {
		return isDir(t.session, n)
	}
	if fsys.CodeOf(err) != fsys.NotExist {
		return err
	}
	dir, err := t.walk(path.Dir(t.path))
	if err == nil {
		_, err = fsys.Mkdir(t.Context.Context, dir, path.Base(t.path), 0o755)
	}
	return err
}

func (t *treePlace) finish(it item) error {
	n, err := t.walk(t.path)
	if err != nil {
		return err
	}
	return t.attributes(n, it)
}
