// Package files is a durable tree of ordinary files over a store: what a disk
// would be, for the directories of the namespace that people and programs
// keep things in.
//
// Files have offsets, append, truncate up and down, and holes that read as
// zeros; directories have create, mkdir, rename onto what is there, and
// rmdir; a file that is removed while it is open can be read and written until
// its last handle is closed. Permission bits and modification times are kept,
// access times are not. A file or directory without a write bit refuses what
// would change it, for every caller; gates decide who may come here at all.
//
// Every change is one transaction: when it returns, it is on disk, whole. A
// read of what is being overwritten gives, block by block, the old or the new.
//
// The keys, in the view that the tree is given:
//
//	u              usage: the next inode number, bytes and entries
//	i/<ino>        inode
//	d/<ino>/<name> what the directory's entry <name> is
//	b/<ino>/<n>    block n of a file; what it lacks are zeros
//	o/<ino>        a file that was removed while it was open
//	t/<ino>        a file that was written and not told of yet, and by whom
package files

import (
	"context"
	"strconv"

	"agent9/fsys"
	"agent9/store"
)

// Options of a tree. Zero means the default.
type Options struct {
	MaxFile    int64 // bytes of one file; 256 MiB
	MaxBytes   int64 // bytes of all files, holes counted; 1 GiB
	MaxEntries int64 // files and directories; 100,000
	// Note, if set, is told of changes, in the transaction of what it is told
	// of; ctx says who made them. Writes are told of once, when the handle
	// that made them is synced or closed, or by Recover.
	Note func(ctx context.Context, tx store.Store, c Change) error
	// As, if set, is what two trees have in common that show the same files.
	As any
}

// A Change is something that happened to an entry of a tree.
type Change struct {
	Op   Op
	Path string // from the root, without a slash before it
	To   string // the new path; only with Renamed
	Dir  bool
	Size int64
}

// Op says what happened.
type Op string

const (
	Created Op = "created"
	Changed Op = "changed"
	Renamed Op = "renamed"
	Removed Op = "removed"
)

// A Tree is a file system. A view of a store must not have two at a time.
type Tree struct {
	st    store.Updater
	opt   Options
	opens opens
}

var _ fsys.FileService = (*Tree)(nil)

// id is which file the inode is.
func (t *Tree) id(ino uint64) fsys.ID {
	if t.opt.As != nil {
		return fsys.ID{In: t.opt.As, Path: strconv.FormatUint(ino, 10)}
	}
	return fsys.ID{In: t, Path: strconv.FormatUint(ino, 10)}
}

// New returns the tree that is kept in st, which may be empty. It frees what
// was removed but still open when the tree was last used.
func New(ctx context.Context, st store.Updater, opt Options) (*Tree, error) {
	t := &Tree{st: st, opt: opt}
	if t.opt.MaxFile == 0 {
		t.opt.MaxFile = 256 << 20
	}
	if t.opt.MaxBytes == 0 {
		t.opt.MaxBytes = 1 << 30
	}
	if t.opt.MaxEntries == 0 {
		t.opt.MaxEntries = 100_000
	}
	for p, err := range store.All(ctx, st, orphans) {
		if err != nil {
			return nil, err
		}
		if ino, ok := parseIno(p.Key[len(orphans):]); ok {
			if err := t.free(ctx, ino); err != nil {
				return nil, err
			}
		}
	}
	return t, nil
}

// Root returns the top directory.
func (t *Tree) Root() fsys.Node { return &dir{t, rootIno} }

// Usage returns how many bytes the files have, and how many files and
// directories there are.
func (t *Tree) Usage(ctx context.Context) (bytes, entries int64, err error) {
	u, err := loadUsage(ctx, t.st)
	return u.Bytes, u.Entries, err
}
