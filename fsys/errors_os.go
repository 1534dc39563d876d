//go:build !plan9

package fsys

import (
	"errors"
	"syscall"
)

// osErrors are the errors of this system that have a Code of their own;
// the errors of io/fs cover the others.
var osErrors = []struct {
	errno syscall.Errno
	code  Code
}{
	{syscall.ENOTEMPTY, NotEmpty}, // which errors.Is takes for fs.ErrExist
	{syscall.ENOSPC, NoSpace},
	{syscall.EDQUOT, NoSpace},
	{syscall.EISDIR, IsDir},
	{syscall.ENOTDIR, NotDir},
	{syscall.EXDEV, CrossDir},
	{syscall.ENAMETOOLONG, NameTooLong},
	{syscall.EINVAL, Invalid},
	{syscall.EFBIG, TooLarge},
	{syscall.EBUSY, Busy},
	{syscall.ETXTBSY, Busy},
	{syscall.EROFS, Permission},
	{syscall.ELOOP, Invalid},
	{syscall.EINTR, Canceled},
	{syscall.ETIMEDOUT, Timeout},
}

func codeOfOS(err error) (Code, bool) {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		for _, e := range osErrors {
			if e.errno == errno {
				return e.code, true
			}
		}
	}
	return Internal, false
}
