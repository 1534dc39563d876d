//go:build darwin || freebsd

package fuse

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"agent9/fsys"
)

var errNotMounted = errors.New("not mounted")

// detach unmounts dir, unless it is in use.
func detach(dir string) error { return unmount(dir, 0) }

// detachLazily takes dir out of sight, in use or not.
func detachLazily(dir string) error { return unmount(dir, unix.MNT_FORCE) }

func unmount(dir string, flags int) error {
	err := unix.Unmount(dir, flags)
	if err == syscall.EINVAL {
		return errNotMounted
	}
	return err
}

// mountedAt cannot be told without touching dir.
func mountedAt(string) (ours, known bool) { return false, false }

// abort has nothing to do: a forced unmount ends the connection.
func abort(string, uint64) {}

// whyNot explains why a mount failed.
func whyNot(err error) error {
	return fsys.Wrap(fsys.Unavailable, "cannot mount; is macFUSE or the fusefs module installed", err)
}
