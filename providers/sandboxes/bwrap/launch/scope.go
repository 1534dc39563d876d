//go:build linux

package launch

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Scopes reports whether this kernel can keep what runs in a sandbox from the
// abstract Unix sockets of others, which belong to a network namespace.
func Scopes() bool {
	const since = 6 // the version of Landlock: Linux 6.12
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	return errno == 0 && version >= since
}

// scope keeps this thread, and the program that it becomes, from the abstract
// Unix sockets of all that does not come from that program. The thread must
// not be able to get new rights, as in a sandbox of bubblewrap.
func scope() error {
	attr := unix.LandlockRulesetAttr{Scoped: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET}
	size := unsafe.Offsetof(attr.Scoped) + unsafe.Sizeof(attr.Scoped)
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno == 0 {
		defer unix.Close(int(fd))
		_, _, errno = unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0)
	}
	if errno != 0 {
		return fmt.Errorf("denying the machine's abstract sockets: %w", errno)
	}
	return nil
}
