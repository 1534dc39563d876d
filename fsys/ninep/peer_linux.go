package ninep

import "golang.org/x/sys/unix"

// credentials returns the user id of the process at the other end of fd.
func credentials(fd int) (int, error) {
	c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return -1, err
	}
	return int(c.Uid), nil
}
