//go:build linux

package daemon

import (
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/creack/pty"
)

// A typist is somebody at a terminal.
type Typist struct {
	*Chatter
	Screen *os.File
}

func AtTerminal(t *testing.T, rows, cols uint16, cmd *exec.Cmd) *Typist {
	t.Helper()
	p := &Typist{Chatter: &Chatter{T: t, Cmd: cmd}}
	f, err := pty.StartWithSize(p.Cmd, &pty.Winsize{Rows: rows, Cols: cols})
	if err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Dup(int(f.Fd()))
	if err == nil {
		err = syscall.SetNonblock(fd, true) // so that it can be closed while it is read
	}
	if f.Close(); err != nil {
		t.Fatal(err)
	}
	f = os.NewFile(uintptr(fd), "terminal")
	p.In, p.Screen = f, f
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		io.Copy(p, f) // until the terminal hangs up
	}()
	t.Cleanup(func() {
		p.Cmd.Process.Kill()
		f.Close()
		<-shown
	})
	return p
}

func (p *Typist) Key(keys string) {
	p.T.Helper()
	if _, err := io.WriteString(p.In, keys); err != nil {
		p.T.Fatal(err)
	}
}
