//go:build unix

package main

import "syscall"

// privateUmask makes what is created until restore is called accessible to
// this user only. It holds for the whole process.
func privateUmask() (restore func()) {
	old := syscall.Umask(0o077)
	return func() { syscall.Umask(old) }
}
