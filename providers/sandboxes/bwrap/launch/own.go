//go:build linux

package launch

import (
	"os"

	"golang.org/x/sys/unix"

	"agent9/providers/sandboxes/deep"
)

// Own makes a directory and all that is in it somebody's. The directory itself
// is the last, and what is theirs is not looked into: so what was cut off is
// done again, and what was done costs nothing.
func Own(dir string, uid, gid int) error {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	if int(st.Uid) == uid && int(st.Gid) == gid {
		return nil
	}
	err := deep.Walk(dir, func(e deep.Entry) error {
		// The kernel takes setuid and setgid away with the old owner.
		return unix.Fchownat(e.Dir, e.Name, uid, gid, unix.AT_SYMLINK_NOFOLLOW)
	}, func(_ deep.Entry, err error) error { return err })
	if err != nil {
		return &os.PathError{Op: "chown below", Path: dir, Err: err}
	}
	return os.Chown(dir, uid, gid)
}
