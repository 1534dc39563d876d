// Package daemon starts the real agentd for tests, and talks with it: [Start],
// [Daemon] and [Tree]. A package of such tests has a TestMain that calls [Main].
package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/fsys/ninep"
	"agent9/providers/tools/toolstest"
)

// daemonVar makes a test's own binary be agentd, where Main has its main.
const daemonVar = "AGENT9_TEST_IS_AGENTD"

// own says that the daemons are the test's own binary.
var own bool

// Main runs the tests of a package, whose binary is also what agents run and
// a server of tools. With the main of agentd it is the daemon too. Without, the
// daemon is cmd/agentd, built as the tests are, with the race detector or without.
func Main(m *testing.M, agentd func()) {
	toolstest.Main()
	if deed := os.Getenv(programVar); deed != "" {
		os.Exit(program(deed))
	}
	own = agentd != nil
	if own && (os.Getenv(daemonVar) != "" || os.Getenv("AGENTD_READY") != "") {
		os.Unsetenv(daemonVar)
		agentd()
		os.Exit(0) // with the status of the race detector, if it found one
	}
	status := m.Run()
	removeBuilt()
	os.Exit(status)
}

// Agentd is agentd with these arguments, not started.
func Agentd(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path := os.Args[0]
	if !own {
		path = build(t, "agentd")
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "GORACE=halt_on_error=1 atexit_sleep_ms=0")
	if own {
		cmd.Env = append(cmd.Env, daemonVar+"=1")
	}
	return cmd
}

// Limit is how long a test waits for what must happen.
const Limit = 90 * time.Second

// A daemon is agentd as a process, with a data directory and an operator's
// socket of its own.
type Daemon struct {
	T    *testing.T
	Dir  string // data, sock and what else a test puts there
	Args []string
	With func(*exec.Cmd) // changes how it is started; may be nil

	Cmd    *exec.Cmd
	Exited chan struct{} // closed when cmd has ended
	mu     sync.Mutex
	said   strings.Builder // standard error of all its runs
}

// New returns a daemon that is not running yet.
func New(t *testing.T, args ...string) *Daemon {
	t.Helper()
	dir, err := os.MkdirTemp("", "agentd") // whose path is short enough for sockets
	if err != nil {
		t.Fatal(err)
	}
	d := &Daemon{T: t, Dir: dir, Args: args}
	t.Cleanup(func() {
		d.Kill()
		if t.Failed() {
			t.Logf("agentd said:\n%s", d.Text())
		}
		os.RemoveAll(dir)
	})
	return d
}

// Start returns a daemon that serves.
func Start(t *testing.T, args ...string) *Daemon {
	t.Helper()
	d := New(t, args...)
	d.Start()
	return d
}

// As returns the same daemon, not running, for a part of the test.
func (d *Daemon) As(t *testing.T) *Daemon { return &Daemon{T: t, Dir: d.Dir, Args: d.Args} }

func (d *Daemon) Data() string { return filepath.Join(d.Dir, "data") }

func (d *Daemon) Sock() string { return filepath.Join(d.Dir, "sock") }

func (d *Daemon) Command(args ...string) *exec.Cmd {
	all := append([]string{"--data", d.Data(), "--listen", "unix:" + d.Sock(), "--compute", "echo=echo:"}, d.Args...)
	cmd := Agentd(d.T, append(all, args...)...)
	if d.With != nil {
		d.With(cmd)
	}
	return cmd
}

// Start runs the daemon until it serves.
func (d *Daemon) Start() {
	d.T.Helper()
	if err := d.tryStart(); err != nil {
		d.T.Fatal(err)
	}
}

func (d *Daemon) tryStart() error {
	d.Cmd = d.Command()
	pipe, err := d.Cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := d.Cmd.Start(); err != nil {
		return err
	}
	d.Exited = make(chan struct{})
	ready := make(chan struct{})
	go func() {
		waiting := true
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			d.mu.Lock()
			d.said.WriteString(lines.Text() + "\n")
			d.mu.Unlock()
			if waiting && strings.Contains(lines.Text(), "compute provider") { // the last that it says of its start
				waiting = false
				close(ready)
			}
		}
		d.Cmd.Wait()
		close(d.Exited)
	}()
	select {
	case <-ready:
		return nil
	case <-d.Exited:
		return fmt.Errorf("agentd ended with status %d:\n%s", d.Cmd.ProcessState.ExitCode(), d.Text())
	case <-time.After(Limit):
		return errors.New("agentd did not begin to serve:\n" + d.Text())
	}
}

func (d *Daemon) Text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.said.String()
}

// Refuses runs the daemon, which must end at once with the status, and say
// each of words.
func (d *Daemon) Refuses(status int, args []string, words ...string) {
	d.T.Helper()
	cmd := d.Command(args...)
	var out strings.Builder
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		d.T.Fatal(err)
	}
	timer := time.AfterFunc(Limit, func() { cmd.Process.Kill() })
	cmd.Wait()
	timer.Stop()
	if got := cmd.ProcessState.ExitCode(); got != status {
		d.T.Errorf("agentd %q ended with status %d, want %d; it said:\n%s", args, got, status, out.String())
	}
	last := LastLine(out.String())
	for _, w := range append(words, "agentd: ") {
		if !strings.Contains(last, w) {
			d.T.Errorf("agentd %q said\n%swant a last line with %q", args, out.String(), w)
		}
	}
}

func LastLine(s string) string {
	s = strings.TrimSuffix(s, "\n")
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// Kill ends the daemon as kill -9 does.
func (d *Daemon) Kill() {
	if d.Cmd != nil && d.Cmd.Process != nil && d.Exited != nil {
		d.Cmd.Process.Kill()
		<-d.Exited
	}
}

// Signal sends sig.
func (d *Daemon) Signal(sig syscall.Signal) {
	d.T.Helper()
	if err := d.Cmd.Process.Signal(sig); err != nil {
		d.T.Fatal(err)
	}
}

// Ends waits until the daemon has ended, in order and within a time.
func (d *Daemon) Ends(within time.Duration) {
	d.T.Helper()
	select {
	case <-d.Exited:
	case <-time.After(within):
		d.T.Fatalf("agentd did not end within %v", within)
	}
	if got := d.Cmd.ProcessState.ExitCode(); got != 0 {
		d.T.Fatalf("agentd ended with status %d", got)
	}
}

// Dial connects to an address as the daemon prints it.
func Dial(t *testing.T, network, address string, opts ...ninep.DialOption) *ninep.Client {
	t.Helper()
	c, err := ninep.Dial(Within(t), network, address, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Attach returns the tree aname on a connection of its own, where errors come
// with the reason that a person reads, and listings have all names.
func Attach(t *testing.T, network, address, aname string, opts ...ninep.DialOption) (*Tree, error) {
	t.Helper()
	sep := "?"
	if strings.Contains(aname, "?") {
		sep = "&"
	}
	c := Dial(t, network, address, append(opts, ninep.DialVersion("9P2000"))...)
	root, err := c.Attach(Within(t), "", aname+sep+"errors=full&list=all")
	if err != nil {
		return nil, err
	}
	return &Tree{t, c, root}, nil
}

// Root is what the operator sees.
func (d *Daemon) Root() *Tree {
	d.T.Helper()
	return d.At("")
}

func (d *Daemon) At(aname string) *Tree {
	d.T.Helper()
	tr, err := Attach(d.T, "unix", d.Sock(), aname)
	if err != nil {
		d.T.Fatal(err)
	}
	return tr
}

// Within returns the context of the test, for as long as something may take.
func Within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), Limit)
	t.Cleanup(cancel)
	return ctx
}

// A tree is what somebody is attached to. Methods without an error result fail
// the test.
type Tree struct {
	T      *testing.T
	Client *ninep.Client
	Root   *ninep.Remote
}

func (tr *Tree) TryRead(path string) (string, error) {
	b, err := fsys.ReadFile(Within(tr.T), tr.Root, path)
	return string(b), err
}

func (tr *Tree) Read(path string) string {
	tr.T.Helper()
	s, err := tr.TryRead(path)
	if err != nil {
		tr.T.Fatalf("reading %s: %v", path, err)
	}
	return s
}

// Tail returns what can be read of a stream now.
func (tr *Tree) Tail(path string) string {
	tr.T.Helper()
	n, err := fsys.WalkPath(Within(tr.T), tr.Root, path)
	if err != nil {
		tr.T.Fatalf("walking to %s: %v", path, err)
	}
	info, err := n.Stat(Within(tr.T))
	if err != nil {
		tr.T.Fatalf("%s: %v", path, err)
	}
	h, err := n.Open(Within(tr.T), fsys.Read)
	if err != nil {
		tr.T.Fatalf("opening %s: %v", path, err)
	}
	defer h.Close()
	b := make([]byte, info.Size)
	for n := 0; n < len(b); {
		m, err := fsys.ReadAt(Within(tr.T), h, b[n:], int64(n))
		if err != nil {
			tr.T.Fatalf("reading %s: %v", path, err)
		}
		n += m
	}
	return string(b)
}

// TryWrite is echo: open with truncation, write, close.
func (tr *Tree) TryWrite(path, text string) error {
	return fsys.WriteFile(Within(tr.T), tr.Root, path, []byte(text))
}

func (tr *Tree) Write(path, text string) {
	tr.T.Helper()
	if err := tr.TryWrite(path, text); err != nil {
		tr.T.Fatalf("writing %s: %v", path, err)
	}
}

// TryMake writes a file that may not exist yet.
func (tr *Tree) TryMake(dir, name, text string) error {
	ctx := Within(tr.T)
	n, err := fsys.WalkPath(ctx, tr.Root, dir)
	if err != nil {
		return err
	}
	_, h, err := fsys.OpenCreate(ctx, n, name, 0o644, fsys.Write|fsys.Trunc)
	if err != nil {
		return err
	}
	if _, err := fsys.WriteAt(ctx, h, []byte(text), 0); err != nil {
		h.Close()
		return err
	}
	return fsys.Finish(ctx, h)
}

func (tr *Tree) Make(dir, name, text string) {
	tr.T.Helper()
	if err := tr.TryMake(dir, name, text); err != nil {
		tr.T.Fatalf("making %s/%s: %v", dir, name, err)
	}
}

func (tr *Tree) TryMkdir(dir, name string) error {
	n, err := fsys.WalkPath(Within(tr.T), tr.Root, dir)
	if err == nil {
		_, err = fsys.Mkdir(Within(tr.T), n, name, 0o755)
	}
	return err
}

func (tr *Tree) Mkdir(dir, name string) {
	tr.T.Helper()
	if err := tr.TryMkdir(dir, name); err != nil {
		tr.T.Fatalf("mkdir %s/%s: %v", dir, name, err)
	}
}

func (tr *Tree) TryRemove(path string) error {
	n, err := fsys.WalkPath(Within(tr.T), tr.Root, path)
	if err == nil {
		err = fsys.Remove(Within(tr.T), n)
	}
	return err
}

func (tr *Tree) Remove(path string) {
	tr.T.Helper()
	if err := tr.TryRemove(path); err != nil {
		tr.T.Fatalf("removing %s: %v", path, err)
	}
}

// List returns the names in a directory, with spaces between.
func (tr *Tree) List(path string) string {
	tr.T.Helper()
	n, err := fsys.WalkPath(Within(tr.T), tr.Root, path)
	if err != nil {
		tr.T.Fatalf("walking to %s: %v", path, err)
	}
	entries, err := fsys.List(Within(tr.T), n)
	if err != nil {
		tr.T.Fatalf("listing %s: %v", path, err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return strings.Join(names, " ")
}

func (tr *Tree) Ask(path, request string) string {
	tr.T.Helper()
	b, err := fsys.Converse(Within(tr.T), tr.Root, path, []byte(request))
	if err != nil {
		tr.T.Fatalf("asking %s: %v", path, err)
	}
	return strings.TrimSuffix(string(b), "\n")
}

func (tr *Tree) Open(path string, flag fsys.Flag) fsys.Handle {
	tr.T.Helper()
	h, err := fsys.OpenPath(Within(tr.T), tr.Root, path, flag)
	if err != nil {
		tr.T.Fatalf("opening %s: %v", path, err)
	}
	tr.T.Cleanup(func() { h.Close() })
	return h
}

// A pending read is one that waits.
type Pending struct {
	Done chan struct{}
	Text string
	Err  error
}

// Begin starts a read of h at 0, and returns when the server has it: a
// request that came later on the same connection has been answered.
func (tr *Tree) Begin(h fsys.Handle) *Pending {
	tr.T.Helper()
	return tr.BeginAt(h, 0)
}

func (tr *Tree) BeginAt(h fsys.Handle, off int64) *Pending {
	tr.T.Helper()
	p := &Pending{Done: make(chan struct{})}
	started := make(chan struct{})
	go func() {
		defer close(p.Done)
		b := make([]byte, 1<<16)
		close(started)
		n, err := fsys.ReadAt(tr.T.Context(), h, b, off)
		p.Text, p.Err = string(b[:n]), err
	}()
	<-started
	if _, err := tr.Root.Stat(Within(tr.T)); err != nil {
		tr.T.Fatal(err)
	}
	return p
}

// Ends waits for the read to end.
func (p *Pending) Ends(t *testing.T) {
	t.Helper()
	select {
	case <-p.Done:
	case <-time.After(Limit):
		t.Fatal("a read did not end")
	}
}

func (p *Pending) Waits(t *testing.T) {
	t.Helper()
	select {
	case <-p.Done:
		t.Fatalf("a read that should wait ended with %q, %v", p.Text, p.Err)
	default:
	}
}

// Refused checks the code of an error, and words of what a person reads.
func Refused(t *testing.T, what string, err error, code fsys.Code, words ...string) {
	t.Helper()
	if err == nil || fsys.CodeOf(err) != code {
		t.Errorf("%s: got %v, want %v", what, err, code)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: the message is %q, want %q in it", what, err, w)
		}
	}
}

// Has checks that s contains each of words.
func Has(t *testing.T, what, s string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(s, w) {
			t.Errorf("%s is\n%s\nwant %q in it", what, s, w)
		}
	}
}

func Equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// Eventually waits for what there is no event for, by asking again and again.
func Eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(Limit); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("this did not come about: " + what)
		}
	}
}

func Parse(t *testing.T, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}
