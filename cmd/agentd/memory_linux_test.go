package main

import (
	"agent9/conformance/daemon"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// freesVar makes a daemon of the tests give all the memory that it does not
// need back to the system when it gets the signal freeMemory. Without that Go
// does so in its own time, which is minutes.
const (
	freesVar   = "AGENT9_TEST_FREES"
	freeMemory = syscall.SIGUSR2
)

func freeOnSignal() {
	if os.Getenv(freesVar) == "" {
		return
	}
	os.Unsetenv(freesVar)
	c := make(chan os.Signal, 1)
	signal.Notify(c, freeMemory)
	go func() { // ends with the daemon
		for range c {
			debug.FreeOSMemory()
		}
	}()
}

// free makes the daemon do so, and waits until its collector has.
func free(d *daemon.Daemon, root *daemon.Tree) {
	d.T.Helper()
	asked := float64(time.Now().UnixNano()) / 1e9
	d.Signal(freeMemory)
	daemon.Eventually(d.T, "the daemon collects", func() bool {
		_, at, _ := strings.Cut(root.Read("metrics"), "\ngo_memstats_last_gc_time_seconds ")
		at, _, _ = strings.Cut(at, "\n")
		last, err := strconv.ParseFloat(at, 64)
		return err == nil && last >= asked
	})
}
