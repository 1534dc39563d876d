package files

import (
	"context"
	"errors"
	"io"
	"path"
	"strings"

	"agent9/fsys"
	"agent9/store"
)

// ReadIn returns all of the file at path as the transaction that tx belongs to
// sees it, so that a watcher can read the change that it was told of.
func (t *Tree) ReadIn(ctx context.Context, tx store.Store, path string) ([]byte, error) {
	in := store.In(tx, t.st)
	e := entry{Ino: rootIno, Dir: true}
	for name := range strings.SplitSeq(path, "/") {
		var err error
		if e, err = loadEntry(ctx, in, e.Ino, name); err != nil {
			return nil, err
		}
	}
	if e.Dir {
		return nil, fsys.IsDir
	}
	return readAll(ctx, in, e.Ino)
}

func readAll(ctx context.Context, s store.Store, ino uint64) ([]byte, error) {
	rec, err := loadInode(ctx, s, ino)
	if err != nil || rec.Size == 0 {
		return nil, err
	}
	p := make([]byte, rec.Size)
	n, err := read(ctx, s, keysOf(ino), p, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return p[:n], err
}

// A File is a file of a tree, with all that it holds.
type File struct {
	Path string // from the root, without a slash before it
	Data []byte
}

// All returns every file of the tree, in the order of their paths, as one
// moment saw them. It is for trees whose MaxBytes fit into memory.
func (t *Tree) All(ctx context.Context) ([]File, error) {
	var all []File
	err := t.st.View(ctx, func(s store.Store) (err error) {
		all, err = t.below(ctx, s, rootIno, "")
		return err
	})
	return all, err
}

func (t *Tree) below(ctx context.Context, s store.Store, ino uint64, at string) ([]File, error) {
	var all []File
	entries, err := listDir(ctx, s, ino)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := path.Join(at, e.name)
		if e.Dir {
			more, err := t.below(ctx, s, e.Ino, name)
			if err != nil {
				return nil, err
			}
			all = append(all, more...)
			continue
		}
		data, err := readAll(ctx, s, e.Ino)
		if err != nil {
			return nil, err
		}
		all = append(all, File{name, data})
	}
	return all, nil
}
