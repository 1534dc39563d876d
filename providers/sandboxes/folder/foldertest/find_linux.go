package foldertest

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// A process is one that goes on, by its pidfd.
type process struct {
	fd   int
	line string
}

// find returns the processes that have word among their arguments.
func find(t *testing.T, word string) []process {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []process
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(line, []byte("\x00"+word+"\x00")) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, process{fd, string(bytes.ReplaceAll(line, []byte{0}, []byte(" ")))})
	}
	return found
}

// gone checks that the process ends by itself.
func (p process) gone(t *testing.T) {
	t.Helper()
	defer unix.Close(p.fd)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}, 20_000)
		if err == unix.EINTR {
			continue
		}
		if n != 1 || err != nil {
			t.Errorf("%s goes on", p.line)
			unix.PidfdSendSignal(p.fd, unix.SIGKILL, nil, 0)
		}
		return
	}
}

func (p process) forget() { unix.Close(p.fd) }
