//go:build !386 && !arm && !mips && !mipsle

package fuse

import (
	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"agent9/fsys"
)

// manyInodes says that the kernel accepts it if a name that it knows has become
// another inode.
const manyInodes = true

// retriesStale says that the kernel, upon ESTALE, looks up every name of the
// path again and tries once more.
const retriesStale = true

func errno(c fsys.Code) gofuse.Status { return gofuse.Status(c.Errno()) }
