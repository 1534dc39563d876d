package files

import (
	"context"
	"errors"
	"io/fs"
	"strconv"
	"time"

	"agent9/fsys"
	"agent9/store"
)

// Inode numbers are never used again.
const rootIno uint64 = 1

const (
	usageKey  = "u"
	inodePart = "i/"
	orphans   = "o/"
	untold    = "t/"
)

func inodeKey(ino uint64) string              { return key(inodePart, ino, "") }
func entriesOf(ino uint64) string             { return key("d/", ino, "/") }
func entryKey(ino uint64, name string) string { return key("d/", ino, "/"+name) }
func blockKey(ino uint64, n int64) string     { return key(key("b/", ino, "/"), uint64(n), "") }
func orphanKey(ino uint64) string             { return key(orphans, ino, "") }
func untoldKey(ino uint64) string             { return key(untold, ino, "") }

// key returns n as 16 hexadecimal digits between two texts.
func key(before string, n uint64, after string) string {
	const digits = "0123456789abcdef"
	b := make([]byte, 0, 64)
	b = append(b, before...)
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, digits[n>>shift&15])
	}
	return string(append(b, after...))
}

// keys are the most read keys of a file, computed once for each open handle.
type keys struct {
	ino          uint64
	inode, first string // first is that of the first block
}

func keysOf(ino uint64) keys { return keys{ino, inodeKey(ino), blockKey(ino, 0)} }

// block returns the key of block n.
func (k keys) block(n int64) string {
	if n == 0 {
		return k.first
	}
	return blockKey(k.ino, n)
}

func parseIno(s string) (uint64, bool) {
	n, err := strconv.ParseUint(s, 16, 64)
	return n, err == nil
}

// An inode is a file or directory without its contents. It has one name.
type inode struct {
	Dir     bool        `json:"dir,omitempty"`
	Perm    fs.FileMode `json:"perm"`
	Size    int64       `json:"size,omitempty"`
	ModTime int64       `json:"mtime"` // nanoseconds since 1970
	Version uint32      `json:"version"`
	// Parent is the directory it is in; zero for the root and for a file
	// that was removed while it was open.
	Parent uint64 `json:"parent,omitempty"`
	Name   string `json:"name,omitempty"`
}

// loadInode returns fsys.NotExist if there is none. The root always is.
func loadInode(ctx context.Context, s store.Store, ino uint64) (inode, error) {
	var rec inode
	err := load(ctx, s, inodeKey(ino), &rec)
	if ino == rootIno && errors.Is(err, fsys.NotExist) {
		return emptyRoot, nil
	}
	return rec, err
}

var emptyRoot = inode{Dir: true, Perm: 0o755, Version: 1}

// statInode is loadInode for callers that do not need the name.
// What is damaged is there, with nothing known of it but whether it is a directory.
func statInode(ctx context.Context, s store.Store, ino uint64, dir bool) (fsys.Info, error) {
	var rec nameless
	err := load(ctx, s, inodeKey(ino), &rec)
	switch {
	case ino == rootIno && errors.Is(err, fsys.NotExist):
		rec, err = nameless(emptyRoot), nil
	case store.IsDamaged(err):
		rec, err = nameless{Dir: dir}, nil
	}
	return (*inode)(&rec).info(ino), err
}

// changed counts a change and its time.
func (rec *inode) changed() {
	rec.ModTime = time.Now().UnixNano()
	if rec.Version++; rec.Version == 0 { // zero is for files that are not stored
		rec.Version = 1
	}
}

func (rec *inode) info(ino uint64) fsys.Info {
	info := fsys.Info{Perm: rec.Perm, Size: rec.Size, Version: rec.Version, Gen: ino}
	if rec.ModTime != 0 {
		info.ModTime = time.Unix(0, rec.ModTime)
	}
	if rec.Dir {
		info.Kind = fsys.Directory
	}
	return info
}

func (rec *inode) mayWrite() error {
	if rec.Perm&0o222 == 0 {
		return fsys.E(fsys.Permission, "its permissions make it read-only")
	}
	return nil
}

func (rec *inode) mayRead() error {
	if rec.Perm&0o444 == 0 {
		return fsys.E(fsys.Permission, "its permissions forbid reading it")
	}
	return nil
}

// An entry is what a name in a directory means.
type entry struct {
	Ino uint64 `json:"ino"`
	Dir bool   `json:"dir,omitempty"`
}

func loadEntry(ctx context.Context, s store.Store, dir uint64, name string) (e entry, err error) {
	err = load(ctx, s, entryKey(dir, name), &e)
	return e, err
}

func (e entry) node(t *Tree) fsys.Node {
	if e.Dir {
		return &dir{t, e.Ino}
	}
	return &file{t, e.Ino}
}

// usage is what a tree has used up.
type usage struct {
	Last    uint64 `json:"last"` // the latest inode number
	Bytes   int64  `json:"bytes"`
	Entries int64  `json:"entries"`
}

func loadUsage(ctx context.Context, s store.Store) (usage, error) {
	u, err := store.GetJSON[usage](ctx, s, usageKey)
	if errors.Is(err, fsys.NotExist) {
		return usage{Last: rootIno}, nil
	}
	return u, err
}
