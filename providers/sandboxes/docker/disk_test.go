//go:build linux

package docker_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agent9/conformance/engine"
	"agent9/fsys"
	"agent9/providers/sandboxes"
)

// onDisk returns an engine whose data is on a file system of its own.
func onDisk(t *testing.T, size string, options string, mkfs ...string) *engine.Engine {
	t.Helper()
	dir := t.TempDir()
	disk, data := filepath.Join(dir, "disk"), filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{
		{"truncate", "-s", size, disk}, append(mkfs, disk), {"mount", "-o", options, disk, data},
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("no such file system to be had: %q: %v: %s", command, err, out)
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", data).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return engine.Start(t, "--data-root", data)
}

// TestQuota uses xfs with project quotas: the file system itself bounds a
// sandbox.
func TestQuota(t *testing.T) {
	t.Parallel()
	b := on(t, onDisk(t, "512M", "loop,pquota", "mkfs.xfs", "-q"))
	box := b.box(sandboxes.Spec{Limits: sandboxes.Limits{Disk: 4 << 20}})
	out, _ := b.sh(box, "for i in 1 2 3 4 5 6 7 8; do head -c 1000000 /dev/zero >$i || break; done 2>&1")
	if !strings.Contains(out, "No space left") {
		t.Errorf("twice the limit, in small files: %q", out)
	}
	b.sh(box, "rm 1")
	if out, _ := b.sh(box, "echo room >x && cat x"); out != "room" {
		t.Errorf("after something is removed: %q", out)
	}
}

// TestFullDisk fills the engine's disk from inside: who writes is told so, and
// who makes a sandbox then.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	b := on(t, onDisk(t, "64M", "loop", "mkfs.ext4", "-q", "-m", "0"))
	box := b.box(sandboxes.Spec{})
	if out, exit := b.sh(box, "cat /dev/zero >x"); !strings.Contains(out, "No space left") || exit.Code != 1 {
		t.Errorf("the disk is full: %q, %+v", out, exit)
	}
	_, err := b.Create(t.Context(), sandboxes.Spec{Skills: []sandboxes.File{{Name: "s", Data: make([]byte, 1<<20)}}}, silent)
	if fsys.CodeOf(err) != fsys.NoSpace {
		t.Errorf("Create: %v, want %v", err, fsys.NoSpace)
	}
	if out, _ := b.sh(box, "rm x; echo room >y && cat y"); out != "room" {
		t.Errorf("after something is removed: %q", out)
	}
	if found, err := b.List(t.Context()); err != nil || len(found) != 1 {
		t.Errorf("List: %+v, %v", found, err)
	}
}
