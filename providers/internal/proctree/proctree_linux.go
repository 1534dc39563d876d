package proctree

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Owner begins the marks of all commands of the daemon on a data directory.
func Owner(data string) string {
	if abs, err := filepath.Abs(data); err == nil {
		data = abs
	}
	sum := sha256.Sum256([]byte(data))
	return hex.EncodeToString(sum[:8]) + "-"
}

// Attributes are those of a command that leads a session of its own, and ends
// with the daemon.
func Attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// KillAll kills what is left of the session that pid led, and all processes
// that have the mark, and returns how many there were.
func KillAll(pid int, mark string) int {
	return killEach(func() []int { return append(group(pid), withVar(mark, pid)...) })
}

// Kill kills every process whose mark begins with mark.
func Kill(mark string) {
	killEach(func() []int { return withVar(mark, 0) })
}

// death is how long killEach waits until all that it killed has ended.
const death = 2 * time.Second

// killEach kills what find finds until there is nothing that it has not seen,
// as what is stopped starts nothing more; waits until all of it has ended; and
// returns how many that were.
func killEach(find func() []int) int {
	ends := map[int]int{} // by process, what tells of its end
	for fresh := true; fresh; {
		fresh = false
		for _, pid := range find() {
			if _, seen := ends[pid]; seen {
				continue
			}
			fresh = true
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				fd = -1
			}
			ends[pid] = fd
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	deadline := time.Now().Add(death)
	for _, fd := range ends {
		if fd >= 0 {
			awaitEnd(fd, deadline)
			unix.Close(fd)
		}
	}
	return len(ends)
}

// awaitEnd waits until the process of a pidfd has ended.
func awaitEnd(fd int, deadline time.Time) {
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return
		}
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		if err != unix.EINTR {
			return
		}
	}
}

// group stops and returns the processes of a group that have not ended.
func group(pgid int) (pids []int) {
	if syscall.Kill(-pgid, 0) != nil {
		return nil
	}
	for _, pid := range processes(pgid) {
		if state, pg, ok := stat(pid); ok && pg == pgid && alive(state) && syscall.Kill(pid, syscall.SIGSTOP) == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// withVar stops and returns every process whose variable AGENT9_RUN begins with
// mark, of those that may have been started after the process since.
func withVar(mark string, since int) (pids []int) {
	want := []byte(Var + "=" + mark)
	for _, pid := range processes(since) {
		env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		if err != nil || !hasVar(env, want) {
			continue
		}
		if state, _, ok := stat(pid); ok && alive(state) && syscall.Kill(pid, syscall.SIGSTOP) == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func alive(state byte) bool { return state != 'Z' && state != 'X' }

func hasVar(env, want []byte) bool {
	return bytes.HasPrefix(env, want) || bytes.Contains(env, append([]byte{0}, want...))
}

// processes lists those that may have been started after the process since:
// all, if process numbers have begun anew since then.
func processes(since int) (pids []int) {
	if lastPID() < since {
		since = 0
	}
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid >= since {
			pids = append(pids, pid)
		}
	}
	return pids
}

// lastPID is the number of the process that was started last; 0 if unknown.
func lastPID() int {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b))
	n, _ := strconv.Atoi(f[len(f)-1])
	return n
}

// stat returns a process's state and its group.
func stat(pid int) (state byte, pgid int, ok bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0, false
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 3 {
		return 0, 0, false
	}
	pgid, err = strconv.Atoi(f[2])
	return f[0][0], pgid, err == nil
}
