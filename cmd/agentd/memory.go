package main

import (
	"os"
	"runtime/debug"
	"syscall"
)

// spare is how many bytes of garbage there may be before the collector of
// garbage begins, and half of what there may be when it has ended. Without it
// a daemon with little in memory would collect some ten times a second while
// 50 answers come, and pieces of them would wait for that.
const spare = 32 << 20

// newSpare returns memory that is never touched, so that the system gives none
// for it, but that the collector counts: it begins when there is as much
// garbage as there is memory in use. Keep it alive as long as that is to hold.
func newSpare() []byte { return make([]byte, spare) }

// boundMemory has the collector keep to what is promised for so many bytes that
// clients may make the daemon keep: twice that and 64 MiB. GOMEMLIMIT goes before.
func boundMemory(clients int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(2*clients + 64<<20)
	}
}

// mostConns is how many connections there may be of all but the operator: the
// last quarter of the files that this process may have open is for the
// operator's, and for the daemon's own.
func mostConns() int {
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) != nil {
		return 0
	}
	return int(min(uint64(r.Cur), 1<<30) / 4 * 3)
}
