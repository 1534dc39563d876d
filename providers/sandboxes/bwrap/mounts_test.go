//go:build linux

package bwrap_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"agent9/providers/sandboxes"
	"agent9/providers/sandboxes/folder/foldertest"
)

// What is unmounted on the machine ends, though a sandbox that began before
// still runs.
func TestKeepsNoMount(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can leave mounts behind")
	}
	p := provider(t)
	server, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skip(err)
	}
	defer unix.Close(server)
	dir := filepath.Join(t.TempDir(), "a mount")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	err = unix.Mount("nobody answers", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", server))
	if err != nil {
		t.Skip(err)
	}
	mounted := true
	defer func() {
		if mounted {
			unix.Unmount(dir, unix.MNT_DETACH)
		}
	}()
	box := foldertest.Start(t, p, sandboxes.Spec{})
	if got, _ := foldertest.Sh(t, box, "echo runs"); got != "runs" {
		t.Fatal(got)
	}
	if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	mounted = false
	again(t, func() error {
		_, err := unix.Read(server, make([]byte, 1<<17))
		if !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("the server still has a mount: %v", err)
		}
		return nil
	})
	if got, _ := foldertest.Sh(t, box, "echo goes on"); got != "goes on" {
		t.Error(got)
	}
}
