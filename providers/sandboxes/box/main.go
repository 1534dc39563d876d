//go:build unix

package box

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
	"time"

	"agent9/providers/sandboxes"
)

// Main is the subcommand box of cmd/a9: args are what containers.Setup.Argv
// made. It returns the exit status.
func Main(args []string) int {
	if err := run(args); err != nil {
		fmt.Fprintln(os.Stderr, "a9 box:", err)
		return 1
	}
	return 0
}

func run(args []string) error {
	var setup sandboxes.Setup
	if len(args) != 1 {
		return fmt.Errorf("this is started by agentd")
	}
	if err := json.Unmarshal([]byte(args[0]), &setup); err != nil {
		return fmt.Errorf("the set-up: %w", err)
	}
	keepFiles()
	victims := newVictims()
	harden()
	syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
	deaf := make(chan os.Signal, 1) // nobody reads it: signals from inside are lost
	signal.Notify(deaf)
	runtime.GOMAXPROCS(min(runtime.GOMAXPROCS(0), maxProcs))
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(memory)
	stockThreads(threads)
	conn, err := takeStdio()
	if err != nil {
		return err
	}
	if err := os.Chdir(setup.Where.Workspace); err != nil {
		return err
	}
	err = Serve(context.Background(), conn, setup, newAll(victims))
	if os.Getpid() == 1 {
		syscall.Kill(-1, syscall.SIGKILL)
	}
	return err
}

// keepFiles keeps from commands what files this process was given beyond the
// standard ones, by who started the daemon, say.
func keepFiles() {
	open, _ := os.ReadDir("/dev/fd") // without one, nothing is known of them
	for _, f := range open {
		if fd, err := strconv.Atoi(f.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

// memory is what the box tries not to exceed, of the sandbox's.
const memory = 48 << 20

// threads is how many threads the box may need at a time: for calls of the
// kernel that block, and for the runtime.
const (
	threads  = atOnce + beginAtOnce + 4*maxProcs
	maxProcs = 4
)

// stockThreads makes the runtime have n threads, which it then keeps: when a
// program in the sandbox has taken all processes that there may be, the box
// could not get any, and would die of that.
func stockThreads(n int) {
	var held, done sync.WaitGroup
	held.Add(n)
	release := make(chan struct{})
	for range n {
		done.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			held.Done()
			<-release
		})
	}
	held.Wait()
	close(release)
	done.Wait()
}

// takeStdio returns the standard input and output as a connection, and puts
// nothing in their place: no command can have them.
func takeStdio() (net.Conn, error) {
	c := &stdio{}
	for fd, f := range []**os.File{&c.in, &c.out} {
		moved, err := dupCloexec(fd)
		if err != nil {
			return nil, err
		}
		syscall.SetNonblock(moved, true) // so that deadlines work where they can
		*f = os.NewFile(uintptr(moved), "stdio")
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	for fd := range 2 {
		if err := dupTo(int(null.Fd()), fd); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// stdio is a connection of two files.
type stdio struct{ in, out *os.File }

func (c *stdio) Read(p []byte) (int, error)  { return c.in.Read(p) }
func (c *stdio) Write(p []byte) (int, error) { return c.out.Write(p) }

func (c *stdio) Close() error {
	err := c.in.Close()
	if oerr := c.out.Close(); err == nil {
		err = oerr
	}
	return err
}

func (c *stdio) LocalAddr() net.Addr                { return stdioAddr{} }
func (c *stdio) RemoteAddr() net.Addr               { return stdioAddr{} }
func (c *stdio) SetReadDeadline(t time.Time) error  { return c.in.SetReadDeadline(t) }
func (c *stdio) SetWriteDeadline(t time.Time) error { return c.out.SetWriteDeadline(t) }

func (c *stdio) SetDeadline(t time.Time) error {
	if err := c.in.SetReadDeadline(t); err != nil {
		return err
	}
	return c.out.SetWriteDeadline(t)
}

type stdioAddr struct{}

func (stdioAddr) Network() string { return "stdio" }
func (stdioAddr) String() string  { return "stdio" }
