package ninep

import "net"

// PeerUID returns the user at the other end of a Unix socket, or -1.
func PeerUID(conn net.Conn) int {
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return -1
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return -1
	}
	uid := -1
	err = raw.Control(func(fd uintptr) {
		if n, err := credentials(int(fd)); err == nil {
			uid = n
		}
	})
	if err != nil {
		return -1
	}
	return uid
}
