//go:build !386 && !arm && !mips && !mipsle

package fuse

import (
	gofuse "github.com/hanwen/go-fuse/v2/fuse"

	"agent9/fsys"
)

func errno(c fsys.Code) gofuse.Status { return gofuse.Status(c.Errno()) }
