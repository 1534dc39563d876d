package conformance_test

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestClients lets real 9P clients loose on the real daemon: each has a daemon
// of its own, attaches as an agent with a token, and does the same script.
func TestClients(t *testing.T) {
	bin := buildCommands(t)
	t.Run("agentctl mount", func(t *testing.T) { testAgentctlMount(t, bin) })
	t.Run("9pfuse", func(t *testing.T) { test9pfuse(t, bin) })
	t.Run("9p", func(t *testing.T) { test9p(t, bin) })
	t.Run("diod", func(t *testing.T) { testDiod(t, bin) })
	t.Run("v9fs", func(t *testing.T) { testV9fs(t, bin) })
	t.Run("hugelgupf-p9", func(t *testing.T) { testLibrary(t, bin, dialHugelgupf) })
	t.Run("9fans", func(t *testing.T) { testLibrary(t, bin, dial9fans) })
}

// buildCommands builds the daemon and its client, with the race detector when
// the test has it, and returns the directory that they are in.
func buildCommands(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	args := []string{"build", "-o", bin + "/"}
	if raceEnabled {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, "agent9/cmd/agentd", "agent9/cmd/agentctl")...).CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}

const (
	agent = "alice"
	// The model's prompt names the gate through which it is told what to say.
	speak = `{"messages":[{"role":"user","content":"speak"}]}`
	hold  = `{"messages":[{"role":"user","content":"hold"}]}`
)

// A daemon is a running agentd with one agent, whose budget is small, and a
// model that says "ready" and then each word that it is given leave to say.
type daemon struct {
	bin, dir string
	socket   string // the operator's
	port     string // on 127.0.0.1, for tokens
	token    string // of the agent, to read and to write
	gates    map[string]*os.File
	log      lockedBuffer
}

func startDaemon(t *testing.T, bin string) *daemon {
	t.Helper()
	dir, err := os.MkdirTemp("", "a9") // short: a socket's path has 108 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	d := &daemon{bin: bin, dir: dir, socket: dir + "/sock", gates: map[string]*os.File{}}

	for _, gate := range []string{"speak", "hold"} {
		if err := syscall.Mkfifo(dir+"/"+gate, 0o600); err != nil {
			t.Fatal(err)
		}
		// Open for both, so that neither end waits for the other or sees it end.
		f, err := os.OpenFile(dir+"/"+gate, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		d.gates[gate] = f
	}
	model := fmt.Sprintf(`#!/bin/sh
read -r gate
echo ready
while read -r word && [ "$word" != . ]; do echo "$word"; done <"%s/$gate"
`, dir)
	if err := os.WriteFile(dir+"/model", []byte(model), 0o700); err != nil {
		t.Fatal(err)
	}

	cmd := exec.Command(bin+"/agentd", "--data", dir+"/data", "--listen", "unix:"+d.socket,
		"--listen", "tcp:127.0.0.1:0", "--compute", "slow=exec:"+dir+"/model")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	listening := make(chan string, 2)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		defer close(listening)
		said := regexp.MustCompile(`listening on (unix|tcp):(\S+)`)
		for lines := bufio.NewScanner(r); lines.Scan(); {
			fmt.Fprintln(&d.log, lines.Text())
			if m := said.FindStringSubmatch(lines.Text()); m != nil && len(listening) < cap(listening) {
				listening <- m[1] + ":" + m[2]
			}
		}
	}()
	t.Cleanup(func() { d.stop(t, cmd, drained) })
	for range 2 {
		switch address := receive(t, listening, "the daemon to listen"); {
		case strings.HasPrefix(address, "tcp:"):
			_, d.port, _ = net.SplitHostPort(strings.TrimPrefix(address, "tcp:"))
		case address == "":
			t.Fatalf("the daemon ended:\n%s", d.log.String())
		}
	}

	d.agentctl(t, "create", agent)
	d.token = strings.TrimSpace(d.agentctl(t, "token", agent, "rw"))
	operator, err := dial9fans("unix", d.socket, "")
	if err != nil {
		t.Fatal(err)
	}
	defer operator.hangUp()
	writeFile(t, operator, "agents/"+agent+"/budget/limits", `{"total_microusd":1000000}`)
	return d
}

// stop ends the daemon as a service manager does, and holds it to a clean end.
func (d *daemon) stop(t *testing.T, cmd *exec.Cmd, drained <-chan struct{}) {
	_ = cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	<-drained
	err := cmd.Wait()
	kill.Stop()
	log := d.log.String()
	if err != nil {
		t.Errorf("the daemon's end: %v", err)
	}
	if strings.Contains(log, "DATA RACE") || strings.Contains(log, "panic:") {
		t.Error("the daemon has a data race or panicked")
	}
	if t.Failed() {
		t.Logf("the daemon said:\n%s", log)
	}
}

// agentctl runs the client as the operator and returns what it prints.
func (d *daemon) agentctl(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(d.bin+"/agentctl", append([]string{"--addr", "unix:" + d.socket}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("agentctl %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

// heard gives the model leave to go on after word.
func (d *daemon) heard(word string) {
	if next, ok := map[string]string{"ready": "one", "one": "two", "two": "."}[word]; ok {
		fmt.Fprintln(d.gates["speak"], next)
	}
}

//go:embed testdata/clients/lib.sh
var libScript string

// script is one of the clients' scripts with what all share before it and env
// set for it.
func (d *daemon) script(t *testing.T, name string, env map[string]string) string {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", "clients", name))
	if err != nil {
		t.Fatal(err)
	}
	var s strings.Builder
	fmt.Fprintf(&s, "AGENT='%s' SPEAK='%s' HOLD='%s'\n", agent, speak, hold)
	for k, v := range env {
		fmt.Fprintf(&s, "%s='%s'\n", k, v)
	}
	return s.String() + libScript + string(body)
}

// shell runs a client's script with the command, which reads it from stdin.
// scripts is how many of ours it holds, each of which must come to its end.
func (d *daemon) shell(t *testing.T, scripts int, script string, command ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 110*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin = strings.NewReader(script)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	stop := context.AfterFunc(ctx, func() { r.Close() })
	defer stop()
	ended := d.follow(t, r)
	if err := cmd.Wait(); err != nil || ended != scripts {
		t.Errorf("%d of %d scripts came to their end: %v", ended, scripts, err)
	}
}

// follow reads what a script says, answers it, and makes each step a subtest.
// It returns how many scripts came to their end.
func (d *daemon) follow(t *testing.T, r io.Reader) (ended int) {
	var other strings.Builder
	defer func() {
		if other.Len() > 0 {
			t.Logf("also said:\n%s", other.String())
		}
	}()
	for lines := bufio.NewScanner(r); lines.Scan(); {
		line := lines.Text()
		first, rest, _ := strings.Cut(line, " ")
		name, why, _ := strings.Cut(strings.TrimPrefix(rest, "ok "), ": ")
		switch {
		case first == "ok":
			t.Run(rest, func(*testing.T) {})
		case first == "not" && strings.HasPrefix(rest, "ok "):
			t.Run(name, func(t *testing.T) { t.Error(why) })
		case first == "skip":
			t.Run(name, func(t *testing.T) { t.Skip(why) })
		case first == "saw":
			d.heard(rest)
		case line == "done":
			ended++
		default:
			other.WriteString(line + "\n")
		}
	}
	return ended
}

// need skips the test when a program is missing, and says what for.
func need(t *testing.T, what string, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("no %s on PATH: %s", p, what)
		}
	}
}

// mount starts a program that mounts something at a new directory, and waits
// for the kernel to say that it is there.
func mount(t *testing.T, dir string, command ...string) {
	t.Helper()
	if f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err != nil {
		t.Skipf("no FUSE: %v", err)
	} else {
		f.Close()
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		t.Skipf("no mount table: %v", err)
	}
	defer mounts.Close()

	var said lockedBuffer
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.WaitDelay = time.Second // 9pfuse leaves a child that has its output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		if unix.Unmount(dir, unix.MNT_DETACH) != nil { // not root, or unmounted
			_ = exec.Command("fusermount3", "-q", "-u", "-z", dir).Run()
		}
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		if t.Failed() && said.String() != "" {
			t.Logf("%s said:\n%s", command[0], said.String())
		}
	})

	deadline := time.Now().Add(time.Minute)
	for {
		table, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(table, []byte(" "+dir+" ")) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s did not mount: %s", command[0], said.String())
		}
		// A change of the mount table is an exceptional condition of this file;
		// a second is for one between reading it and waiting here.
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(mounts.Fd()), Events: unix.POLLPRI}}, 1000)
	}
}

// receive waits for what must come, with a limit that only a hang reaches.
func receive[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(2 * time.Minute):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
