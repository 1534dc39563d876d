//go:build unix

package deep

import (
	"errors"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// A remover empties the directory top. A directory that is not empty is moved
// to top first, under a number: so no more than two are open at once, however
// deep the tree is.
type remover struct {
	top   *os.File
	moved int
	done  int   // how much was removed or moved in a pass
	err   error // the first of a pass
}

// RemoveAll removes dir and all that is in it, also what its permissions
// forbid, as long as they can be changed. It goes on after what cannot be
// removed, such as files that are immutable or where something is mounted, and
// returns the first error. What is left may be in another place below dir.
// Nothing else may change dir meanwhile, except processes that are about to end.
func RemoveAll(dir string) error {
	if err := unix.Unlink(dir); err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	top, err := os.Open(dir)
	if errors.Is(err, unix.EACCES) && os.Chmod(dir, 0o700) == nil {
		top, err = os.Open(dir)
	}
	if err != nil {
		return err
	}
	defer top.Close()
	top.Chmod(0o700)
	r := &remover{top: top}
	for again := true; again; again = r.done > 0 {
		if err := r.pass(); err != nil {
			return err
		}
	}
	err = unix.Rmdir(dir)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if r.err == nil {
		r.err = &os.PathError{Op: "remove", Path: dir, Err: err}
	}
	return r.err
}

// pass removes what is in top, or at least moves it there.
func (r *remover) pass() error {
	r.done, r.err = 0, nil
	if _, err := r.top.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return each(r.top, func(name string) {
		if r.gone(r.top, name) {
			return
		}
		d, err := open(int(r.top.Fd()), name)
		if err != nil {
			r.fail(name, err)
			return
		}
		err = each(d, func(below string) {
			if !r.gone(d, below) {
				r.move(d, below)
			}
		})
		d.Close()
		if err == nil {
			err = unix.Unlinkat(int(r.top.Fd()), name, unix.AT_REMOVEDIR)
		}
		r.did(name, err)
	})
}

// gone removes name in dir, or fails to, unless it is a directory with
// something in it, which it makes one that can be entered.
func (r *remover) gone(dir *os.File, name string) bool {
	fd := int(dir.Fd())
	err := unix.Unlinkat(fd, name, 0)
	var st unix.Stat_t
	if err != nil && unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		err = unix.Unlinkat(fd, name, unix.AT_REMOVEDIR)
	}
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		if st.Mode&0o700 != 0o700 {
			unix.Fchmodat(fd, name, 0o700, 0)
		}
		return false
	}
	r.did(name, err)
	return true
}

// move moves the directory name in dir to top.
func (r *remover) move(dir *os.File, name string) {
	for {
		r.moved++
		to := "moved-" + strconv.Itoa(r.moved)
		var st unix.Stat_t
		if unix.Fstatat(int(r.top.Fd()), to, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			continue // of an earlier removal, which did not end
		}
		r.did(name, unix.Renameat(int(dir.Fd()), name, int(r.top.Fd()), to))
		return
	}
}

func (r *remover) did(name string, err error) {
	if err == nil || errors.Is(err, unix.ENOENT) {
		r.done++
	} else {
		r.fail(name, err)
	}
}

func (r *remover) fail(name string, err error) {
	if r.err == nil {
		r.err = &os.PathError{Op: "remove", Path: name, Err: err}
	}
}

// each calls f for every name in dir.
func each(dir *os.File, f func(name string)) error {
	for {
		names, err := dir.Readdirnames(atOnce)
		for _, name := range names {
			f(name)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
