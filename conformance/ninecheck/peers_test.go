//go:build linux

package ninecheck_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agent9/conformance/ninecheck"
)

// A peer is a server of others, as a process that exports a directory.
type peer struct {
	name  string
	build func(t *testing.T) (bin string) // or skips
	args  func(addr, dir string) []string
	aname func(dir string) string
	// known are checks that it is known to fail, with words of what is found.
	known map[string]string
}

var peers = []peer{
	{
		name: "diod",
		build: func(t *testing.T) string {
			bin, err := exec.LookPath("diod")
			if err != nil {
				t.Skip("Debian's diod has it: ", err)
			}
			return bin
		},
		args: func(addr, dir string) []string {
			return []string{"-f", "-n", "-l", addr, "-e", dir, "-L", "/dev/null"}
		},
		aname: func(dir string) string { return dir },
		known: map[string]string{
			"9P2000 version/answered": "Tversion is answered with an error (Rlerror)",
		},
	},
	{
		name:  "p9ufs",
		build: module("github.com/hugelgupf/p9", "v0.4.1", "cmd/p9ufs"),
		args:  func(addr, dir string) []string { return []string{"-root", dir, addr} },
		aname: func(string) string { return "" },
		known: map[string]string{
			"9P2000 version/answered":  "msize is 0",
			"9P2000 version/refused":   "no request has that waits",
			"9P2000.L version/unknown": "msize is 0",
			"9P2000.L flush/blocked":   "no answer to Tflush",
		},
	},
	{
		name:  "export9p",
		build: module("github.com/knusbaum/go9p", "v1.18.0", "cmd/export9p"),
		args:  func(addr, dir string) []string { return []string{"-noperm", "-dir", dir, "-address", addr} },
		aname: func(string) string { return "" },
		known: map[string]string{
			// It lets the connection go, sooner or later.
			"9P2000.L version/answered": "no answer to Tversion|hung up instead of answering Tversion",
			"9P2000 version/unknown":    "no answer to Tversion|hung up instead of answering Tversion",
		},
	},
}

// module builds a command of a module of others, with that module's own
// dependencies.
func module(path, version, command string) func(*testing.T) string {
	return func(t *testing.T) string {
		dir := t.TempDir()
		mod := fmt.Sprintf("module peer\n\ngo 1.26\n\nrequire %s %s\n", path, version)
		if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o600); err != nil {
			t.Fatal(err)
		}
		bin := filepath.Join(dir, "server")
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		build := exec.CommandContext(ctx, "go", "build", "-o", bin, path+"/"+command)
		build.Dir = dir
		build.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
		if out, err := build.CombinedOutput(); err != nil {
			t.Skipf("%s %s cannot be built here: %v\n%s", path, version, err, out)
		}
		return bin
	}
}

// TestPeers shows that what is known about the servers of others is found.
// With AGENT9_NINECHECK_REPORT=DIR it leaves there all that was found.
func TestPeers(t *testing.T) {
	for _, p := range peers {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			testPeer(t, p)
		})
	}
}

func testPeer(t *testing.T, p peer) {
	bin, dir := p.build(t), exported(t)
	s := &process{bin: bin, dir: t.TempDir(), addr: freeAddr(t)}
	s.args = p.args(s.addr, dir)
	if err := s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.end)
	results, err := ninecheck.Run(t.Context(), ninecheck.Options{
		Dial: s.dial, Revive: s.start, Aname: p.aname(dir), Uname: "root", UID: uint32(os.Getuid()),
		Write: "w", Stream: "fifo", Hostile: true, Limit: 400 * time.Millisecond, Quiet: quiet,
	})
	if err != nil {
		t.Fatal(err)
	}
	var report bytes.Buffer
	failed := map[string]string{}
	for _, r := range results {
		r.Print(&report)
		if r.Verdict == ninecheck.Fail {
			failed[r.Dialect+" "+r.Check] = text(r)
		}
	}
	for check, words := range p.known {
		if !slices.ContainsFunc(strings.Split(words, "|"), func(one string) bool { return strings.Contains(failed[check], one) }) {
			t.Errorf("%s: %q is not found, but\n%s", check, words, failed[check])
		}
	}
	if passed := ninecheck.Count(results, ninecheck.Pass); passed < 20 {
		t.Errorf("only %d checks passed", passed)
	}
	if to := os.Getenv("AGENT9_NINECHECK_REPORT"); to != "" {
		if err := os.WriteFile(filepath.Join(to, p.name+".txt"), report.Bytes(), 0o644); err != nil {
			t.Error(err)
		}
	}
}

// exported makes a directory for a server to export.
func exported(t *testing.T) string {
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} { // diod serves as the user of the attach
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range map[string]string{
		"hello": "hello, world\n", "big": strings.Repeat("0123456789abcde\n", 1000),
		"sub/inner": "inner\n", "w/kept": "kept\n",
	} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 40 {
		if err := os.WriteFile(filepath.Join(dir, "sub", fmt.Sprintf("file-%d", i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o644); err != nil {
		t.Skip("a FIFO: ", err)
	}
	return dir
}

// freeAddr is an address that nobody listens on at the moment.
func freeAddr(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// A process is a server that may end, and is started again.
type process struct {
	bin  string
	args []string
	dir  string // where it leaves its core
	addr string

	cmd    *exec.Cmd
	exited chan struct{}
}

func (s *process) dial(ctx context.Context) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", s.addr)
}

// start starts the server and returns when it can be dialled.
func (s *process) start(ctx context.Context) error {
	s.end()
	s.cmd = exec.Command(s.bin, s.args...)
	s.cmd.Dir = s.dir
	s.exited = make(chan struct{})
	if err := s.cmd.Start(); err != nil {
		return err
	}
	go func(cmd *exec.Cmd, exited chan struct{}) { // ends with the process
		cmd.Wait()
		close(exited)
	}(s.cmd, s.exited)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(10 * time.Second); ; {
		if nc, err := s.dial(ctx); err == nil {
			return nc.Close()
		}
		select {
		case <-tick.C:
		case <-s.exited:
			return fmt.Errorf("%s has ended: %v", s.bin, s.cmd.ProcessState)
		case <-end:
			return fmt.Errorf("%s does not listen", s.bin)
		}
	}
}

func (s *process) end() {
	if s.cmd != nil && s.cmd.Process != nil {
		s.cmd.Process.Kill()
		<-s.exited
	}
}
