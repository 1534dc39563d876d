package box

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	getTermios   = unix.TCGETS
	inputWaiting = unix.TIOCINQ
	rssUnit      = 1 << 10 // of getrusage(2)
)

// oomKills is how many processes of this sandbox the kernel has ended for want
// of memory; ok is false if it is not to be seen from inside.
func oomKills() (count int64, ok bool) {
	for _, file := range []string{"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"} {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range bytes.Lines(text) {
			if n, ok := bytes.CutPrefix(line, []byte("oom_kill ")); ok {
				count, err := strconv.ParseInt(string(bytes.TrimSpace(n)), 10, 64)
				return count, err == nil
			}
		}
	}
	return 0, false
}

// process is what /proc says of one.
type process struct{ pid, parent, group, session int }

// processes returns all that are alive.
func processes() []process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var all []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		// The name, in parentheses, may have anything in it.
		f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(f) < 4 || f[0][0] == 'Z' || f[0][0] == 'X' {
			continue
		}
		p := process{pid: pid}
		p.parent, _ = strconv.Atoi(string(f[1]))
		p.group, _ = strconv.Atoi(string(f[2]))
		p.session, _ = strconv.Atoi(string(f[3]))
		all = append(all, p)
	}
	return all
}

// hasMark reports whether the process was begun with mark in its environment.
func hasMark(pid int, mark string) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	return err == nil && (bytes.HasPrefix(env, []byte(mark)) || bytes.Contains(env, []byte("\x00"+mark)))
}

// harden makes this process safe from those that it will begin: they cannot
// trace it, and their orphans become its children.
func harden() {
	unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// victims are the processes that are begun between begin and end: the kernel
// ends them first when memory is short. They inherit that from this process,
// which is a likelier victim meanwhile, but never than one that is larger.
type victims struct{ score *os.File }

// newVictims is called before harden, after which the file cannot be opened.
func newVictims() *victims {
	f, err := os.OpenFile("/proc/self/oom_score_adj", os.O_WRONLY, 0)
	if err != nil {
		return &victims{} // there is no /proc; all are equal then
	}
	return &victims{f}
}

func (v *victims) begin() { v.set("1000") }
func (v *victims) end()   { v.set("0") }

func (v *victims) set(score string) {
	if v.score != nil {
		v.score.WriteAt([]byte(score), 0)
	}
}

func dupCloexec(fd int) (int, error) {
	return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
}

func dupTo(fd, to int) error { return unix.Dup3(fd, to, 0) }
