//go:build unix

package box

import (
	"cmp"
	"os"

	"golang.org/x/sys/unix"

	"agent9/fsys"
	"agent9/providers/sandboxes"
)

func (c *command) resize(size sandboxes.Size) error {
	<-c.started
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tty == nil {
		return fsys.E(fsys.Invalid, "the command has no terminal")
	}
	return fsys.Wrap(fsys.Unavailable, "the terminal", setSize(c.tty, size))
}

// polled replaces f, which package pty leaves as a file that blocks a thread and
// knows no deadlines.
func polled(f *os.File) (*os.File, error) {
	defer f.Close()
	fd, err := dupCloexec(int(f.Fd()))
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

func setSize(tty *os.File, size sandboxes.Size) error {
	raw, err := tty.SyscallConn()
	if err != nil {
		return err
	}
	cerr := raw.Control(func(fd uintptr) {
		err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
	})
	return cmp.Or(cerr, err)
}

// endOfFile is what a terminal's line ends with when there is no more: Ctrl-D.
var endOfFile = []byte{4}

// end is the end of the input: a pipe is closed, a terminal told.
func (in *input) end() {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.file == nil:
	case in.tty && canonical(in.file):
		in.file.Write(endOfFile)
	case in.tty: // every byte is the program's
	default:
		in.file.Close()
	}
}

// canonical reports whether the terminal makes lines of its input.
func canonical(tty *os.File) bool {
	raw, err := tty.SyscallConn()
	if err != nil {
		return false
	}
	lines := false
	raw.Control(func(fd uintptr) {
		t, err := unix.IoctlGetTermios(int(fd), getTermios)
		lines = err == nil && t.Lflag&unix.ICANON != 0
	})
	return lines
}

// waiting is how many bytes can be read from fd now.
func waiting(fd uintptr) int {
	n, err := unix.IoctlGetInt(int(fd), inputWaiting)
	if err != nil {
		return 0
	}
	return n
}
