//go:build unix

// Package deep walks and removes trees of any depth with a bounded number of
// open files, and without paths, whose length is bounded.
package deep

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// most is how many directories are open at once.
const most = 16

// ErrMoved is the end of a walk in a tree that was changed meanwhile such that
// the way back was lost.
var ErrMoved = errors.New("a directory was moved during the walk")

// An Entry is what a walk has come to: a name in an open directory.
type Entry struct {
	Dir  int
	Name string
	Stat unix.Stat_t
}

// IsDir reports whether the entry is a directory.
func (e Entry) IsDir() bool { return e.Stat.Mode&unix.S_IFMT == unix.S_IFDIR }

// A level is a directory that the walk is in.
type level struct {
	file *os.File // nil: closed for want of room, and opened again by way of its child
	stat unix.Stat_t
	dirs []string // still to be walked
}

// Walk calls visit for everything below dir, each directory before what is in
// it. It does not follow links, nor go into other file systems. A directory
// that cannot be entered is given to blind; if that returns nil the walk goes
// on. Walk returns the first error of visit and blind, ErrMoved, or why dir
// cannot be read.
func Walk(dir string, visit func(Entry) error, blind func(Entry, error) error) error {
	top, err := os.Open(dir)
	if err != nil {
		return err
	}
	levels := []*level{{file: top}}
	defer func() {
		for _, l := range levels {
			l.file.Close()
		}
	}()
	if err := unix.Fstat(int(top.Fd()), &levels[0].stat); err != nil {
		return err
	}
	if err := levels[0].read(visit); err != nil {
		return err
	}
	for len(levels) > 0 {
		l := levels[len(levels)-1]
		if len(l.dirs) == 0 {
			if err := up(levels); err != nil {
				return err
			}
			levels = levels[:len(levels)-1]
			continue
		}
		name := l.dirs[len(l.dirs)-1]
		l.dirs = l.dirs[:len(l.dirs)-1]
		below, err := l.enter(name)
		if err != nil {
			e := Entry{Dir: int(l.file.Fd()), Name: name}
			if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
				continue // it went meanwhile
			}
			if err := blind(e, err); err != nil {
				return err
			}
			continue
		}
		if below.stat.Dev != l.stat.Dev {
			below.file.Close()
			continue
		}
		levels = append(levels, below)
		if n := len(levels) - most; n > 0 && levels[n-1].file != nil {
			levels[n-1].file.Close()
			levels[n-1].file = nil
		}
		if err := below.read(visit); err != nil {
			return err
		}
	}
	return nil
}

// up leaves the last level, and opens the one above again if it was closed.
func up(levels []*level) error {
	last := levels[len(levels)-1]
	defer func() { last.file.Close(); last.file = nil }()
	if len(levels) == 1 || levels[len(levels)-2].file != nil {
		return nil
	}
	above := levels[len(levels)-2]
	if len(above.dirs) == 0 && len(levels) == 2 {
		return nil // there is nothing more to do
	}
	again, err := open(int(last.file.Fd()), "..")
	if err != nil {
		return ErrMoved
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(again.Fd()), &st); err != nil || st.Ino != above.stat.Ino || st.Dev != above.stat.Dev {
		again.Close()
		return ErrMoved
	}
	above.file = again
	return nil
}

// enter opens the directory name in l.
func (l *level) enter(name string) (*level, error) {
	f, err := open(int(l.file.Fd()), name)
	if err != nil {
		return nil, err
	}
	below := &level{file: f}
	if err := unix.Fstat(int(f.Fd()), &below.stat); err != nil {
		f.Close()
		return nil, err
	}
	return below, nil
}

// atOnce is how many names are read at a time.
const atOnce = 1024

// read visits what is in the directory, and notes the directories.
func (l *level) read(visit func(Entry) error) error {
	for {
		names, err := l.file.Readdirnames(atOnce)
		for _, name := range names {
			e := Entry{Dir: int(l.file.Fd()), Name: name}
			if unix.Fstatat(e.Dir, name, &e.Stat, unix.AT_SYMLINK_NOFOLLOW) != nil {
				continue // it went meanwhile
			}
			if err := visit(e); err != nil {
				return err
			}
			if e.IsDir() {
				l.dirs = append(l.dirs, name)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// open opens a directory in another one.
func open(dir int, name string) (*os.File, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}
