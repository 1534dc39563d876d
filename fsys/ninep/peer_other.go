//go:build !linux && !darwin && !freebsd

package ninep

import "agent9/fsys"

func credentials(int) (int, error) { return -1, fsys.Unsupported }
