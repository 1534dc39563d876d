//go:build unix

// Package foldertest tests drivers that are made with package folder.
package foldertest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"agent9/providers/sandboxes"
	"agent9/providers/sandboxes/folder"
)

// A Driver is what to test.
type Driver struct {
	// New returns the provider whose folder is dir.
	New func(dir, helper string) (sandboxes.Provider, error)
}

// Variables of the processes that the tests start.
const (
	helperVar = "AGENT9_TEST_HELPER" // where cmd/a9 is
	daemonVar = "AGENT9_TEST_DAEMON" // be the daemon whose folder this is
)

// Main is TestMain: it builds cmd/a9 for the tests.
func (d Driver) Main(m *testing.M) {
	if dir := os.Getenv(daemonVar); dir != "" {
		fmt.Fprintln(os.Stderr, d.daemon(dir))
		os.Exit(1)
	}
	if Helper() != "" {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "agent9-a9-")
	if err != nil {
		panic(err)
	}
	os.Chmod(dir, 0o755)
	helper := filepath.Join(dir, "a9")
	build := exec.Command("go", "build", "-o", helper, "agent9/cmd/a9")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		panic(string(out))
	}
	os.Setenv(helperVar, helper)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// Helper is where cmd/a9 is.
func Helper() string { return os.Getenv(helperVar) }

// Box makes a sandbox that does not run. It goes with the test.
func Box(t *testing.T, p sandboxes.Provider, spec sandboxes.Spec) *sandboxes.Box {
	t.Helper()
	sandbox, err := p.Create(t.Context(), spec, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	return Open(t, p, sandbox.ID())
}

// Open returns a sandbox that was made before. It goes with the test.
func Open(t *testing.T, p sandboxes.Provider, id string) *sandboxes.Box {
	t.Helper()
	box, err := sandboxes.NewRunner("test", p).Open(t.Context(), id, func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return box
}

// Start makes a sandbox and runs it.
func Start(t *testing.T, p sandboxes.Provider, spec sandboxes.Spec) *sandboxes.Box {
	t.Helper()
	box := Box(t, p, spec)
	if err := box.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return box
}

// Sh runs a script and returns what it wrote, without the white space around.
func Sh(t *testing.T, box *sandboxes.Box, script string) (string, sandboxes.Exit) {
	t.Helper()
	var out bytes.Buffer
	exit, err := box.Exec(t.Context(), sandboxes.Command{Argv: []string{"/bin/sh", "-c", script}, Timeout: time.Minute},
		sandboxes.Streams{Out: func(_ int, p []byte) error { out.Write(p); return nil }})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out.String()), exit
}

// daemon makes a sandbox in which there are processes, prints its ID, and goes
// on until it is killed.
func (d Driver) daemon(dir string) error {
	p, err := d.New(dir, Helper())
	if err != nil {
		return err
	}
	ctx := context.Background()
	sandbox, err := p.Create(ctx, sandboxes.Spec{Name: "left", Workspace: "kept", Limits: sandboxes.Limits{Disk: 64 << 20}}, func(string) {})
	if err != nil {
		return err
	}
	box, err := sandboxes.NewRunner("test", p).Open(ctx, sandbox.ID(), func(string) bool { return true })
	if err == nil {
		err = box.Start(ctx)
	}
	if err != nil {
		return err
	}
	_, err = box.Exec(ctx, sandboxes.Command{Argv: []string{"/bin/sh", "-c", "echo kept >file\n" + Left{sandbox.ID()}.Script()}}, sandboxes.Streams{
		Out: func(_ int, p []byte) error {
			_, err := os.Stdout.Write(p)
			return err
		},
	})
	return fmt.Errorf("the command ended: %w", err)
}

// Left are processes that a script in a sandbox leaves behind in all ways in
// which that can be done.
type Left struct {
	// Name tells them from those of other sandboxes.
	Name string
}

// seconds is how long they sleep: nobody else does that.
func (l Left) seconds() string {
	var n uint32
	for _, c := range []byte(l.Name) {
		n = n*31 + uint32(c)
	}
	return fmt.Sprint(100_000_000 + n%100_000_000)
}

// Background is a script that begins them and ends.
func (l Left) Background() string {
	return fmt.Sprintf(`sleep %[1]s &
(sleep %[1]s &)
(trap '' HUP TERM INT; setsid sleep %[1]s </dev/null >/dev/null 2>&1 &)
`, l.seconds())
}

// Script begins them, prints Name, and stays.
func (l Left) Script() string {
	return l.Background() + "echo " + l.Name + "\nexec sleep " + l.seconds()
}

// Started checks that they go on.
func (l Left) Started(t *testing.T) {
	t.Helper()
	l.find(t, 3)
}

// Gone checks that none goes on, or at least not for long.
func (l Left) Gone(t *testing.T) {
	t.Helper()
	for _, p := range l.find(t, 0) {
		p.gone(t)
	}
}

// find returns at least n of them.
func (l Left) find(t *testing.T, n int) []process {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; runtime.Gosched() {
		found := find(t, l.seconds())
		if len(found) >= n {
			return found
		}
		for _, p := range found {
			p.forget()
		}
		if time.Now().After(end) {
			t.Fatalf("%d processes, want %d that sleep", len(found), n)
		}
	}
}

// Once makes a sandbox, runs a command in it, and removes it.
func Once(t *testing.T, p sandboxes.Provider) {
	ctx := t.Context()
	sandbox, err := p.Create(ctx, sandboxes.Spec{Limits: sandboxes.Limits{PIDs: 20, Memory: 64 << 20}}, func(string) {})
	if err != nil {
		t.Error(err)
		return
	}
	box, err := sandboxes.NewRunner("test", p).Open(ctx, sandbox.ID(), func(string) bool { return true })
	if err == nil {
		err = box.Start(ctx)
	}
	if err == nil {
		_, err = box.Exec(ctx, sandboxes.Command{Argv: []string{"true"}}, sandboxes.Streams{})
	}
	if err == nil {
		err = box.Remove(ctx)
	}
	if err != nil {
		t.Error(err)
	}
}

// Empty says what is left of sandboxes in a provider's folder.
func Empty(dir string) error {
	left, err := os.ReadDir(filepath.Join(dir, "sandboxes"))
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%v", left)
	}
	return err
}

// EndRun kills the first process of a sandbox, as it may happen.
func EndRun(t *testing.T, dir, id string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "sandboxes", id, "record.json"))
	var record struct{ Run folder.Process }
	if err == nil {
		err = json.Unmarshal(text, &record)
	}
	if err == nil {
		err = syscall.Kill(record.Run.PID, syscall.SIGKILL)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Crash checks that nothing of a sandbox goes on after its daemon was killed,
// and that a new one finds it again.
func (d Driver) Crash(t *testing.T, dir string) {
	daemon := exec.Command(os.Args[0])
	daemon.Env = append(os.Environ(), daemonVar+"="+dir)
	daemon.Dir = "/"
	daemon.Stderr = os.Stderr
	out, err := daemon.StdoutPipe()
	if err == nil {
		err = daemon.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer daemon.Process.Kill()
	buf := make([]byte, 100)
	n, err := io.ReadAtLeast(out, buf, 1)
	if err != nil {
		t.Fatal(err)
	}
	id := strings.TrimSpace(string(buf[:n]))
	left := Left{id}
	processes := left.find(t, 4)
	daemon.Process.Kill()
	daemon.Wait()
	for _, p := range processes {
		p.gone(t)
	}

	p, err := d.New(dir, Helper())
	if err != nil {
		t.Fatal(err)
	}
	found, err := p.List(t.Context())
	if err != nil || len(found) != 1 || found[0] != (sandboxes.Found{ID: id, Name: "left"}) {
		t.Errorf("%+v, %v", found, err)
	}
	box := Open(t, p, id)
	if err := box.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, exit := Sh(t, box, "cat file"); got != "kept" {
		t.Errorf("%q, %+v", got, exit)
	}
}
