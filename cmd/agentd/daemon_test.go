package main

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

// runAgentd is agentd with these arguments, not started.
func runAgentd(t *testing.T, args ...string) *exec.Cmd {
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

// limit is how long a test waits for what must happen.
const limit = 90 * time.Second

// A daemon is agentd as a process, with a data directory and an operator's
// socket of its own.
type daemon struct {
	t    *testing.T
	dir  string // data, sock and what else a test puts there
	args []string
	with func(*exec.Cmd) // changes how it is started; may be nil

	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd has ended
	mu     sync.Mutex
	said   strings.Builder // standard error of all its runs
}

// newDaemon returns a daemon that is not running yet.
func newDaemon(t *testing.T, args ...string) *daemon {
	t.Helper()
	dir, err := os.MkdirTemp("", "agentd") // whose path is short enough for sockets
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{t: t, dir: dir, args: args}
	t.Cleanup(func() {
		d.kill()
		if t.Failed() {
			t.Logf("agentd said:\n%s", d.text())
		}
		os.RemoveAll(dir)
	})
	return d
}

// startDaemon returns a daemon that serves.
func startDaemon(t *testing.T, args ...string) *daemon {
	t.Helper()
	d := newDaemon(t, args...)
	d.start()
	return d
}

// as returns the same daemon, not running, for a part of the test.
func (d *daemon) as(t *testing.T) *daemon { return &daemon{t: t, dir: d.dir, args: d.args} }

func (d *daemon) data() string { return filepath.Join(d.dir, "data") }
func (d *daemon) sock() string { return filepath.Join(d.dir, "sock") }

func (d *daemon) command(args ...string) *exec.Cmd {
	all := append([]string{"--data", d.data(), "--listen", "unix:" + d.sock(), "--compute", "echo=echo:"}, d.args...)
	cmd := runAgentd(d.t, append(all, args...)...)
	if d.with != nil {
		d.with(cmd)
	}
	return cmd
}

// start runs the daemon until it serves.
func (d *daemon) start() {
	d.t.Helper()
	if err := d.tryStart(); err != nil {
		d.t.Fatal(err)
	}
}

func (d *daemon) tryStart() error {
	d.cmd = d.command()
	pipe, err := d.cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := d.cmd.Start(); err != nil {
		return err
	}
	d.exited = make(chan struct{})
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
		d.cmd.Wait()
		close(d.exited)
	}()
	select {
	case <-ready:
		return nil
	case <-d.exited:
		return fmt.Errorf("agentd ended with status %d:\n%s", d.cmd.ProcessState.ExitCode(), d.text())
	case <-time.After(limit):
		return errors.New("agentd did not begin to serve:\n" + d.text())
	}
}

func (d *daemon) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.said.String()
}

// refuses runs the daemon, which must end at once with the status, and say
// each of words.
func (d *daemon) refuses(status int, args []string, words ...string) {
	d.t.Helper()
	cmd := d.command(args...)
	var out strings.Builder
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	timer := time.AfterFunc(limit, func() { cmd.Process.Kill() })
	cmd.Wait()
	timer.Stop()
	if got := cmd.ProcessState.ExitCode(); got != status {
		d.t.Errorf("agentd %q ended with status %d, want %d; it said:\n%s", args, got, status, out.String())
	}
	last := lastLine(out.String())
	for _, w := range append(words, "agentd: ") {
		if !strings.Contains(last, w) {
			d.t.Errorf("agentd %q said\n%swant a last line with %q", args, out.String(), w)
		}
	}
}

func lastLine(s string) string {
	s = strings.TrimSuffix(s, "\n")
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// kill ends the daemon as kill -9 does.
func (d *daemon) kill() {
	if d.cmd != nil && d.cmd.Process != nil && d.exited != nil {
		d.cmd.Process.Kill()
		<-d.exited
	}
}

// signal sends sig.
func (d *daemon) signal(sig syscall.Signal) {
	d.t.Helper()
	if err := d.cmd.Process.Signal(sig); err != nil {
		d.t.Fatal(err)
	}
}

// ends waits until the daemon has ended, in order and within a time.
func (d *daemon) ends(within time.Duration) {
	d.t.Helper()
	select {
	case <-d.exited:
	case <-time.After(within):
		d.t.Fatalf("agentd did not end within %v", within)
	}
	if got := d.cmd.ProcessState.ExitCode(); got != 0 {
		d.t.Fatalf("agentd ended with status %d", got)
	}
}

// dial connects to an address as the daemon prints it.
func dial(t *testing.T, network, address string, opts ...ninep.DialOption) *ninep.Client {
	t.Helper()
	c, err := ninep.Dial(within(t), network, address, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// attach returns the tree aname on a connection of its own, where errors come
// with the reason that a person reads, and listings have all names.
func attach(t *testing.T, network, address, aname string, opts ...ninep.DialOption) (*tree, error) {
	t.Helper()
	sep := "?"
	if strings.Contains(aname, "?") {
		sep = "&"
	}
	c := dial(t, network, address, append(opts, ninep.DialVersion("9P2000"))...)
	root, err := c.Attach(within(t), "", aname+sep+"errors=full&list=all")
	if err != nil {
		return nil, err
	}
	return &tree{t, c, root}, nil
}

// root is what the operator sees.
func (d *daemon) root() *tree {
	d.t.Helper()
	return d.at("")
}

func (d *daemon) at(aname string) *tree {
	d.t.Helper()
	tr, err := attach(d.t, "unix", d.sock(), aname)
	if err != nil {
		d.t.Fatal(err)
	}
	return tr
}

// within returns the context of the test, for as long as something may take.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// A tree is what somebody is attached to. Methods without an error result fail
// the test.
type tree struct {
	t      *testing.T
	client *ninep.Client
	root   *ninep.Remote
}

func (tr *tree) tryRead(path string) (string, error) {
	b, err := fsys.ReadFile(within(tr.t), tr.root, path)
	return string(b), err
}

func (tr *tree) read(path string) string {
	tr.t.Helper()
	s, err := tr.tryRead(path)
	if err != nil {
		tr.t.Fatalf("reading %s: %v", path, err)
	}
	return s
}

// tail returns what can be read of a stream now.
func (tr *tree) tail(path string) string {
	tr.t.Helper()
	n, err := fsys.WalkPath(within(tr.t), tr.root, path)
	if err != nil {
		tr.t.Fatalf("walking to %s: %v", path, err)
	}
	info, err := n.Stat(within(tr.t))
	if err != nil {
		tr.t.Fatalf("%s: %v", path, err)
	}
	h, err := n.Open(within(tr.t), fsys.Read)
	if err != nil {
		tr.t.Fatalf("opening %s: %v", path, err)
	}
	defer h.Close()
	b := make([]byte, info.Size)
	for n := 0; n < len(b); {
		m, err := fsys.ReadAt(within(tr.t), h, b[n:], int64(n))
		if err != nil {
			tr.t.Fatalf("reading %s: %v", path, err)
		}
		n += m
	}
	return string(b)
}

// tryWrite is echo: open with truncation, write, close.
func (tr *tree) tryWrite(path, text string) error {
	return fsys.WriteFile(within(tr.t), tr.root, path, []byte(text))
}

func (tr *tree) write(path, text string) {
	tr.t.Helper()
	if err := tr.tryWrite(path, text); err != nil {
		tr.t.Fatalf("writing %s: %v", path, err)
	}
}

// tryMake writes a file that may not exist yet.
func (tr *tree) tryMake(dir, name, text string) error {
	ctx := within(tr.t)
	n, err := fsys.WalkPath(ctx, tr.root, dir)
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

func (tr *tree) make(dir, name, text string) {
	tr.t.Helper()
	if err := tr.tryMake(dir, name, text); err != nil {
		tr.t.Fatalf("making %s/%s: %v", dir, name, err)
	}
}

func (tr *tree) tryMkdir(dir, name string) error {
	n, err := fsys.WalkPath(within(tr.t), tr.root, dir)
	if err == nil {
		_, err = fsys.Mkdir(within(tr.t), n, name, 0o755)
	}
	return err
}

func (tr *tree) mkdir(dir, name string) {
	tr.t.Helper()
	if err := tr.tryMkdir(dir, name); err != nil {
		tr.t.Fatalf("mkdir %s/%s: %v", dir, name, err)
	}
}

func (tr *tree) tryRemove(path string) error {
	n, err := fsys.WalkPath(within(tr.t), tr.root, path)
	if err == nil {
		err = fsys.Remove(within(tr.t), n)
	}
	return err
}

func (tr *tree) remove(path string) {
	tr.t.Helper()
	if err := tr.tryRemove(path); err != nil {
		tr.t.Fatalf("removing %s: %v", path, err)
	}
}

// list returns the names in a directory, with spaces between.
func (tr *tree) list(path string) string {
	tr.t.Helper()
	n, err := fsys.WalkPath(within(tr.t), tr.root, path)
	if err != nil {
		tr.t.Fatalf("walking to %s: %v", path, err)
	}
	entries, err := fsys.List(within(tr.t), n)
	if err != nil {
		tr.t.Fatalf("listing %s: %v", path, err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return strings.Join(names, " ")
}

func (tr *tree) ask(path, request string) string {
	tr.t.Helper()
	b, err := fsys.Converse(within(tr.t), tr.root, path, []byte(request))
	if err != nil {
		tr.t.Fatalf("asking %s: %v", path, err)
	}
	return strings.TrimSuffix(string(b), "\n")
}

func (tr *tree) open(path string, flag fsys.Flag) fsys.Handle {
	tr.t.Helper()
	h, err := fsys.OpenPath(within(tr.t), tr.root, path, flag)
	if err != nil {
		tr.t.Fatalf("opening %s: %v", path, err)
	}
	tr.t.Cleanup(func() { h.Close() })
	return h
}

// A pending read is one that waits.
type pending struct {
	done chan struct{}
	text string
	err  error
}

// begin starts a read of h at 0, and returns when the server has it: a
// request that came later on the same connection has been answered.
func (tr *tree) begin(h fsys.Handle) *pending {
	tr.t.Helper()
	return tr.beginAt(h, 0)
}

func (tr *tree) beginAt(h fsys.Handle, off int64) *pending {
	tr.t.Helper()
	p := &pending{done: make(chan struct{})}
	started := make(chan struct{})
	go func() {
		defer close(p.done)
		b := make([]byte, 1<<16)
		close(started)
		n, err := fsys.ReadAt(tr.t.Context(), h, b, off)
		p.text, p.err = string(b[:n]), err
	}()
	<-started
	if _, err := tr.root.Stat(within(tr.t)); err != nil {
		tr.t.Fatal(err)
	}
	return p
}

// ends waits for the read to end.
func (p *pending) ends(t *testing.T) {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(limit):
		t.Fatal("a read did not end")
	}
}

func (p *pending) waits(t *testing.T) {
	t.Helper()
	select {
	case <-p.done:
		t.Fatalf("a read that should wait ended with %q, %v", p.text, p.err)
	default:
	}
}

// refused checks the code of an error, and words of what a person reads.
func refused(t *testing.T, what string, err error, code fsys.Code, words ...string) {
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

// has checks that s contains each of words.
func has(t *testing.T, what, s string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(s, w) {
			t.Errorf("%s is\n%s\nwant %q in it", what, s, w)
		}
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// eventually waits for what there is no event for, by asking again and again.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(limit); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("this did not come about: " + what)
		}
	}
}

func parse(t *testing.T, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}
