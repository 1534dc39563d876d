//go:build unix

package box

import (
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"

	"agent9/providers/sandboxes"
)

// streams are the two ends of what a command is connected to.
type streams struct {
	terminal *os.File // the outer end, if there is one
	stdin    *os.File // nil: there is none
	outs     map[int]*os.File
	theirs   []*os.File // the inner ends: 0, 1, 2
	reading  sync.WaitGroup
}

func openFiles(order sandboxes.Order) (*streams, error) {
	f := &streams{outs: map[int]*os.File{}}
	var err error
	if order.TTY != nil {
		err = f.openTerminal(*order.TTY)
	} else {
		err = f.openPipes(order.Stdin)
	}
	if err != nil {
		f.begun(false)
		return nil, err
	}
	return f, nil
}

func (f *streams) openTerminal(size sandboxes.Size) error {
	opened, inner, err := pty.Open()
	if err != nil {
		return err
	}
	f.theirs = []*os.File{inner, inner, inner}
	outer, err := polled(opened)
	if err != nil {
		return err
	}
	f.terminal, f.stdin, f.outs[1] = outer, outer, outer
	return setSize(outer, size)
}

func (f *streams) openPipes(stdin bool) error {
	if !stdin {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return err
		}
		f.theirs = append(f.theirs, null)
	} else {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		f.stdin, f.theirs = w, append(f.theirs, r)
	}
	for fd := 1; fd <= 2; fd++ {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		f.outs[fd], f.theirs = r, append(f.theirs, w)
	}
	return nil
}

// inside returns what the process gets as 0, 1 and 2. Fd makes them block for
// it, as programs expect.
func (f *streams) inside() []uintptr {
	fds := make([]uintptr, len(f.theirs))
	for i, t := range f.theirs {
		fds[i] = t.Fd()
	}
	return fds
}

// session gives every command a session of its own.
func (f *streams) session() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Setctty: f.terminal != nil, Ctty: 0}
}

// begun closes what the process has now, or everything if there is none.
func (f *streams) begun(ok bool) {
	for _, t := range f.theirs {
		t.Close() // again and again, if it is a terminal
	}
	if ok {
		return
	}
	if f.stdin != nil {
		f.stdin.Close()
	}
	for _, r := range f.outs {
		r.Close()
	}
}

// read begins to copy what the command writes to out.
func (f *streams) read(out *output) {
	for fd, r := range f.outs {
		f.reading.Go(func() { copyOut(out, fd, r) })
	}
}

// copyOut copies until the end, or until drain has set a deadline that has
// passed and what was written before is copied.
func copyOut(out *output, fd int, r *os.File) {
	buf := make([]byte, sandboxes.MaxFrame)
	for {
		n, err := r.Read(buf)
		out.write(fd, buf[:n])
		if os.IsTimeout(err) {
			copyWaiting(out, fd, r, buf)
			return
		}
		if err != nil {
			return
		}
	}
}

// copyWaiting copies what is in r now.
func copyWaiting(out *output, fd int, r *os.File, buf []byte) {
	raw, err := r.SyscallConn()
	if err != nil {
		return
	}
	left := -1
	raw.Control(func(fd uintptr) { left = waiting(fd) })
	for left > 0 {
		var n int
		raw.Control(func(fd uintptr) { n, err = syscall.Read(int(fd), buf[:min(left, len(buf))]) })
		if err != nil || n <= 0 {
			return
		}
		out.write(fd, buf[:n])
		left -= n
	}
}

// afterEnd is how long what a command left behind is listened to.
const afterEnd = 50 * time.Millisecond

// drain waits until all is copied that was written before the command ended.
// What is still open for writing then is given to discard.
func (f *streams) drain(discard func(*os.File)) {
	for _, r := range f.outs {
		r.SetReadDeadline(time.Now().Add(afterEnd))
	}
	f.reading.Wait()
	if f.stdin != nil && f.terminal == nil {
		f.stdin.Close()
	}
	for _, r := range f.outs {
		r.SetReadDeadline(time.Time{})
		discard(r)
	}
}
