//go:build unix

package box

import (
	"os"
	"syscall"
	"time"
)

// signalTree sends sig to the command's processes: those of its session, all
// their descendants, and those that are known by their mark.
func (c *command) signalTree(sig syscall.Signal) {
	c.mu.Lock()
	root := c.pid
	c.mu.Unlock()
	mark := envMark + "=" + c.all.mark + "." + c.number + "\x00"
	c.all.signal(sig, func(p process) bool {
		return root != 0 && (p.pid == root || p.session == root || p.group == root) || hasMark(p.pid, mark)
	})
}

// signal sends sig to the processes that are the ones, and to their
// descendants.
func (c *commands) signal(sig syscall.Signal, one func(process) bool) {
	c.looking.Lock()
	defer c.looking.Unlock()
	signalAll(func() map[int]bool { return family(one) }, sig)
}

// patience is how long signalAll goes on to find what it has killed.
const patience = 5 * time.Second

// signalAll sends sig to all that find finds. After SIGKILL it finds none.
func signalAll(find func() map[int]bool, sig syscall.Signal) {
	if sig != syscall.SIGKILL {
		for pid := range find() {
			syscall.Kill(pid, sig)
			syscall.Kill(pid, syscall.SIGCONT)
		}
		return
	}
	// A process that was stopped in fork(2) may still come out of that with a
	// child, so that all is over only when none is left.
	for end := time.Now().Add(patience); time.Now().Before(end); {
		stopped := stop(find)
		if len(stopped) == 0 {
			return
		}
		for pid := range stopped {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// stop stops all that find finds, until there are no new ones: what is stopped
// begins no other fork.
func stop(find func() map[int]bool) map[int]bool {
	stopped := map[int]bool{}
	for more := true; more; {
		more = false
		for pid := range find() {
			if !stopped[pid] {
				more = true
				stopped[pid] = true
				syscall.Kill(pid, syscall.SIGSTOP)
			}
		}
	}
	return stopped
}

// family returns the processes that are the ones, with all their descendants;
// never this process, nor the first.
func family(one func(process) bool) map[int]bool {
	self := os.Getpid()
	all := processes()
	in := map[int]bool{}
	for _, p := range all {
		if p.pid != self && p.pid != 1 && one(p) {
			in[p.pid] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if in[p.parent] && !in[p.pid] && p.pid != self {
				in[p.pid] = true
				grown = true
			}
		}
	}
	return in
}
