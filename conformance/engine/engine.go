//go:build unix

// Package engine gives tests a Docker engine, which they can also crash.
//
// It is the one of DOCKER_HOST if that is set. Else, for root on a machine
// with dockerd, it is one of their own: with its data in a temporary directory
// and in name spaces of its own (engine.sh), so that it ends with the test
// program however that ends, and leaves nothing. It has no bridge: its
// containers have no network, or the host's. Else a test is skipped.
package engine

import (
	"bufio"
	_ "embed"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/client"
)

//go:embed engine.sh
var script []byte

// patience is how long an engine may take to begin or end on a busy machine.
const patience = time.Minute

// Engine is a running engine.
type Engine struct {
	Host string // as DOCKER_HOST has it
	API  *client.Client
	// TCP is where it listens with TLS, as Certs says; empty if the engine is
	// not the test's own.
	TCP string
	// Certs has ca.pem, cert.pem and key.pem of a client.
	Certs string

	private bool
	dir     string
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	up      chan string // where it listens, each time
	log     tail
}

// Start starts an engine that is t's own, and stops it when t ends. Options
// are dockerd's.
func Start(t testing.TB, options ...string) *Engine {
	t.Helper()
	e, lacks := begin(options...)
	if lacks != "" {
		t.Skip(lacks)
	}
	t.Cleanup(e.stop)
	return e
}

// Shared is one engine for the tests of a package, which begins when the first
// of them needs it. TestMain must call Stop.
type Shared struct {
	once   sync.Once
	engine *Engine
	lacks  string
}

// Get returns the engine, or skips t.
func (s *Shared) Get(t testing.TB) *Engine {
	t.Helper()
	s.once.Do(func() {
		if host := os.Getenv(client.EnvOverrideHost); host != "" {
			s.engine, s.lacks = use(host)
		} else {
			s.engine, s.lacks = begin()
		}
	})
	if s.lacks != "" {
		t.Skip(s.lacks)
	}
	return s.engine
}

// Stop ends the engine if it is the tests' own.
func (s *Shared) Stop() {
	if s.engine != nil {
		s.engine.stop()
	}
}

func use(host string) (*Engine, string) {
	api, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, "the engine of DOCKER_HOST: " + err.Error()
	}
	return &Engine{Host: host, API: api}, ""
}

func begin(options ...string) (_ *Engine, lacks string) {
	if os.Geteuid() != 0 {
		return nil, "a container engine can only be started by root; DOCKER_HOST names one that runs"
	}
	for _, program := range []string{"dockerd", "containerd", "runc", "unshare", "bash"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, "no " + program + ": there is no container engine to test with"
		}
	}
	dir, err := os.MkdirTemp("", "agent9-engine-")
	if err != nil {
		return nil, err.Error()
	}
	e := &Engine{
		Host: "unix://" + filepath.Join(dir, "docker.sock"), Certs: filepath.Join(dir, "client"),
		private: true, dir: dir, up: make(chan string, 8),
	}
	if err := e.run(options); err != nil {
		e.stop()
		return nil, "the container engine does not start: " + err.Error() + "\n" + e.log.String()
	}
	return e, ""
}

func (e *Engine) run(options []string) error {
	run := filepath.Join(e.dir, "engine.sh")
	if err := os.WriteFile(run, script, 0o700); err != nil {
		return err
	}
	flags, err := certificates(e.dir, e.Certs)
	if err != nil {
		return err
	}
	options = append(append([]string{e.dir}, flags...), options...)
	e.cmd = exec.Command(run, options...)
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the tests
	if e.stdin, err = e.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := e.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	e.cmd.Stderr = &e.log
	if err := e.cmd.Start(); err != nil {
		e.cmd = nil
		return err
	}
	go e.read(out)
	if err := e.listens(); err != nil {
		return err
	}
	e.API, err = client.NewClientWithOpts(client.WithHost(e.Host), client.WithAPIVersionNegotiation())
	return err
}

// read follows what the engine says, and ends with it.
func (e *Engine) read(out io.Reader) {
	defer close(e.up)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		e.log.Write(append(lines.Bytes(), '\n'))
		if _, where, ok := strings.Cut(lines.Text(), "API listen on "); ok {
			e.up <- strings.TrimRight(where, `"`)
		}
	}
}

// listens waits until the engine answers at both of its addresses.
func (e *Engine) listens() error {
	late := time.After(patience)
	for range 2 {
		select {
		case where, ok := <-e.up:
			if !ok {
				return io.ErrUnexpectedEOF
			}
			if !strings.HasPrefix(where, "/") {
				e.TCP = "tcp://" + where
			}
		case <-late:
			return os.ErrDeadlineExceeded
		}
	}
	return nil
}

// Crash kills the engine, but not the containers, as a crash does. An engine
// that is not the tests' own is spared: t is skipped.
func (e *Engine) Crash(t testing.TB) {
	t.Helper()
	e.command(t, "crash")
}

// Restart starts it again after Crash, and waits until it answers.
func (e *Engine) Restart(t testing.TB) {
	t.Helper()
	e.command(t, "start")
	if err := e.listens(); err != nil {
		t.Fatalf("the engine does not start again: %v\n%s", err, e.log.String())
	}
}

func (e *Engine) command(t testing.TB, line string) {
	t.Helper()
	if !e.private {
		t.Skip("this engine is not for tests alone")
	}
	if _, err := io.WriteString(e.stdin, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

func (e *Engine) stop() {
	if e.API != nil {
		e.API.Close()
	}
	if !e.private {
		return
	}
	if e.cmd != nil {
		e.stdin.Close()
		late := time.AfterFunc(patience, func() { e.cmd.Process.Kill() })
		e.cmd.Wait()
		late.Stop()
	}
	os.RemoveAll(e.dir)
}

// tail keeps the end of what is written, for who looks for a reason.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (l *tail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b = append(l.b, p...)
	l.b = l.b[max(0, len(l.b)-8<<10):]
	return len(p), nil
}

func (l *tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.b)
}
