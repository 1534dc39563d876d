//go:build linux

package bwrap

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"agent9/providers/sandboxes"
	"agent9/providers/sandboxes/bwrap/cgroup"
	"agent9/providers/sandboxes/folder"
)

// run is one of bubblewrap's: it watches the first process of the sandbox,
// with which all others end.
type run struct {
	group *cgroup.Group
	cmd   *exec.Cmd
	files files // of the command
	// status is what bubblewrap says of itself, the process first.
	status *os.File
	known  chan struct{} // closed when first is set, or never will be

	mu       sync.Mutex
	first    int // pidfd of the sandbox's first process; 0: none
	firstPID int
}

var _ folder.Run = (*run)(nil)

// report makes the pipe of bubblewrap's status and returns its number there.
func (r *run) report() (string, error) {
	out, in, err := os.Pipe()
	if err != nil {
		return "", err
	}
	r.status = out
	return r.files.put(in), nil
}

// pipe gives the command both ends of a pipe.
func (r *run) pipe() (in, out int, err error) {
	from, to, err := os.Pipe()
	if err != nil {
		return 0, 0, err
	}
	r.files.put(from)
	r.files.put(to)
	n := len(r.files.list)
	return n + 1, n + 2, nil
}

// Command starts bubblewrap; see [folder.Run].
func (r *run) Command() *exec.Cmd { return r.cmd }

// Started reads what bubblewrap says until it ends.
func (r *run) Started() {
	r.release()
	monitor := r.cmd.Process.Pid
	go func() {
		defer r.status.Close()
		said := json.NewDecoder(r.status)
		var begun struct {
			Child int `json:"child-pid"`
		}
		if said.Decode(&begun) == nil {
			r.know(begun.Child, monitor)
		}
		close(r.known)
		for said.Decode(&struct{}{}) == nil {
		}
	}()
}

// know notes the sandbox's first process, a child of monitor.
func (r *run) know(pid, monitor int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // it has ended
	}
	// As long as it has this parent the number is still its own.
	if parent(pid) != monitor {
		unix.Close(fd)
		return
	}
	r.mu.Lock()
	r.first, r.firstPID = fd, pid
	r.mu.Unlock()
}

// parent returns the number of the parent of a process; 0 if it has ended.
func parent(pid int) int {
	p, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, rest, _ := strings.Cut(string(p[bytes.LastIndexByte(p, ')')+1:]), " ")
	f := strings.Fields(rest)
	if len(f) < 2 {
		return 0
	}
	n, _ := strconv.Atoi(f[1])
	return n
}

// release closes the files that only the command needs.
func (r *run) release() {
	for _, f := range r.files.list {
		f.Close()
	}
	r.files.list = nil
}

// Kill ends the sandbox; see [folder.Run]. All processes end with the first.
func (r *run) Kill() {
	<-r.known
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first != 0 && unix.PidfdSendSignal(r.first, unix.SIGKILL, nil, 0) == nil {
		cgroup.Exited(r.first)
	}
	r.group.Kill()
}

// Usage is what the group has used, and what is known without one.
func (r *run) Usage(end *os.ProcessState) sandboxes.Usage {
	used := usage(r.group)
	if used.CPU == 0 {
		r.mu.Lock()
		pid := r.firstPID
		r.mu.Unlock()
		used.CPU = folder.CPU(pid, end)
	}
	return used
}

// Close removes the group.
func (r *run) Close() {
	r.release()
	if r.cmd == nil || r.cmd.Process == nil {
		if r.status != nil {
			r.status.Close()
		}
	}
	r.mu.Lock()
	if r.first != 0 {
		unix.Close(r.first)
		r.first = 0
	}
	r.mu.Unlock()
	if r.group != nil {
		r.group.Remove()
	}
}

// files are what a command inherits beyond 0, 1 and 2.
type files struct{ list []*os.File }

// put adds f and returns its number in the command.
func (s *files) put(f *os.File) string {
	s.list = append(s.list, f)
	return strconv.Itoa(2 + len(s.list))
}

// add adds a file in memory.
func (s *files) add(name string, data []byte) (string, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return "", err
	}
	f := os.NewFile(uintptr(fd), name)
	number := s.put(f)
	if _, err := f.Write(data); err != nil {
		return "", err
	}
	_, err = f.Seek(0, io.SeekStart)
	return number, err
}
