//go:build unix

package box

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"agent9/fsys"
	"agent9/providers/sandboxes"
)

// A command is run/<n>.
type command struct {
	all    *commands
	number string
	order  sandboxes.Order
	root   *fsys.Table
	out    *output
	result *fsys.Memory
	wait   *fsys.Tape
	stdin  *input

	started chan struct{} // closed when there is a process, or never will be
	ended   chan struct{} // closed when the process has ended, or never was
	status  syscall.WaitStatus
	usage   syscall.Rusage

	mu     sync.Mutex
	pid    int    // 0: none, or reaped
	reason string // why it was killed
	tty    *os.File
}

func newCommand(all *commands, number string, order sandboxes.Order) *command {
	c := &command{
		all: all, number: number, order: order, out: newOutput(), result: new(fsys.Memory),
		started: make(chan struct{}), ended: make(chan struct{}),
	}
	c.wait = fsys.NewTape(c.result)
	c.stdin = newInput(c.started)
	c.root = fsys.NewTableWith(removable{c},
		fsys.Entry{Name: "stdin", Node: c.stdin},
		fsys.Entry{Name: "out", Node: c.out},
		fsys.Entry{Name: "wait", Node: c.wait},
		fsys.Entry{Name: "ctl", Node: &fsys.Ctl{Do: c.control, Text: func(context.Context) ([]byte, error) {
			return []byte("kill SIGNAL\nresize ROWS COLS\n"), nil
		}}},
	)
	return c
}

// removable is what a command's directory can do beside having its files.
type removable struct{ c *command }

func (removable) Walk(context.Context, string) (fsys.Node, error) { return nil, fsys.NotExist }
func (removable) List(context.Context) ([]fsys.Entry, error)      { return nil, nil }

func (r removable) Remove(context.Context) error {
	r.c.abandon()
	r.c.all.forget(r.c.number)
	return nil
}

// abandon kills the command and all its descendants, unless it has ended;
// nobody reads its output.
func (c *command) abandon() {
	c.kill(sandboxes.ReasonKilled)
	c.out.abandon()
}

// run does the order, from its beginning to the outcome.
func (c *command) run() {
	begun := time.Now()
	before, _ := oomKills()
	files, err := c.begin()
	close(c.started)
	var outcome sandboxes.Outcome
	if err != nil {
		close(c.ended)
		outcome = c.failed(err)
	} else {
		files.read(c.out)
		c.supervise()
		files.drain(c.all.discard)
		outcome.Exit = c.exit(before)
	}
	outcome.Wall = time.Since(begun)
	line, _ := json.Marshal(outcome)
	c.result.Append(append(line, '\n'))
	c.wait.End()
	c.out.end()
}

// Codes of a command that is not there, or cannot be run; as of shells.
const (
	codeTimeout   = 124
	codeCannotRun = 126
	codeNotFound  = 127
	codeSignal    = 128
)

// failed says why there is no process: as a shell does if the reason is in the
// order.
func (c *command) failed(err error) (o sandboxes.Outcome) {
	var errno syscall.Errno
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, syscall.ENOENT):
		o.Code = codeNotFound
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENOEXEC), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.E2BIG):
		o.Code = codeCannotRun
	case errors.As(err, &errno) && errno == syscall.EAGAIN:
		o.Failure, o.Class = "the sandbox has reached its limit of processes", fsys.Busy.String()
		return o
	default:
		o.Failure, o.Class = err.Error(), fsys.CodeOf(err).String()
		return o
	}
	c.out.write(2, []byte(strings.TrimPrefix(err.Error(), "exec: ")+"\n"))
	return o
}

// begin starts the process.
func (c *command) begin() (*streams, error) {
	dir := c.order.Dir
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(c.all.where.Workspace, dir)
	}
	if info, err := os.Stat(dir); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, &os.PathError{Op: "chdir", Path: dir, Err: syscall.ENOTDIR}
	}
	base := c.all.env
	if c.order.Bare {
		base = []string{"PATH=" + lookup(base, "PATH")}
	}
	env := environ(base, append(c.order.Env, envMark+"="+c.all.mark+"."+c.number))
	path, err := lookPath(c.order.Argv[0], dir, lookup(env, "PATH"))
	if err != nil {
		return nil, err
	}
	c.all.turns <- struct{}{}
	defer func() { <-c.all.turns }()
	f, err := openFiles(c.order)
	if err != nil {
		return nil, err
	}
	attr := &syscall.ProcAttr{Dir: dir, Env: env, Files: f.inside(), Sys: f.session()}
	c.mu.Lock()
	defer c.mu.Unlock()
	pid, err := c.all.reaper.start(path, c.order.Argv, attr, c.reaped)
	if err == syscall.ENOEXEC { // as execvp(3) does
		argv := append([]string{"sh", path}, c.order.Argv[1:]...)
		pid, err = c.all.reaper.start("/bin/sh", argv, attr, c.reaped)
	}
	f.begun(err == nil)
	if err != nil {
		return nil, &os.PathError{Op: "run", Path: path, Err: err}
	}
	c.pid, c.tty = pid, f.terminal
	c.stdin.connect(f.stdin, f.terminal != nil)
	return f, nil
}

// lookPath finds the program name as a shell would that is in dir.
func lookPath(name, dir, path string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, executable(name)
	}
	var denied error
	for _, d := range filepath.SplitList(path) {
		if !filepath.IsAbs(d) {
			d = filepath.Join(dir, d)
		}
		file := filepath.Join(d, name)
		err := executable(file)
		if err == nil {
			return file, nil
		}
		if errors.Is(err, syscall.EACCES) {
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

func executable(file string) error {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return &os.PathError{Op: "run", Path: file, Err: syscall.EISDIR}
	case info.Mode()&0o111 == 0:
		return &os.PathError{Op: "run", Path: file, Err: syscall.EACCES}
	}
	return nil
}

// reaped is called when the process has ended.
func (c *command) reaped(status syscall.WaitStatus, usage syscall.Rusage) {
	<-c.started
	c.mu.Lock()
	c.pid = 0
	c.mu.Unlock()
	c.status, c.usage = status, usage
	close(c.ended)
}

// grace is how long a command that has timed out has between SIGTERM and
// SIGKILL.
const grace = 2 * time.Second

// supervise waits until the process has ended, and sees to that if it takes
// too long.
func (c *command) supervise() {
	if c.order.Timeout <= 0 {
		<-c.ended
		return
	}
	timeout := time.NewTimer(c.order.Timeout)
	defer timeout.Stop()
	select {
	case <-c.ended:
		return
	case <-timeout.C:
	}
	c.because(sandboxes.ReasonTimeout)
	c.signalTree(syscall.SIGTERM)
	last := time.NewTimer(grace)
	defer last.Stop()
	select {
	case <-c.ended:
	case <-last.C:
	}
	c.signalTree(syscall.SIGKILL)
	<-c.ended
}

func (c *command) because(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pid != 0 && c.reason == "" {
		c.reason = reason
	}
}

// kill kills the command and all its descendants, unless it has ended: what it
// has left behind then is the sandbox's.
func (c *command) kill(reason string) {
	<-c.started
	select {
	case <-c.ended:
		return
	default:
	}
	c.because(reason)
	c.signalTree(syscall.SIGKILL)
}

// exit says how the process ended; before is how many processes the kernel had
// ended for want of memory when it began.
func (c *command) exit(before int64) sandboxes.Exit {
	c.mu.Lock()
	reason := c.reason
	c.mu.Unlock()
	e := sandboxes.Exit{
		Code: c.status.ExitStatus(), Reason: reason,
		CPU:    time.Duration(c.usage.Utime.Nano() + c.usage.Stime.Nano()),
		MaxRSS: int64(c.usage.Maxrss) * rssUnit,
	}
	if c.status.Signaled() {
		e.Code = codeSignal + int(c.status.Signal())
		e.Signal = signalName(c.status.Signal())
	}
	switch kills, _ := oomKills(); {
	case reason == sandboxes.ReasonTimeout:
		e.Code = codeTimeout
	case reason == "" && e.Code == codeSignal+int(syscall.SIGKILL) && kills > before:
		e.Reason = sandboxes.ReasonOOM
	case reason == "" && e.Code == codeSignal+int(syscall.SIGXFSZ):
		e.Reason = sandboxes.ReasonDisk
	}
	return e
}

// control does a line that was written to ctl.
func (c *command) control(_ context.Context, words []string) ([]byte, error) {
	switch {
	case len(words) == 2 && words[0] == "kill":
		return nil, c.signal(words[1])
	case len(words) == 3 && words[0] == "resize":
		rows, err := strconv.ParseUint(words[1], 10, 16)
		cols, err2 := strconv.ParseUint(words[2], 10, 16)
		if err == nil && err2 == nil {
			return nil, c.resize(sandboxes.Size{Rows: uint16(rows), Cols: uint16(cols)})
		}
	}
	return nil, fsys.E(fsys.Invalid, "write kill SIGNAL or resize ROWS COLS")
}

func (c *command) signal(name string) error {
	sig, err := parseSignal(name)
	if err != nil {
		return err
	}
	<-c.started
	if sig == syscall.SIGKILL {
		c.kill(sandboxes.ReasonKilled)
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pid == 0 {
		return fsys.E(fsys.Busy, "the command has ended")
	}
	if err := syscall.Kill(-c.pid, sig); err != nil {
		return fsys.Wrap(fsys.Unavailable, "the signal", err)
	}
	return nil
}
