//go:build unix

package main

import (
	"errors"
	"syscall"
)

// refused reports whether err says that nobody listens at an address.
func refused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
