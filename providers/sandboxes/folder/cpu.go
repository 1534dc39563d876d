//go:build unix

package folder

import (
	"os"
	"time"
)

// CPU is what process pid, and the descendants that were waited for, have used.
// end is nil while it runs: then that is known under Linux only.
func CPU(pid int, end *os.ProcessState) time.Duration {
	if end == nil {
		return cpu(pid)
	}
	return end.UserTime() + end.SystemTime()
}
