package main

import (
	"errors"
	"net"
)

// refused reports whether err may say that nobody listens at an address: here
// a refusal has a text only.
func refused(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial" && !dial.Timeout()
}
