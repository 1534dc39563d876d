//go:build unix

package box

import (
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"agent9/fsys"
)

func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return strconv.Itoa(int(s))
}

// parseSignal takes a signal's name, with or without SIG, or its number.
func parseSignal(name string) (syscall.Signal, error) {
	upper := strings.ToUpper(name)
	if s := unix.SignalNum("SIG" + strings.TrimPrefix(upper, "SIG")); s != 0 {
		return s, nil
	}
	if n, err := strconv.Atoi(name); err == nil && n > 0 && n < 65 {
		return syscall.Signal(n), nil
	}
	return 0, fsys.E(fsys.Invalid, strconv.Quote(name)+" is no signal")
}
