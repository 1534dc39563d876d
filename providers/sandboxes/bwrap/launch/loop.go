//go:build linux

package launch

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Hold waits until nobody else has the image f, and keeps it until f, and each
// loop device that was made of f, is closed: of an image that is mounted twice
// nothing is left.
func Hold(f *os.File) error {
	for {
		err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLKW, &unix.Flock_t{Type: unix.F_WRLCK})
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// attach makes a loop device of an image, which is gone when nothing uses it:
// the caller, or what it mounts.
func attach(path string) (image, device int, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return -1, -1, err
	}
	if err := Hold(f); err != nil {
		return -1, -1, err
	}
	control, err := unix.Open("/dev/loop-control", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, -1, err
	}
	defer unix.Close(control)
	config := unix.LoopConfig{Fd: uint32(f.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
	for {
		n, err := unix.IoctlRetInt(control, unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return -1, -1, err
		}
		device, err := unix.Open("/dev/loop"+strconv.Itoa(n), unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, -1, err
		}
		err = unix.IoctlLoopConfigure(device, &config)
		if err == nil {
			image, err = unix.Dup(int(f.Fd())) // f is closed with its last use
			return image, device, err
		}
		unix.Close(device)
		if !errors.Is(err, unix.EBUSY) { // somebody was faster
			return -1, -1, err
		}
	}
}
