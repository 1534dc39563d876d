//go:build !386 && !arm && !mips && !mipsle

package fuse

import (
	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"agent9/fsys"
)

// manyInodes says that the kernel accepts it if a name that it knows has become
// another inode.
const manyInodes = true

func errno(c fsys.Code) gofuse.Status { return gofuse.Status(c.Errno()) }
