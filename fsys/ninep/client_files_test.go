package ninep_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/fsys/ninep"
)

// patience is how long a test waits for what must happen.
const patience = 90 * time.Second

// someServer starts a server of somebody else's, which args tell to export dir
// at addr.
func someServer(t *testing.T, program string, args func(dir, addr string) []string) (dir, addr string) {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		if path, err = exec.LookPath("/usr/sbin/" + program); err != nil {
			t.Skip(program + " is not installed")
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr = l.Addr().String()
	l.Close()
	dir = t.TempDir()
	cmd := exec.Command(path, args(dir, addr)...)
	if err := cmd.Start(); err != nil {
		t.Skip(program+" does not start: ", err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-exited
	})
	awaitListener(t, addr, exited)
	return dir, addr
}

// awaitListener waits until somebody listens at addr.
func awaitListener(t *testing.T, addr string, exited <-chan error) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(patience); ; {
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			return
		}
		select {
		case err := <-exited:
			t.Skip("the server does not run here: ", err)
		case <-end:
			t.Fatal("the server does not listen")
		case <-tick.C:
		}
	}
}

// Debian's server of 9P2000.L.
func TestDiod(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	dir, addr := someServer(t, "diod", func(dir, addr string) []string {
		return []string{"-f", "-n", "-d", "1", "-l", addr, "-e", dir, "-L", log}
	})
	c, err := ninep.Dial(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.Version() != "9P2000.L" {
		t.Errorf("version %s", c.Version())
	}
	root, err := c.Attach(t.Context(), "", dir)
	if err != nil {
		t.Fatal(err)
	}
	remoteFiles(t, root, func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(dir, name)) })

	// An aname that is not exported, and a dialect that diod does not speak.
	if _, err := c.Attach(t.Context(), "", "/nowhere"); err == nil {
		t.Error("attached to what is not exported")
	}
	if c, err := ninep.Dial(t.Context(), "tcp", addr, ninep.DialVersion("9P2000")); fsys.CodeOf(err) != fsys.Unsupported {
		t.Errorf("Dial for 9P2000: %v, %v; want Unsupported", c, err)
	}
}

// The server of 9P2000 in github.com/knusbaum/go9p, cmd/export9p.
func TestExport9p(t *testing.T) {
	dir, addr := someServer(t, "export9p", func(dir, addr string) []string {
		return []string{"-noperm", "-dir", dir, "-address", addr}
	})
	c, err := ninep.Dial(t.Context(), "tcp", addr, ninep.DialVersion("9P2000"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	root, err := c.Attach(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	remoteFiles(t, root, func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(dir, name)) },
		// It makes a file anew that there is, leaves times alone, calls a walk
		// through a file NotExist, and its text for a directory that is not
		// empty is not one that a client could know.
		"Create again", "ModTime after SetAttr", "WalkPath sub/f/x", "OpenPath sub/f/x",
		"WalkPath sub/f/x/y", "OpenPath sub/f/x/y", "Remove of a directory that is not empty")
}

// remoteFiles works on root, an empty directory of ordinary files, and looks
// behind the server's back whether it was done. It does not look at what the
// server is known to do in its own way.
func remoteFiles(t *testing.T, root *ninep.Remote, look func(name string) ([]byte, error), known ...string) {
	t.Helper()
	ctx := t.Context()
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	refused := func(what string, err error, want fsys.Code) {
		t.Helper()
		if (fsys.CodeOf(err) != want || err == nil) && !slices.Contains(known, what) {
			t.Errorf("%s: %v (%v), want %v", what, err, fsys.CodeOf(err), want)
		}
	}
	really := func(name, want string) {
		t.Helper()
		if b, err := look(name); err != nil || string(b) != want {
			t.Errorf("behind the server %s is %q, %v; want %q", name, b, err, want)
		}
	}

	_, err := fsys.Mkdir(ctx, root, "sub", 0o755)
	must("Mkdir", err)
	_, err = fsys.Mkdir(ctx, root, "sub", 0o755)
	refused("Mkdir again", err, fsys.Exist)
	sub, err := root.Walk(ctx, "sub")
	must("Walk", err)
	n, h, err := fsys.Create(ctx, sub, "f", 0o640, fsys.Read|fsys.Write)
	must("Create", err)
	_, err = fsys.WriteAt(ctx, h, []byte("hello\n"), 0)
	must("WriteAt", err)
	must("Finish", fsys.Finish(ctx, h))
	really("sub/f", "hello\n")
	_, _, err = fsys.Create(ctx, sub, "f", 0o640, fsys.Write)
	refused("Create again", err, fsys.Exist)
	info, err := n.Stat(ctx)
	if err != nil || info.Kind != fsys.File || info.Size != 6 || info.Perm != 0o640 {
		t.Errorf("Stat: %+v, %v; want a file of 6 bytes, 0640", info, err)
	}

	b, err := fsys.ReadFile(ctx, root, "sub/f")
	if err != nil || string(b) != "hello\n" {
		t.Errorf("ReadFile: %q, %v", b, err)
	}
	h, err = n.Open(ctx, fsys.Write|fsys.Append)
	must("Open to append", err)
	_, err = fsys.WriteAt(ctx, h, []byte("world\n"), 0)
	must("append", err)
	_, err = fsys.ReadAt(ctx, h, make([]byte, 1), 0)
	refused("a read of what is open for writing", err, fsys.BadHandle)
	must("Close", h.Close())
	must("Close again", h.Close())
	_, err = fsys.WriteAt(ctx, h, []byte("x"), 0)
	refused("a write after Close", err, fsys.BadHandle)
	really("sub/f", "hello\nworld\n")
	must("Truncate", fsys.Truncate(ctx, n, 5))
	really("sub/f", "hello")
	must("WriteFile", fsys.WriteFile(ctx, root, "sub/f", []byte("again\n")))
	really("sub/f", "again\n")

	then := time.Unix(1234567890, 0)
	perm := fs.FileMode(0o600)
	must("SetAttr", fsys.SetAttr(ctx, n, fsys.Attr{Perm: &perm, ModTime: &then}))
	if i, err := walkTo(t, root, "sub/f").Stat(ctx); err != nil || i.Perm != 0o600 {
		t.Errorf("after SetAttr: %+v, %v; want 0600", i, err)
	} else if !i.ModTime.Equal(then) && !slices.Contains(known, "ModTime after SetAttr") {
		t.Errorf("ModTime after SetAttr: %v, want %v", i.ModTime, then)
	}

	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // larger than any msize here
	_, h, err = fsys.Create(ctx, root, "big", 0o644, fsys.Write)
	must("Create", err)
	_, err = fsys.WriteAt(ctx, h, big, 0)
	must("WriteAt of 1 MiB", err)
	must("Finish", fsys.Finish(ctx, h))
	really("big", string(big))
	if b, err := fsys.ReadFile(ctx, root, "big"); err != nil || !bytes.Equal(b, big) {
		t.Errorf("1 MiB there and back: %d bytes, %v", len(b), err)
	}

	deep := "sub"
	for i := range 20 { // more names than one Twalk has
		_, err := fsys.Mkdir(ctx, walkTo(t, root, deep), fmt.Sprint("d", i), 0o755)
		must("Mkdir", err)
		deep += fmt.Sprint("/d", i)
	}
	if info, err := walkTo(t, root, deep).Stat(ctx); err != nil || info.Kind != fsys.Directory {
		t.Errorf("Stat of %s: %+v, %v", deep, info, err)
	}
	for path, want := range map[string]fsys.Code{
		"nowhere":                fsys.NotExist,
		"sub/nowhere":            fsys.NotExist,
		"sub/nowhere/x":          fsys.NotExist,
		"sub/f/x":                fsys.NotDir,
		"sub/f/x/y":              fsys.NotDir,
		deep + "/nowhere":        fsys.NotExist,
		"sub/..":                 fsys.NotExist,
		deep[:len(deep)-2] + "x": fsys.NotExist,
	} {
		_, err := root.WalkPath(ctx, path)
		refused("WalkPath "+path, err, want)
		_, err = root.OpenPath(ctx, path, fsys.Read)
		refused("OpenPath "+path, err, want)
	}

	d0 := walkTo(t, root, "sub/d0")
	for i := range 500 { // more than one message can hold
		_, h, err := fsys.Create(ctx, d0, fmt.Sprintf("%0200d", i), 0o644, fsys.Write)
		must("Create", err)
		must("Close", h.Close())
	}
	entries, err := fsys.List(ctx, d0)
	names := map[string]bool{}
	for _, e := range entries {
		names[e.Name] = true
	}
	if err != nil || len(names) != 501 || len(entries) != 501 || !names["d1"] {
		t.Errorf("List: %d entries with %d names, %v; want 501", len(entries), len(names), err)
	}

	must("Rename", fsys.Rename(ctx, sub, "f", "g"))
	really("sub/g", "again\n")
	refused("Remove of a directory that is not empty", fsys.Remove(ctx, sub), fsys.NotEmpty)
	must("Remove", fsys.Remove(ctx, walkTo(t, root, "sub/g")))
	must("Remove of a directory", fsys.Remove(ctx, walkTo(t, root, deep)))
	entries, err = fsys.List(ctx, sub)
	if err != nil || !slices.EqualFunc(entries, []string{"d0"}, func(e fsys.Entry, n string) bool { return e.Name == n }) {
		t.Errorf("List at the end: %v, %v; want d0", entries, err)
	}

	ctx, cancel := context.WithCancel(ctx)
	cancel()
	_, err = root.Stat(ctx)
	refused("Stat with a context that has ended", err, fsys.Canceled)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the error is not context.Canceled: %v", err)
	}
}

func walkTo(t *testing.T, root *ninep.Remote, path string) fsys.Node {
	t.Helper()
	n, err := root.WalkPath(t.Context(), path)
	if err != nil {
		t.Fatalf("WalkPath %s: %v", path, err)
	}
	return n
}
