//go:build !((linux && !386 && !arm && !mips && !mipsle) || darwin || freebsd)

package fuse

import (
	"context"
	"runtime"

	"agent9/fsys"
)

var errNoFuse = fsys.E(fsys.Unsupported, "this build has no FUSE ("+runtime.GOOS+"/"+runtime.GOARCH+"); use a 9P client")

// Mounted is a tree that is shown.
type Mounted struct{}

// Mount always fails on this system.
func Mount(context.Context, fsys.Node, string, Options) (*Mounted, error) { return nil, errNoFuse }

func (*Mounted) Unmount() error { return errNoFuse }

func (*Mounted) Wait() {}

func (*Mounted) Lost() {}

func (*Mounted) Return(fsys.Node) {}

// Unmount always fails on this system.
func Unmount(string) error { return errNoFuse }
