//go:build unix && !linux

package proctree

import "syscall"

func Owner(string) string { return "run-" }

func Attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// KillAll kills what is left of the group that pid led, and returns 1 if there
// was something.
func KillAll(pid int, _ string) int {
	if syscall.Kill(-pid, syscall.SIGKILL) != nil {
		return 0
	}
	return 1
}

func Kill(string) {}
