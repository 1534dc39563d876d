//go:build darwin || freebsd

package ninep

import "golang.org/x/sys/unix"

// credentials returns the user id of the process at the other end of fd.
func credentials(fd int) (int, error) {
	c, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return -1, err
	}
	return int(c.Uid), nil
}
