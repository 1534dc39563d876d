package folder

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// born is the boot, and in it the clock tick, in which pid began (proc(5)).
func born(pid int) string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	f := stat(pid)
	if len(f) < 20 || f[0] == "Z" {
		return ""
	}
	return strings.TrimSpace(string(boot)) + "/" + f[19]
}

// stat returns the fields of /proc/<pid>/stat after the name, the state first.
func stat(pid int) []string {
	p, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	s := string(p)
	return strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
}

// tick is the unit of the times in stat: USER_HZ, which is the same everywhere.
const tick = 10 * time.Millisecond

// cpu is what a process and those that it has waited for have used.
func cpu(pid int) time.Duration {
	f := stat(pid)
	if len(f) < 15 {
		return 0
	}
	var sum int64
	for _, ticks := range f[11:15] {
		n, _ := strconv.ParseInt(ticks, 10, 64)
		sum += n
	}
	return time.Duration(sum) * tick
}

// patience is how long a process that was killed may take to end.
const patience = 5 * time.Second

func kill(p Process) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return // it has ended
	}
	defer unix.Close(fd)
	if !p.Alive() { // what fd stands for is what was looked at, or has ended
		return
	}
	unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	wait := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if n, err := unix.Poll(wait, int(time.Until(end).Milliseconds())+1); n > 0 || err != unix.EINTR {
			return
		}
	}
}
