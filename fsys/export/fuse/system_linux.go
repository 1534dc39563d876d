//go:build !386 && !arm && !mips && !mipsle

package fuse

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"agent9/fsys"
)

var errNotMounted = errors.New("not mounted")

// detach unmounts dir, unless it is in use.
func detach(dir string) error { return unmount(dir, 0, "-u") }

// detachLazily takes dir out of sight, in use or not.
func detachLazily(dir string) error { return unmount(dir, unix.MNT_DETACH, "-uz") }

func unmount(dir string, flags int, option string) error {
	if ours, known := mountedAt(dir); known && !ours {
		return errNotMounted
	}
	err := unix.Unmount(dir, flags|unix.UMOUNT_NOFOLLOW)
	if err != unix.EPERM {
		return err
	}
	helper, err := fusermount()
	if err != nil {
		return err
	}
	cmd := exec.Command(helper, option, "--", dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.New(string(bytes.TrimSpace(out)))
	}
	return nil
}

// fusermount finds the program that mounts for users.
func fusermount() (path string, err error) {
	for _, name := range []string{"fusermount3", "fusermount"} {
		if path, err = exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("only root can mount without fusermount3: install fuse3")
}

// mountedAt reports whether a tree of this package is at dir, if that is known.
// It does not touch dir: who serves it may be gone.
func mountedAt(dir string) (ours, known bool) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false, false
	}
	for line := range strings.Lines(string(table)) {
		// 36 35 98:0 / /mnt rw,noatime shared:1 - type source options
		what, how, ok := strings.Cut(line, " - ")
		fields := strings.Fields(what)
		if ok && len(fields) > 4 && unescape.Replace(fields[4]) == dir {
			ours = strings.HasPrefix(how, "fuse.agent9 ") // the last one is on top
		}
	}
	return ours, true
}

var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// abort ends the connection to the kernel: the programs that use the mount get
// errors, and the server ends. It is tried in the two ways that there are, of
// which the first needs a file system that few containers have mounted, and the
// second needs root.
func abort(dir string, device uint64) {
	file := fmt.Sprintf("/sys/fs/fuse/connections/%d/abort", unix.Minor(device))
	if device != 0 && os.WriteFile(file, []byte("1"), 0) == nil {
		return
	}
	if ours, _ := mountedAt(dir); ours {
		unix.Unmount(dir, unix.MNT_FORCE|unix.UMOUNT_NOFOLLOW)
	}
}

// whyNot explains why a mount failed.
func whyNot(err error) error {
	const device = "/dev/fuse"
	user := os.Geteuid() != 0
	_, missing := os.Stat(device)
	_, noHelper := fusermount()
	switch {
	case errors.Is(missing, os.ErrNotExist):
		return fsys.E(fsys.Unavailable, "there is no "+device+
			": load the kernel's module (modprobe fuse), or give the container the device")
	case user && unix.Access(device, unix.R_OK|unix.W_OK) != nil:
		return fsys.E(fsys.Permission, device+" is not open to users here: chmod 666 "+device)
	case user && noHelper != nil:
		return fsys.Wrap(fsys.Permission, "cannot mount", noHelper)
	case !user && (noHelper != nil || errors.Is(err, unix.EPERM)):
		return fsys.E(fsys.Permission, "root may not mount here: a container needs CAP_SYS_ADMIN")
	}
	return fsys.E(fsys.Permission, "cannot mount: "+strings.TrimSpace(err.Error()))
}
