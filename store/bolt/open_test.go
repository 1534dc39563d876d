package bolt_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"agent9/fsys"
	"agent9/store"
	"agent9/store/bolt"

	"go.etcd.io/bbolt"
)

func TestLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	openAt(t, path)
	_, err := bolt.Open(path)
	want := "the database " + path + " is in use by another daemon"
	if runtime.GOOS == "linux" {
		want += fmt.Sprintf(" (process %d)", os.Getpid())
	}
	if fsys.CodeOf(err) != fsys.Busy || !strings.HasPrefix(fsys.ReasonOf(err), want+": ") {
		t.Errorf("got %v, want Busy: %s …", err, want)
	}
}

func TestTwoThatMakeItAtOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "db")
	var mu sync.Mutex
	var opened []*bolt.DB
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			d, err := bolt.Open(path)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				opened = append(opened, d)
			} else if fsys.CodeOf(err) != fsys.Busy {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(opened) != 1 {
		t.Fatalf("%d have it open, want 1", len(opened))
	}
	defer opened[0].Close()
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("got mode %v, %v; want -rw-------", info.Mode(), err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("got files %v, %v; want only the database", files, err)
	}
}

// filled makes a database with something in it and returns its file.
func filled(t *testing.T) (path string, content []byte) {
	path = filepath.Join(t.TempDir(), "db")
	d := openAt(t, path)
	err := d.Update(t.Context(), func(tx store.Store) error {
		for i := range 2000 {
			if err := tx.Put(t.Context(), fmt.Sprintf("key %04d", i), make([]byte, 200)); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = d.Close()
	}
	if err == nil {
		content, err = os.ReadFile(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path, content
}

func TestDamaged(t *testing.T) {
	path, whole := filled(t)
	page := os.Getpagesize()
	over := func(from, to int) []byte {
		b := bytes.Clone(whole)
		copy(b[from:to], bytes.Repeat([]byte{0xff}, to-from))
		return b
	}
	for what, content := range map[string][]byte{
		"empty":                        {},
		"one byte":                     whole[:1],
		"one page":                     whole[:page],
		"two pages":                    whole[:2*page],
		"half":                         whole[:len(whole)/2/page*page],
		"text":                         []byte(strings.Repeat("This is not a database.\n", 10_000)),
		"zeros":                        make([]byte, len(whole)),
		"both meta pages overwritten":  over(0, 2*page),
		"the middle overwritten":       over(8*page, 60*page),
		"all but the meta overwritten": over(2*page, len(whole)),
	} {
		t.Run(what, func(t *testing.T) {
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			d, err := bolt.Open(path)
			if err == nil {
				d.Close()
			}
			reason := fsys.ReasonOf(err)
			if fsys.CodeOf(err) != fsys.Unavailable || !strings.Contains(reason, path) || !strings.Contains(reason, "restore it from a backup, or move it away") {
				t.Errorf("got %v, want Unavailable and what to do about %s", err, path)
			}
			if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, content) {
				t.Errorf("the file was changed, or: %v", err)
			}
		})
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if page, err := openAt(t, path).List(t.Context(), "", "key 1998", 5); err != nil || len(page) != 1 {
		t.Errorf("after its copy was put back: %v, %v", page, err)
	}
}

// What is damaged while it is open is an error of those that meet it.
func TestDamagedWhileOpen(t *testing.T) {
	path, _ := filled(t)
	d := openAt(t, path)
	if err := os.Truncate(path, int64(2*os.Getpagesize())); err != nil {
		t.Fatal(err)
	}
	_, err := d.Get(t.Context(), "key 1000")
	if fsys.CodeOf(err) != fsys.Unavailable || !strings.Contains(fsys.ReasonOf(err), path) {
		t.Errorf("Get: got %v, want Unavailable", err)
	}
	err = d.Put(t.Context(), "key 1000", nil)
	if fsys.CodeOf(err) != fsys.Unavailable || !strings.Contains(fsys.ReasonOf(err), path) {
		t.Errorf("Put: got %v, want Unavailable", err)
	}
}

func TestOtherFormats(t *testing.T) {
	for what, c := range map[string]struct {
		change func(tx *bbolt.Tx) error
		code   fsys.Code
		reason string
	}{
		"newer": {func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte("agent9")).Put([]byte("schema"), []byte("2"))
		}, fsys.Unsupported, `has version 2, and this daemon supports versions up to 1`},
		"another program's": {func(tx *bbolt.Tx) error {
			return tx.DeleteBucket([]byte("agent9"))
		}, fsys.Unavailable, "it is a database of another program"},
	} {
		t.Run(what, func(t *testing.T) {
			path, _ := filled(t)
			db, err := bbolt.Open(path, 0o600, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := db.Update(c.change); err != nil {
				t.Fatal(err)
			}
			db.Close()
			for range 2 { // the first one leaves no lock behind
				_, err = bolt.Open(path)
				if fsys.CodeOf(err) != c.code || !strings.Contains(fsys.ReasonOf(err), c.reason) || !strings.Contains(fsys.ReasonOf(err), path) {
					t.Errorf("got %v, want %v: %s", err, c.code, c.reason)
				}
			}
		})
	}
}

func TestNoFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none", "db")
	if _, err := bolt.Open(path); fsys.CodeOf(err) != fsys.NotExist || !strings.Contains(fsys.ReasonOf(err), path) {
		t.Errorf("got %v, want NotExist that names the file", err)
	}
	if _, err := bolt.Open(t.TempDir()); fsys.CodeOf(err) != fsys.Unavailable {
		t.Errorf("a folder: got %v, want Unavailable", err)
	}
}
