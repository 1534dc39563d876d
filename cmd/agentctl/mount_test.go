//go:build linux

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMount(t *testing.T) {
	if f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err != nil {
		t.Skip("no FUSE here: ", err)
	} else {
		f.Close()
	}
	t.Setenv(asProgram, "1")
	h := newHost(t, "alice", "bob")
	c := console{t: t, addr: h.serve()}
	dir := t.TempDir()
	c.fails("nobody: No such file or directory", "mount", dir, "nobody")
	if got := c.run("mount", dir); got.status != 0 {
		t.Skipf("cannot mount here: %s", got.err)
	}
	t.Cleanup(func() { c.run("umount", dir) })
	if b, err := os.ReadFile(filepath.Join(dir, "agents/alice/status")); err != nil || !strings.Contains(string(b), `"alice"`) {
		t.Errorf("status: %q, %v", b, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "agents/bob/inbox/new"), []byte("hello\n"), 0); err != nil || !slices.Equal(h.seen(&h.sent), []string{"hello"}) {
		t.Errorf("a message through the mount: %v, %q", err, h.seen(&h.sent))
	}
	if got := c.run("mount", dir); got.status == 0 || !strings.Contains(got.err, "already") {
		t.Errorf("mounted twice: %+v", got)
	}
	c.ok("", "umount", dir)
	if got := c.run("umount", dir); got.status == 0 {
		t.Errorf("unmounted twice: %+v", got)
	}

	s, interrupt := c.start("mount", "--foreground", dir, "alice")
	status := filepath.Join(dir, "status")
	tick := time.NewTicker(5 * time.Millisecond) // the kernel tells nobody
	defer tick.Stop()
	for end := time.After(limit); ; {
		if _, err := os.Stat(status); err == nil {
			break
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("the mount does not come up: %s", s.b)
		}
	}
	if n := interrupt(); n != 0 {
		t.Errorf("an interrupted mount: exit status %d, %s", n, s.b)
	}
	if _, err := os.Stat(status); !os.IsNotExist(err) {
		t.Errorf("after the interrupt: %v, want that it is gone", err)
	}
}
