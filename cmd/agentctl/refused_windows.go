package main

import (
	"errors"
	"syscall"
)

// refused reports whether err says that nobody listens at an address, which
// is WSAECONNREFUSED.
func refused(err error) bool { return errors.Is(err, syscall.Errno(10061)) }
