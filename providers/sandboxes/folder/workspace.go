//go:build unix

package folder

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"agent9/fsys"
)

// workspace returns the path of the workspace that persists under name.
func (s *Store) workspace(name string) (string, error) {
	// What PathEscape leaves alone has no slash and no NUL, and a name that
	// begins with a dot is not taken for one of ours.
	file := url.PathEscape(name)
	if strings.HasPrefix(file, ".") {
		file = "%2E" + file[1:]
	}
	if err := fsys.CheckName(file); err != nil {
		return "", fsys.Wrap(fsys.Invalid, "the name of a workspace", err)
	}
	return filepath.Join(s.workspaces(), file), nil
}

// lock makes sure that the workspace exists and locks it until the file that
// is returned is closed.
func (s *Store) lock(ctx context.Context, place Place) (*os.File, error) {
	for {
		f, err := flock(place.Workspace)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		if err := s.engine.Make(ctx, place); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
}

// flock locks a workspace. NotExist: there is none.
func flock(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fsys.Wrap(fsys.Internal, "the workspace", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		f.Close()
		return nil, fsys.E(fsys.Busy, "the workspace is in use by another container session: wait until it ends, or use another workspace")
	}
	if err == nil {
		err = sameFile(f, dir)
	}
	if err != nil {
		f.Close()
		return nil, fsys.Wrap(fsys.Internal, "the lock of the workspace", err)
	}
	return f, nil
}

// sameFile reports whether f still is what path leads to.
func sameFile(f *os.File, path string) error {
	locked, err := f.Stat()
	if err != nil {
		return err
	}
	now, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !os.SameFile(locked, now) {
		return fs.ErrNotExist
	}
	return nil
}

// RemoveWorkspace removes one that persists; see [sandboxes.Provider].
func (s *Store) RemoveWorkspace(_ context.Context, name string) error {
	dir, err := s.workspace(name)
	if err != nil {
		return err
	}
	f, err := flock(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return s.discard(dir)
}

// discard takes dir away, by way of a name that is swept: what cannot be
// removed now is left over, and no longer in anybody's way.
func (s *Store) discard(dir string) error {
	gone, err := os.MkdirTemp(filepath.Dir(dir), ".gone-")
	if err == nil {
		err = markAs(gone, dir)
	}
	if err == nil {
		err = os.Rename(dir, filepath.Join(gone, "it"))
	}
	if err != nil {
		if gone != "" {
			os.Remove(gone)
		}
		return fsys.Wrap(fsys.Internal, "removing a folder", err)
	}
	s.remove(gone)
	s.retry()
	return nil
}
