//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// detach keeps the terminal's signals away from cmd.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
