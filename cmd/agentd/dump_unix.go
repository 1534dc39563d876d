//go:build unix && !linux

package main

import "syscall"

// noDump makes the system write no core file of this process.
func noDump() { syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}) }
