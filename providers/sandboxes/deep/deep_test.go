//go:build linux

package deep_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"agent9/providers/sandboxes/deep"
)

// levels makes a directory n levels deep with a file in the last.
func levels(t *testing.T, dir string, n int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	for range n {
		if err == nil {
			err = unix.Mkdirat(fd, "d", 0o700)
		}
		below := -1
		if err == nil {
			below, err = unix.Openat(fd, "d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		}
		unix.Close(fd)
		fd = below
	}
	if err == nil {
		var file int
		if file, err = unix.Openat(fd, "bottom", unix.O_CREAT|unix.O_WRONLY, 0o600); err == nil {
			unix.Close(file)
		}
	}
	unix.Close(fd)
	if err != nil {
		t.Fatal(err)
	}
}

// few lets the process have n more files while the test runs.
func few(t *testing.T, n int) {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	var before unix.Rlimit
	if err == nil {
		err = unix.Getrlimit(unix.RLIMIT_NOFILE, &before)
	}
	if err == nil {
		err = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(len(open) + n), Max: before.Max})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Setrlimit(unix.RLIMIT_NOFILE, &before) })
}

// A tree that is deeper than files may be open, or a path be long, is walked
// and removed.
func TestDeep(t *testing.T) {
	const depth = 20_000
	dir := filepath.Join(t.TempDir(), "it")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	levels(t, dir, depth)
	few(t, 32)
	dirs, files := 0, 0
	err := deep.Walk(dir, func(e deep.Entry) error {
		if e.IsDir() {
			dirs++
		} else {
			files++
		}
		return nil
	}, func(_ deep.Entry, err error) error { return err })
	if err != nil || dirs != depth || files != 1 {
		t.Errorf("%d directories, %d files, %v", dirs, files, err)
	}
	if err := deep.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// The way back from below leads to every directory beside it.
func TestWide(t *testing.T) {
	dir := t.TempDir()
	want := 0
	for a := range 3 {
		at := dir
		for b := range 40 {
			at = filepath.Join(at, fmt.Sprint("d", a, b))
			for _, d := range []string{at, at + "-x", at + "-y"} {
				if err := os.Mkdir(d, 0o700); err != nil {
					t.Fatal(err)
				}
				want++
			}
		}
	}
	if err := os.Symlink(dir, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	seen := map[uint64]bool{}
	err := deep.Walk(dir, func(e deep.Entry) error {
		if e.IsDir() {
			seen[e.Stat.Ino] = true
		}
		return nil
	}, func(_ deep.Entry, err error) error { return err })
	if err != nil || len(seen) != want {
		t.Errorf("%d directories of %d, %v", len(seen), want, err)
	}
}

// What cannot be removed is told, and everything else is gone.
func TestImmovable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it")
	if err := os.MkdirAll(filepath.Join(dir, "a/b/c/d"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a/b/c/d/fixed", "a/b/c/d/free", "a/free", "z"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	unfix := fix(t, filepath.Join(dir, "a/b/c/d/fixed"))
	if err := deep.RemoveAll(dir); !errors.Is(err, unix.EPERM) {
		t.Errorf("with an immutable file: %v", err)
	}
	left := 0
	deep.Walk(dir, func(e deep.Entry) error {
		if !e.IsDir() {
			left++
		}
		return nil
	}, func(_ deep.Entry, err error) error { return err })
	if left != 1 {
		t.Errorf("%d files are left", left)
	}
	unfix()
	if err := deep.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}

// fix makes a file immutable, or skips.
func fix(t *testing.T, path string) (unfix func()) {
	t.Helper()
	const immutable = 0x10
	f, err := os.Open(path)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, immutable)
	}
	if err != nil {
		f.Close()
		t.Skip("no file can be made immutable here: ", err)
	}
	done := false
	unfix = func() {
		if !done {
			done = true
			unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0)
			f.Close()
		}
	}
	t.Cleanup(unfix)
	return unfix
}

// Directories that forbid everything are removed by their owner.
func TestForbidden(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it")
	if err := os.MkdirAll(filepath.Join(dir, "a/b/c"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a/b/c", "a/b", "a", ""} {
		if err := os.Chmod(filepath.Join(dir, name), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := deep.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}
