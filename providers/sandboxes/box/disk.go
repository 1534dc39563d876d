//go:build unix

package box

import (
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"
	"time"

	"agent9/fsys"
	"agent9/providers/sandboxes"
)

// rooted is what files/ needs of a file system; names are relative to its
// root, which is ".". *os.Root is one that nothing leads out of.
type rooted interface {
	OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error)
	Stat(name string) (fs.FileInfo, error)
	Lstat(name string) (fs.FileInfo, error)
	Mkdir(name string, perm fs.FileMode) error
	Remove(name string) error
	Rename(oldName, newName string) error
	Chmod(name string, perm fs.FileMode) error
	Chtimes(name string, atime, mtime time.Time) error
	Close() error
}

// whole is the file system of a sandbox that has one of its own, from a
// directory of it on.
type whole string

func (w whole) abs(name string) string { return filepath.Join(string(w), name) }

func (w whole) OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(w.abs(name), flag, perm)
}
func (w whole) Stat(name string) (fs.FileInfo, error)     { return os.Stat(w.abs(name)) }
func (w whole) Lstat(name string) (fs.FileInfo, error)    { return os.Lstat(w.abs(name)) }
func (w whole) Mkdir(name string, perm fs.FileMode) error { return os.Mkdir(w.abs(name), perm) }
func (w whole) Remove(name string) error                  { return os.Remove(w.abs(name)) }
func (w whole) Rename(oldName, newName string) error {
	return os.Rename(w.abs(oldName), w.abs(newName))
}
func (w whole) Chmod(name string, perm fs.FileMode) error { return os.Chmod(w.abs(name), perm) }
func (w whole) Chtimes(name string, atime, mtime time.Time) error {
	return os.Chtimes(w.abs(name), atime, mtime)
}
func (w whole) Close() error { return nil }

// atOnce is how many calls of the file system are under way at once: each may
// need a thread, and there may be no more to be had.
const atOnce = 16

// disk is files/.
type disk struct {
	rooted
	turns  chan struct{}
	hidden map[uint64]bool // devices of /proc and /sys
	quota  *quota          // nil: nobody asked for it
}

func openDisk(setup sandboxes.Setup) (*disk, error) {
	d := &disk{rooted: whole(setup.Where.Root), turns: make(chan struct{}, atOnce), hidden: map[uint64]bool{}}
	if setup.Confined {
		root, err := os.OpenRoot(setup.Where.Root)
		if err != nil {
			return nil, err
		}
		d.rooted = root
	}
	for _, dir := range []string{"/proc", "/sys", "/sys/fs/cgroup", "/dev/mqueue"} {
		if info, err := os.Stat(dir); err == nil {
			d.hidden[idOf(info).dev] = true
		}
	}
	if info, err := os.Stat("/"); err == nil {
		delete(d.hidden, idOf(info).dev) // there is nothing mounted
	}
	return d, nil
}

func (d *disk) close() { d.rooted.Close() }

func (d *disk) root() fsys.Node { return &node{disk: d, name: "."} }

// do does f when it is its turn.
func (d *disk) do(ctx context.Context, f func() error) error {
	if err := take(ctx, d.turns); err != nil {
		return err
	}
	defer func() { <-d.turns }()
	return f()
}

// An id identifies a file among all others.
type id struct{ dev, ino uint64 }

func idOf(info fs.FileInfo) id {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return id{}
	}
	return id{uint64(st.Dev), uint64(st.Ino)}
}

// A node is a file or directory by its path. Every operation looks at what is
// there then.
type node struct {
	disk *disk
	name string
	up   *node // the directory that it was walked to from
}

var (
	_ fsys.Creator    = (*node)(nil)
	_ fsys.Maker      = (*node)(nil)
	_ fsys.Renamer    = (*node)(nil)
	_ fsys.Remover    = (*node)(nil)
	_ fsys.Truncater  = (*node)(nil)
	_ fsys.AttrSetter = (*node)(nil)
)

func (n *node) child(name string) *node {
	return &node{disk: n.disk, name: path.Join(n.name, name), up: n}
}

// A state is what is found at a node.
type state struct {
	info   fs.FileInfo // of what a link leads to
	broken string      // why a link is not followed
	hidden bool        // it belongs to the kernel
}

// look says what is there.
func (n *node) look() (state, error) {
	info, err := n.disk.Lstat(n.name)
	if err != nil {
		return state{}, failure(err)
	}
	s := state{info: info}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := n.disk.Stat(n.name)
		switch {
		case err != nil:
			s.broken = "this link is dangling, or leads out of the workspace"
			return s, nil
		case target.IsDir() && n.within(idOf(target)):
			s.broken = "this link leads to a directory that contains it"
			return s, nil
		}
		s.info = target
	}
	s.hidden = n.disk.hidden[idOf(s.info).dev]
	return s, nil
}

// within reports whether the way to n goes through the directory dir.
func (n *node) within(dir id) bool {
	for at := n.up; at != nil; at = at.up {
		if info, err := n.disk.Stat(at.name); err == nil && idOf(info) == dir {
			return true
		}
	}
	return false
}

func (n *node) Stat(ctx context.Context) (info fsys.Info, err error) {
	err = n.disk.do(ctx, func() error {
		s, err := n.look()
		info = s.describe()
		return err
	})
	return info, err
}

func (s state) describe() fsys.Info {
	if s.info == nil {
		return fsys.Info{}
	}
	id := idOf(s.info)
	info := fsys.Info{ModTime: s.info.ModTime(), Perm: s.info.Mode().Perm(), Gen: id.ino ^ id.dev<<48}
	switch {
	case s.broken != "":
		info.Perm = 0
	case s.info.IsDir():
		info.Kind = fsys.Directory
		if s.hidden {
			info.Perm = 0o555
		}
	case s.hidden:
		info.Perm = 0
	case s.info.Mode().IsRegular():
		info.Size = s.info.Size()
		info.Version = versionOf(s.info)
	default:
		info.Perm = 0
	}
	return info
}

// versionOf changes with what is in a file.
func versionOf(info fs.FileInfo) uint32 {
	t := uint64(info.ModTime().UnixNano()) ^ uint64(info.Size())*0x9E3779B97F4A7C15
	return uint32(t^t>>32) | 1
}

// usable says why what is there cannot be opened, if so.
func (s state) usable() error {
	switch {
	case s.broken != "":
		return fsys.E(fsys.Permission, s.broken)
	case s.info.IsDir():
		return nil
	case s.hidden:
		return fsys.E(fsys.Permission, "this is the kernel's, and not shown")
	case !s.info.Mode().IsRegular():
		return fsys.E(fsys.Permission, "this is a device, a pipe or a socket; only programs in the sandbox can use it")
	}
	return nil
}

// failure says what went wrong without the path, which the client knows.
func failure(err error) error {
	if err == nil {
		return nil
	}
	if pe, ok := err.(*fs.PathError); ok {
		return fsys.Wrap(fsys.CodeOf(err), "", pe.Err)
	}
	if le, ok := err.(*os.LinkError); ok {
		return fsys.Wrap(fsys.CodeOf(err), "", le.Err)
	}
	return err
}
