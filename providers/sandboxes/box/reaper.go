//go:build unix

package box

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// A Reaper starts processes and learns of their end.
type Reaper interface {
	// start starts a process and calls ended, once, when it has ended. It
	// returns before ended is called.
	start(path string, argv []string, attr *syscall.ProcAttr, ended func(syscall.WaitStatus, syscall.Rusage)) (pid int, err error)
	// adopted reports whether p is a child of this process that nobody but the
	// box can have begun.
	adopted(p process) bool
}

// Own waits for its own processes only: for a box that shares its process with
// others.
type Own struct{}

func (Own) start(path string, argv []string, attr *syscall.ProcAttr, ended func(syscall.WaitStatus, syscall.Rusage)) (int, error) {
	pid, err := syscall.ForkExec(path, argv, attr)
	if err != nil {
		return 0, err
	}
	go func() { // ends with the process
		var status syscall.WaitStatus
		var usage syscall.Rusage
		for {
			_, err := syscall.Wait4(pid, &status, 0, &usage)
			if err != syscall.EINTR {
				break
			}
		}
		ended(status, usage)
	}()
	return pid, nil
}

func (Own) adopted(process) bool { return false }

// All waits for every child of this process, also for those that it inherits,
// and needs no thread for each.
type All struct {
	// mu is held from before a process begins until it is in children, so that
	// one that ends at once is found there.
	mu       sync.Mutex
	children map[int]func(syscall.WaitStatus, syscall.Rusage)
	victims  *victims
}

// newAll returns the reaper of the process, of which there is one. It reaps
// until the process ends.
func newAll(v *victims) *All {
	a := &All{children: map[int]func(syscall.WaitStatus, syscall.Rusage){}, victims: v}
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	go func() { // ends with the process
		for range died {
			a.reap()
		}
	}()
	return a
}

func (a *All) start(path string, argv []string, attr *syscall.ProcAttr, ended func(syscall.WaitStatus, syscall.Rusage)) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.victims.begin()
	pid, err := syscall.ForkExec(path, argv, attr)
	a.victims.end()
	if err != nil {
		return 0, err
	}
	a.children[pid] = ended
	return pid, nil
}

func (a *All) adopted(p process) bool { return p.parent == os.Getpid() }

// reap takes note of every child that has ended.
func (a *All) reap() {
	for {
		var status syscall.WaitStatus
		var usage syscall.Rusage
		a.mu.Lock()
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, &usage)
		ended := a.children[pid]
		if pid > 0 {
			delete(a.children, pid)
		}
		a.mu.Unlock()
		switch {
		case err == syscall.EINTR:
		case err != nil || pid <= 0:
			return
		case ended != nil:
			ended(status, usage)
		}
	}
}
