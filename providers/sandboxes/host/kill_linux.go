package host

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// killWithVar kills every process that began with this variable in its
// environment. All are stopped first, until there are no new ones: what is
// stopped cannot fork.
func killWithVar(variable string) {
	stopped := map[int]bool{}
	for more := true; more; {
		more = false
		for _, pid := range withVar(variable) {
			if !stopped[pid] {
				more, stopped[pid] = true, true
				unix.Kill(pid, unix.SIGSTOP)
			}
		}
	}
	for pid := range stopped {
		unix.Kill(pid, unix.SIGKILL)
	}
}

// withVar returns the processes that began with variable.
func withVar(variable string) []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var pids []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		env, err := os.ReadFile("/proc/" + name + "/environ")
		if err == nil && bytes.Contains(append([]byte{0}, env...), []byte("\x00"+variable+"\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids
}
