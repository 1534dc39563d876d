//go:build darwin || freebsd

package fuse

import (
	"syscall"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"agent9/fsys"
)

// local has the Linux numbers that mean something else, or nothing, here.
// Those up to 34 are the same everywhere.
var local = map[uint32]syscall.Errno{
	36:  syscall.ENAMETOOLONG,
	39:  syscall.ENOTEMPTY,
	95:  syscall.EOPNOTSUPP,
	110: syscall.ETIMEDOUT,
	121: syscall.EIO, // EREMOTEIO
	122: syscall.EDQUOT,
	125: syscall.ECANCELED,
}

// manyInodes: see the file for Linux.
const manyInodes = false

// retriesStale: see errno_linux.go.
const retriesStale = false

func errno(c fsys.Code) gofuse.Status {
	if e, ok := local[c.Errno()]; ok {
		return gofuse.Status(e)
	}
	return gofuse.Status(c.Errno())
}
