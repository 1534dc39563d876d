//go:build unix && !linux

package box

import (
	"bytes"
	"os/exec"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	getTermios   = unix.TIOCGETA
	inputWaiting = 0x4004667f // FIONREAD
)

func oomKills() (count int64, ok bool) { return 0, false }

// process is what ps says of one.
type process struct{ pid, parent, group, session int }

// processes returns all that are alive.
func processes() []process {
	text, err := exec.Command("ps", "-axo", "pid=,ppid=,pgid=").Output()
	if err != nil {
		return nil
	}
	var all []process
	for line := range bytes.Lines(text) {
		var n [3]int
		f := bytes.Fields(line)
		if len(f) < len(n) {
			continue
		}
		for i := range n {
			n[i], _ = strconv.Atoi(string(f[i]))
		}
		all = append(all, process{pid: n[0], parent: n[1], group: n[2]})
	}
	return all
}

// hasMark is not to be known here.
func hasMark(int, string) bool { return false }

// harden does nothing: only Linux has what it takes.
func harden() {}

// victims are all alike here.
type victims struct{}

func newVictims() *victims { return nil }
func (*victims) begin()    {}
func (*victims) end()      {}

func dupCloexec(fd int) (int, error) {
	return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
}

func dupTo(fd, to int) error { return unix.Dup2(fd, to) }
