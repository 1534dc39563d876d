//go:build unix

package folder

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"agent9/fsys"
)

// run is a Run that was started.
type run struct {
	Run
	lock    *os.File // of the workspace; may be nil
	grace   time.Duration
	cmd     *exec.Cmd
	words   tail // what it said on standard error
	sock    *net.UnixConn
	process Process
	began   time.Time
	once    sync.Once     // of end
	ended   chan struct{} // closed when every process is gone
}

// start starts the command, and tells s when it began and when it ended.
func (r *run) start(s *Sandbox) (net.Conn, error) {
	ours, theirs, err := socketpair()
	if err != nil {
		return nil, fsys.Wrap(fsys.Unavailable, "the connection to the sandbox", err)
	}
	r.sock = ours
	r.cmd = r.Command()
	r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = theirs, theirs, &r.words
	r.cmd.WaitDelay = time.Second // a process left behind may hold standard error open
	started := make(chan error)
	go r.wait(started, s)
	err = <-started
	theirs.Close()
	if err != nil {
		ours.Close()
		return nil, fsys.Wrap(fsys.Unavailable, "the sandbox could not be started", err)
	}
	return &conn{UnixConn: ours, run: r}, nil
}

// wait starts the command and waits for its end. It keeps its thread all the
// time: a program that is to die with its parent dies with the thread that
// made it.
func (r *run) wait(started chan<- error, s *Sandbox) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := r.cmd.Start()
	if err == nil {
		r.Started()
		r.began = time.Now()
		r.process = processOf(r.cmd.Process.Pid)
		s.began(r)
	}
	started <- err
	if err != nil {
		return
	}
	r.cmd.Wait()
	r.Kill()
	s.ended(r)
	close(r.ended)
}

// end ends the run: first by the end of its input, and by force if it goes on
// after the time of grace.
func (r *run) end() {
	r.once.Do(func() {
		r.sock.Close()
		if r.grace == 0 {
			r.Kill()
			return
		}
		go func() {
			timer := time.NewTimer(r.grace)
			defer timer.Stop()
			select {
			case <-r.ended:
			case <-timer.C:
				r.Kill()
			}
		}()
	})
}

// conn is the connection to the box. If the box was never heard of, reading
// says why.
type conn struct {
	*net.UnixConn
	run   *run
	heard atomic.Bool
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.UnixConn.Read(p)
	if n > 0 {
		c.heard.Store(true)
	}
	if err == nil || c.heard.Load() || !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		return n, err
	}
	c.run.end()
	<-c.run.ended
	return n, c.run.reason()
}

func (c *conn) Close() error {
	c.run.end()
	return nil
}

// reason says why the box could not be run.
func (r *run) reason() error {
	words := r.words.String()
	if words == "" {
		words = r.cmd.ProcessState.String()
	}
	return fsys.E(fsys.Unavailable, "the sandbox could not be started: "+words)
}

// tail keeps the end of what is written to it, as one line.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 1 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - tailSize; over > 0 {
		t.text = t.text[over:]
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.FieldsFunc(strings.TrimSpace(string(t.text)), func(r rune) bool { return r == '\n' })
	return strings.ToValidUTF8(strings.Join(lines, "; "), "?")
}

// socketpair returns the two ends of a connection, ours and the one that a
// process is given.
func socketpair() (*net.UnixConn, *os.File, error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, err
	}
	file := os.NewFile(uintptr(fds[0]), "box")
	defer file.Close()
	theirs := os.NewFile(uintptr(fds[1]), "box")
	c, err := net.FileConn(file)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	ours, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		theirs.Close()
		return nil, nil, fmt.Errorf("a socket pair is a %T", c)
	}
	return ours, theirs, nil
}
