//go:build unix

package box

import (
	"context"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"agent9/fsys"
)

func (n *node) Open(ctx context.Context, flag fsys.Flag) (fsys.Handle, error) {
	var f *os.File
	err := n.disk.do(ctx, func() (err error) {
		s, err := n.look()
		if err != nil {
			return err
		}
		if err := s.usable(); err != nil {
			return err
		}
		if s.info.IsDir() {
			return nil
		}
		f, err = n.disk.open(n.name, s.info, flag)
		return err
	})
	if err != nil {
		return nil, err
	}
	if f == nil {
		return fsys.OpenDir(flag)
	}
	return &fileHandle{disk: n.disk, file: f, flag: flag}, nil
}

func osFlag(flag fsys.Flag) int {
	// Opening what is not a regular file (any more) must not block.
	f := syscall.O_NONBLOCK | syscall.O_NOCTTY
	switch flag & (fsys.Read | fsys.Write) {
	case fsys.Write:
		f |= os.O_WRONLY
	case fsys.Read | fsys.Write:
		f |= os.O_RDWR
	}
	if flag&fsys.Append != 0 {
		f |= os.O_APPEND
	}
	return f
}

// open opens name, which was seen to be a regular file with info, and checks
// that it still is.
func (d *disk) open(name string, info fs.FileInfo, flag fsys.Flag) (*os.File, error) {
	if flag&fsys.Write != 0 && info.Mode()&0o222 == 0 {
		return nil, fsys.E(fsys.Permission, "the file is read-only")
	}
	f, err := d.OpenFile(name, osFlag(flag), 0)
	if err != nil {
		return nil, failure(err)
	}
	now, err := f.Stat()
	switch {
	case err != nil:
	case !now.Mode().IsRegular() || d.hidden[idOf(now).dev]:
		err = fsys.E(fsys.Permission, "this is not a plain file any more")
	case flag&fsys.Trunc != 0:
		err = f.Truncate(0)
	}
	if err != nil {
		f.Close()
		return nil, failure(err)
	}
	return f, nil
}

// change does f to n, which is a plain file or, if dirs, a directory.
func (n *node) change(ctx context.Context, dirs bool, f func(s state) error) error {
	return n.disk.do(ctx, func() error {
		s, err := n.look()
		if err != nil {
			return err
		}
		if err := s.usable(); err != nil {
			return err
		}
		if s.info.IsDir() && (!dirs || s.hidden) {
			return fsys.IsDir
		}
		return failure(f(s))
	})
}

func (n *node) Truncate(ctx context.Context, size int64) error {
	return n.change(ctx, false, func(s state) error {
		f, err := n.disk.open(n.name, s.info, fsys.Write)
		if err != nil {
			return err
		}
		defer f.Close()
		return f.Truncate(size)
	})
}

func (n *node) SetAttr(ctx context.Context, set fsys.Attr) error {
	return n.change(ctx, true, func(state) error {
		if set.Perm != nil {
			if err := n.disk.Chmod(n.name, set.Perm.Perm()); err != nil {
				return err
			}
		}
		if set.ModTime != nil {
			return n.disk.Chtimes(n.name, time.Time{}, *set.ModTime)
		}
		return nil
	})
}

// A fileHandle is a plain file that is open.
type fileHandle struct {
	disk *disk
	file *os.File
	flag fsys.Flag

	appending sync.Mutex
}

func (h *fileHandle) Close() error {
	h.file.Close() // what was to be said, Sync has
	return nil
}

func (h *fileHandle) ReadAt(ctx context.Context, p []byte, off int64) (n int, err error) {
	if h.flag&fsys.Read == 0 {
		return 0, fsys.BadHandle
	}
	err = h.disk.do(ctx, func() error {
		n, err = h.file.ReadAt(p, off)
		return failure(err)
	})
	return n, err
}

func (h *fileHandle) WriteAt(ctx context.Context, p []byte, off int64) (n int, err error) {
	if h.flag&fsys.Write == 0 {
		return 0, fsys.BadHandle
	}
	if err := h.disk.quota.room(); err != nil {
		return 0, err
	}
	err = h.disk.do(ctx, func() error {
		if h.flag&fsys.Append != 0 {
			h.appending.Lock()
			defer h.appending.Unlock()
			n, err = h.file.Write(p)
		} else {
			n, err = h.file.WriteAt(p, off)
		}
		return failure(err)
	})
	return n, err
}

// Sync does nothing: a file is as durable as one that a program in the sandbox
// has written, which is to say that the kernel has it.
func (h *fileHandle) Sync(context.Context) error { return nil }
