package main

import (
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
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
