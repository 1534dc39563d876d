package bolt_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"agent9/fsys"
	"agent9/store"
	"agent9/store/bolt"
)

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16k"); err != nil {
		t.Skipf("a full disk cannot be tried without mounting a small one: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	resize := func(size string) {
		t.Helper()
		if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size="+size); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "db")
	if _, err := bolt.Open(path); fsys.CodeOf(err) != fsys.NoSpace {
		t.Errorf("Open: got %v, want NoSpace", err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("Open left %v, %v", files, err)
	}

	resize("1m")
	d := openAt(t, path)
	ctx := t.Context()
	l, err := store.OpenLog(ctx, store.Sub(d, "log/"))
	if err != nil {
		t.Fatal(err)
	}
	n, keep := 0, make([]byte, 32<<10)
	fill := func(max int) (err error) {
		for ; n < max && err == nil; n++ {
			err = d.Update(ctx, func(tx store.Store) error {
				if err := l.Append(tx, fmt.Append(nil, n, "\n")); err != nil {
					return err
				}
				return tx.Put(ctx, fmt.Sprintf("k/%03d", n), keep)
			})
		}
		return err
	}
	check := func() {
		t.Helper()
		size := 0
		for i := range n {
			size += len(fmt.Append(nil, i, "\n"))
			if v, err := d.Get(ctx, fmt.Sprintf("k/%03d", i)); err != nil || len(v) != len(keep) {
				t.Errorf("record %d: got %d bytes, %v", i, len(v), err)
			}
		}
		if _, err := d.Get(ctx, fmt.Sprintf("k/%03d", n)); !errors.Is(err, fsys.NotExist) {
			t.Errorf("record %d: got %v, want none", n, err)
		}
		if l.Size() != int64(size) {
			t.Errorf("the log has %d bytes, want %d", l.Size(), size)
		}
	}
	for range 3 {
		err := fill(1000)
		n-- // it was refused
		if fsys.CodeOf(err) != fsys.NoSpace || n < 10 {
			t.Fatalf("after %d records: got %v, want NoSpace", n, err)
		}
		check()
	}
	resize("8m")
	if err := fill(n + 30); err != nil {
		t.Fatal(err)
	}
	check()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = openAt(t, path)
	if l, err = store.OpenLog(ctx, store.Sub(d, "log/")); err != nil {
		t.Fatal(err)
	}
	check()
	d.Close()
}
