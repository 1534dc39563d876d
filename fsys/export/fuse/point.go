//go:build (linux && !386 && !arm && !mips && !mipsle) || darwin || freebsd

package fuse

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"agent9/fsys"
)

// mountPoint checks that something can be mounted at dir, and returns its
// path from the root. What a program that is gone has left mounted there goes.
func mountPoint(dir string) (string, error) {
	dir, err := resolve(dir)
	if err != nil {
		return "", err
	}
	if ours, known := mountedAt(dir); ours && known {
		if _, err := os.Stat(dir); !errors.Is(err, syscall.ENOTCONN) {
			return "", fsys.E(fsys.Exist, "agent9 is already mounted at "+dir)
		}
		if err := detachLazily(dir); err != nil {
			return "", fsys.Wrap(fsys.Busy, "the program that served "+dir+" is gone, but it is still mounted", err)
		}
	}
	f, err := os.Open(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fsys.E(fsys.NotExist, "there is no directory "+dir+" to mount at; make it first")
	case err != nil:
		return "", fsys.Wrap(fsys.NotExist, "cannot mount there", err)
	}
	defer f.Close()
	switch names, err := f.Readdirnames(1); {
	case errors.Is(err, syscall.ENOTDIR):
		return "", fsys.E(fsys.NotDir, dir+" is not a directory")
	case err != nil && err != io.EOF:
		return "", fsys.Wrap(fsys.Unavailable, "cannot mount there", err)
	case len(names) > 0:
		return "", fsys.E(fsys.NotEmpty, dir+" is not empty; mount at an empty directory")
	}
	return dir, nil
}

// resolve returns the path from the root of dir, which may be a dead mount.
func resolve(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real, nil
	}
	up, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if err != nil {
		return "", fsys.Wrap(fsys.NotExist, dir, err)
	}
	return filepath.Join(up, filepath.Base(dir)), nil
}
