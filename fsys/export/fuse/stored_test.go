//go:build linux && !386 && !arm && !mips && !mipsle

package fuse_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"agent9/fsys"
	"agent9/fsys/ninep"
)

// A tally counts the messages that a 9P client sends, but for Tclunks, which
// nobody waits for.
type tally struct {
	net.Conn

	mu   sync.Mutex
	part []byte
	n    int
}

func (c *tally) Write(p []byte) (int, error) {
	const tclunk = 120
	c.mu.Lock()
	c.part = append(c.part, p...)
	for len(c.part) >= 5 {
		size := int(binary.LittleEndian.Uint32(c.part))
		if len(c.part) < size {
			break
		}
		if c.part[4] != tclunk {
			c.n++
		}
		c.part = c.part[size:]
	}
	c.mu.Unlock()
	return c.Conn.Write(p)
}

// during returns how many messages were sent while f ran.
func (c *tally) during(f func()) int {
	c.mu.Lock()
	before := c.n
	c.mu.Unlock()
	f()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n - before
}

// overWire mounts root through our own client and server.
func overWire(t *testing.T, root fsys.Node) (dir string, sent *tally) {
	t.Helper()
	s := &ninep.Server{Attach: func(context.Context, ninep.Peer, string, string) (ninep.Grant, error) {
		return ninep.Grant{Root: root, Caller: "test"}, nil
	}}
	near, far := net.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() { s.ServeConn(far) })
	sent = &tally{Conn: near}
	c, err := ninep.NewClient(t.Context(), sent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		serving.Wait()
	})
	remote, err := c.Attach(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	return mount(t, remote), sent
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// save writes a file as another client would, not through a mount.
func save(t *testing.T, dir fsys.Node, name, text string) {
	t.Helper()
	_, h, err := fsys.OpenCreate(t.Context(), dir, name, 0o644, fsys.Write|fsys.Trunc)
	must(t, err)
	_, err = fsys.WriteAt(t.Context(), h, []byte(text), 0)
	must(t, err)
	must(t, fsys.Finish(t.Context(), h))
}

func wantText(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Fatalf("%s: %q, %v, want %q", path, got, err, want)
	}
}

// overBoth runs f with a mount in this process and one over the wire.
func overBoth(t *testing.T, f func(t *testing.T, tree fsys.Node, dir string)) {
	t.Run("here", func(t *testing.T) {
		tree := stored(t)
		f(t, tree, mount(t, tree))
	})
	t.Run("over the wire", func(t *testing.T) {
		tree := stored(t)
		dir, _ := overWire(t, tree)
		f(t, tree, dir)
	})
}

// Whoever opens a file, or asks what it is, after another client has changed it
// finds the change, also if the kernel has names, size and pages of before.
func TestOthersChangesAreSeenAtOnce(t *testing.T) {
	overBoth(t, func(t *testing.T, tree fsys.Node, dir string) {
		ctx := t.Context()
		sub, err := fsys.Mkdir(ctx, tree, "sub", 0o755)
		must(t, err)
		path := dir + "/sub/f"
		text := ""
		for i := range 40 {
			switch i % 4 {
			case 0: // as long as before, but for the first time
				text = strings.Repeat(fmt.Sprint(i%10), 100)
				save(t, sub, "f", text)
			case 1: // longer
				text = strings.Repeat(text, 2) + "end"
				save(t, sub, "f", text)
			case 2: // another file
				text = fmt.Sprint("another", i)
				save(t, sub, "new", text)
				must(t, fsys.Rename(ctx, sub, "new", "f"))
			case 3: // in another directory
				must(t, fsys.Rename(ctx, tree, "sub", fmt.Sprint("old", i)))
				sub, err = fsys.Mkdir(ctx, tree, "sub", 0o755)
				must(t, err)
				if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
					t.Fatalf("in an empty directory: %v", err)
				}
				text = fmt.Sprint("elsewhere", i)
				save(t, sub, "f", text)
			}
			if i%8 < 4 { // the open comes first
				wantText(t, path, text)
			}
			if st, err := os.Stat(path); err != nil || st.Size() != int64(len(text)) {
				t.Fatalf("%d: size %v, %v, want %d", i, st, err, len(text))
			}
			wantText(t, path, text)
			wantText(t, path, text) // from the pages
		}
		must(t, fsys.Remove(ctx, node(t, sub, "f")))
		if _, err := os.ReadFile(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after it was removed: %v", err)
		}
		must(t, os.WriteFile(path, []byte("again"), 0o644)) // though the kernel may know the name
		wantText(t, path, "again")
	})
}

func node(t *testing.T, dir fsys.Node, name string) fsys.Node {
	t.Helper()
	n, err := fsys.Walk(t.Context(), dir, name)
	must(t, err)
	return n
}

// Who keeps a file open sees in a while what others change in it.
func TestOpenFilesAreNotStaleForLong(t *testing.T) {
	overBoth(t, func(t *testing.T, tree fsys.Node, dir string) {
		save(t, tree, "f", "old text")
		f, err := os.Open(dir + "/f")
		must(t, err)
		defer f.Close()
		b := make([]byte, 100)
		if n, _ := f.ReadAt(b, 0); string(b[:n]) != "old text" {
			t.Fatalf("read %q", b[:n])
		}
		save(t, tree, "f", "and new text")
		within(t, "the old text is still read", func() bool {
			n, _ := f.ReadAt(b, 0)
			return string(b[:n]) == "and new text"
		})
	})
}

// What came with a listing holds for a moment; what is done through the mount
// is seen at once all the same.
func TestListingsAreNotStaleForLong(t *testing.T) {
	overBoth(t, func(t *testing.T, tree fsys.Node, dir string) {
		for i := range 200 {
			save(t, tree, fmt.Sprint("f", i), "x")
		}
		if list, err := os.ReadDir(dir); err != nil || len(list) != 200 {
			t.Fatal(len(list), err)
		}
		save(t, tree, "f0", "changed")
		must(t, fsys.Remove(t.Context(), node(t, tree, "f1")))
		within(t, "the size is still the old one", func() bool {
			st, err := os.Stat(dir + "/f0")
			return err == nil && st.Size() == 7
		})
		within(t, "the name is still there", func() bool {
			_, err := os.Stat(dir + "/f1")
			return errors.Is(err, fs.ErrNotExist)
		})
		// A directory that is open already was listed before this.
		d, err := os.Open(dir)
		must(t, err)
		defer d.Close()
		must(t, os.WriteFile(dir+"/f2", []byte("written"), 0o644))
		must(t, os.Remove(dir+"/f3"))
		if names, err := d.Readdirnames(-1); err != nil || len(names) != 199 {
			t.Fatal(len(names), err)
		}
		if st, err := os.Stat(dir + "/f2"); err != nil || st.Size() != 7 {
			t.Errorf("f2, which was written here: %v, %v", st, err)
		}
		wantText(t, dir+"/f2", "written")
		if _, err := os.Stat(dir + "/f3"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("f3, which was removed here: %v", err)
		}
	})
}

// How many messages common things take is a matter of round trips, so it is
// bounded here and time is not.
func TestMessages(t *testing.T) {
	tree := stored(t)
	many, err := fsys.Mkdir(t.Context(), tree, "many", 0o755)
	must(t, err)
	const names = 1000
	for i := range names {
		save(t, many, fmt.Sprint("file", i), "text\n")
	}
	save(t, tree, "small", "small\n")
	live := fsys.NewTable(entry("goals", tree), entry("status", fsys.Const("well\n")))
	dir, sent := overWire(t, live)
	cat := func(path string) func() {
		return func() {
			if _, err := os.ReadFile(dir + path); err != nil {
				t.Error(err)
			}
		}
	}
	list := func() {
		entries, err := os.ReadDir(dir + "/goals/many")
		if err != nil || len(entries) != names {
			t.Error(len(entries), err)
		}
	}
	for _, c := range []struct {
		name string
		most int
		do   func()
	}{
		// Names and pages may be forgotten in between, so these are bounds.
		// Twalk and Tgetattr for each of three names, the Tgetattr of ReadFile's
		// fstat, and with the open Twalk, Tgetattr, Tlopen and Tread.
		{"cat of a file, for the first time", 20, cat("/goals/small")},
		{"cat again", 20, cat("/goals/small")},
		{"cat of a file that is not stored", 20, cat("/status")},
		// With what the names are; how long that holds is a matter of time.
		{"listing", 20, list},
	} {
		if n := sent.during(c.do); n > c.most {
			t.Errorf("%s: %d messages, want at most %d", c.name, n, c.most)
		} else {
			t.Logf("%s: %d messages", c.name, n)
		}
	}
}

// Refusals come from the server with their number, cached or not.
func TestStoredRefusals(t *testing.T) {
	overBoth(t, func(t *testing.T, tree fsys.Node, dir string) {
		save(t, tree, "f", "text")
		wantText(t, dir+"/f", "text")
		none := fs.FileMode(0)
		must(t, fsys.SetAttr(t.Context(), node(t, tree, "f"), fsys.Attr{Perm: &none}))
		if _, err := os.ReadFile(dir + "/f"); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("reading what may not be read any more: %v", err)
		}
		if err := os.WriteFile(dir+"/f", []byte("x"), 0o644); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("writing what may not be written any more: %v", err)
		}
	})
}
