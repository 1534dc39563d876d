package fsys

import (
	"context"
	"io"
	"io/fs"
	"strings"
	"unicode/utf8"
)

// MaxName is the longest name of a file, in bytes.
const MaxName = 255

// CheckName reports whether name can be the name of a file in a directory:
// 1 to 255 bytes of UTF-8 without '/' and NUL, and not "." or "..".
func CheckName(name string) error {
	switch {
	case len(name) > MaxName:
		return NameTooLong
	case name == "":
		return E(Invalid, "a name cannot be empty")
	case name == ".", name == "..":
		return E(Invalid, "a name cannot be "+name)
	case strings.ContainsAny(name, "/\x00"):
		return E(Invalid, "a name cannot contain / or NUL")
	case !utf8.ValidString(name):
		return E(Invalid, "a name must be UTF-8")
	}
	return nil
}

func Walk(ctx context.Context, n Node, name string) (Node, error) {
	if d, ok := n.(Dir); ok {
		return d.Walk(ctx, name)
	}
	return nil, NotDir
}

func List(ctx context.Context, n Node) ([]Entry, error) {
	if d, ok := n.(Dir); ok {
		return d.List(ctx)
	}
	return nil, NotDir
}

// Stat returns what e is: as it was when it was listed, if that came with it. What
// is there and cannot be looked at because it is damaged is listed as a file that
// nobody may read: it does not hide itself, nor the rest of the listing.
func (e Entry) Stat(ctx context.Context) (Info, error) {
	if e.Info != nil {
		return *e.Info, nil
	}
	info, err := e.Node.Stat(ctx)
	if err != nil && CodeOf(err) == Internal {
		return Info{}, nil
	}
	return info, err
}

func Create(ctx context.Context, n Node, name string, perm fs.FileMode, flag Flag) (Node, Handle, error) {
	if err := CheckName(name); err != nil {
		return nil, nil, err
	}
	if c, ok := n.(Creator); ok {
		return c.Create(ctx, name, perm, flag)
	}
	return nil, nil, lacking(n)
}

func Mkdir(ctx context.Context, n Node, name string, perm fs.FileMode) (Node, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if m, ok := n.(Maker); ok {
		return m.Mkdir(ctx, name, perm)
	}
	return nil, lacking(n)
}

func Rename(ctx context.Context, n Node, name, newName string) error {
	if err := CheckName(newName); err != nil {
		return err
	}
	if r, ok := n.(Renamer); ok {
		return r.Rename(ctx, name, newName)
	}
	return lacking(n)
}

// lacking is the answer for a directory that does not change that way, or for
// a file where a directory was needed.
func lacking(n Node) error {
	if _, ok := n.(Dir); ok {
		return E(Permission, "nothing can be created or renamed in this directory")
	}
	return NotDir
}

func Remove(ctx context.Context, n Node) error {
	if r, ok := n.(Remover); ok {
		return r.Remove(ctx)
	}
	return E(Permission, "this cannot be removed")
}

func Truncate(ctx context.Context, n Node, size int64) error {
	if t, ok := n.(Truncater); ok {
		return t.Truncate(ctx, size)
	}
	if _, ok := n.(Dir); ok {
		return IsDir
	}
	return E(Permission, "this file cannot be truncated")
}

func SetAttr(ctx context.Context, n Node, set Attr) error {
	if a, ok := n.(AttrSetter); ok {
		return a.SetAttr(ctx, set)
	}
	return Unsupported
}

// Takes reports whether reading n takes something away.
func Takes(n Node) bool {
	t, ok := n.(Taker)
	return ok && t.Takes()
}

func ReadAt(ctx context.Context, h Handle, p []byte, off int64) (int, error) {
	if r, ok := h.(Reader); ok {
		return r.ReadAt(ctx, p, off)
	}
	return 0, BadHandle
}

func WriteAt(ctx context.Context, h Handle, p []byte, off int64) (int, error) {
	if w, ok := h.(Writer); ok {
		return w.WriteAt(ctx, p, off)
	}
	return 0, BadHandle
}

func Sync(ctx context.Context, h Handle) error {
	if s, ok := h.(Syncer); ok {
		return s.Sync(ctx)
	}
	return nil
}

// OpenCreate opens name in dir, and makes it first if it does not exist: what
// open(2) does with O_CREAT, for front ends.
func OpenCreate(ctx context.Context, dir Node, name string, perm fs.FileMode, flag Flag) (Node, Handle, error) {
	n, h, err := Create(ctx, dir, name, perm, flag)
	if err == nil || flag&Excl != 0 || CodeOf(err) != Exist {
		return n, h, err
	}
	if n, err = Walk(ctx, dir, name); err != nil {
		return nil, nil, err
	}
	h, err = n.Open(ctx, flag)
	return n, h, err
}

// WalkPath walks each element of a slash-separated path.
func WalkPath(ctx context.Context, n Node, path string) (Node, error) {
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." {
			continue
		}
		var err error
		if n, err = Walk(ctx, n, name); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// OpenPath walks to path and opens it.
func OpenPath(ctx context.Context, root Node, path string, flag Flag) (Handle, error) {
	n, err := WalkPath(ctx, root, path)
	if err != nil {
		return nil, err
	}
	return n.Open(ctx, flag)
}

// ReadFile reads all of the file at path; of a Stream, until it ends.
func ReadFile(ctx context.Context, root Node, path string) ([]byte, error) {
	h, err := OpenPath(ctx, root, path, Read)
	if err != nil {
		return nil, err
	}
	b, err := ReadAll(ctx, h)
	return b, finish(ctx, h, err)
}

// ReadAll reads h from offset 0 to its end.
func ReadAll(ctx context.Context, h Handle) ([]byte, error) {
	b := make([]byte, 0, 512)
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := ReadAt(ctx, h, b[len(b):cap(b)], int64(len(b)))
		b = b[:len(b)+n]
		if IsEOF(err) || n == 0 && err == nil {
			return b, nil
		}
		if err != nil {
			return b, err
		}
	}
}

// WriteFile opens the existing file at path with Trunc, as a shell's > does,
// writes p and ends in order.
func WriteFile(ctx context.Context, root Node, path string, p []byte) error {
	h, err := OpenPath(ctx, root, path, Write|Trunc)
	if err != nil {
		return err
	}
	_, err = WriteAt(ctx, h, p, 0)
	return finish(ctx, h, err)
}

// Converse writes req to the Message file at path and returns the reply.
func Converse(ctx context.Context, root Node, path string, req []byte) ([]byte, error) {
	h, err := OpenPath(ctx, root, path, Read|Write)
	if err != nil {
		return nil, err
	}
	var reply []byte
	if _, err = WriteAt(OneRequest(ctx), h, req, 0); err == nil {
		reply, err = ReadAll(ctx, h)
	}
	return reply, finish(ctx, h, err)
}

// Finish ends h in order: Sync, then Close.
func Finish(ctx context.Context, h Handle) error { return finish(ctx, h, nil) }

func finish(ctx context.Context, h Handle, err error) error {
	if err == nil {
		err = Sync(ctx, h)
	}
	if cerr := h.Close(); err == nil {
		err = cerr
	}
	return err
}

// readBytes is ReadAt of a byte slice.
func readBytes(b, p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, E(Invalid, "a negative offset")
	}
	if off >= int64(len(b)) {
		return 0, io.EOF
	}
	return copy(p, b[off:]), nil
}
