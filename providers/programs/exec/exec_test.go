//go:build unix

package exec_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agent9/conformance"
	"agent9/fsys"
	"agent9/fsys/ninep"
	"agent9/providers/programs"
	"agent9/providers/programs/exec"
)

// deedVar makes the test's own binary be a program that does a deed.
const deedVar = "TEST_DEED"

func TestMain(m *testing.M) {
	if deed := os.Getenv(deedVar); deed != "" {
		if err := do(conformance.Deed(deed)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func do(deed conformance.Deed) error {
	ctx := context.Background()
	var t programs.Trigger
	if err := json.NewDecoder(os.Stdin).Decode(&t); err != nil {
		return err
	}
	c, err := ninep.Dial(ctx, "unix", strings.TrimPrefix(os.Getenv(exec.AddrVar), "unix:"))
	if err != nil {
		return err
	}
	defer c.Close()
	ns, err := c.Attach(ctx, "", "")
	if err != nil {
		return err
	}
	return deed.Do(ctx, ns, t, os.Stdout)
}

// A bench has a driver, and the processes that its programs started.
type bench struct {
	driver *exec.Driver
	pids   string // a file
}

func newBench(t *testing.T) *bench {
	dir := t.TempDir()
	return &bench{exec.New(filepath.Join(dir, "data")), filepath.Join(dir, "pids")}
}

// program runs command, in which PIDS is the file to write to who was started.
func (b *bench) program(command string, env map[string]string) programs.Program {
	return b.driver.Program(programs.Spec{Exec: strings.ReplaceAll(command, "PIDS", b.pids), Env: env})
}

// gone checks that all who were started have ended.
func (b *bench) gone(t *testing.T) {
	t.Helper()
	list, err := os.ReadFile(b.pids)
	if err != nil {
		t.Error(err)
	}
	for _, pid := range strings.Fields(string(list)) {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err == nil && !strings.Contains(string(stat), ") Z ") {
			t.Errorf("process %s still runs", pid)
		}
	}
}

// family starts children in the program's session, and, where they can be
// found, outside of it, which note who they are.
func family() string {
	const child = "sleep 1000 & echo $! >>PIDS; "
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		return child
	}
	return child + "mkfifo a-child; setsid sh -c 'echo $$ >>PIDS; echo >a-child; exec sleep 1000' & read there <a-child; "
}

func TestPrograms(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	conformance.TestPrograms(t, conformance.Programs{
		New: func(_ *testing.T, deed conformance.Deed, _ fsys.Node) programs.Program {
			command := "exec " + self
			if deed == conformance.Hang || deed == conformance.Flood {
				command = "trap '' TERM INT HUP; echo $$ >>PIDS; " + family() + self
			}
			return b.program(command, map[string]string{deedVar: string(deed), "GORACE": "atexit_sleep_ms=0"})
		},
		Impossible: func(*testing.T) programs.Program {
			return b.driver.Program(programs.Spec{Exec: "true", Dir: "/no/such/directory"})
		},
		Gone: b.gone,
	})
	if left, err := os.ReadDir(filepath.Join(filepath.Dir(b.pids), "data", "ticks")); err != nil || len(left) > 0 {
		t.Errorf("directories are left: %v, %v", left, err)
	}
}

// counted is what a program printed.
type counted struct{ strings.Builder }

func (b *bench) run(t *testing.T, command string) (out string, remark string, err error) {
	t.Helper()
	var to counted
	o, err := b.program(command, nil).Run(t.Context(), programs.Trigger{Cause: programs.Manual}, programs.Env{
		Addr:   func() (string, error) { return "unix:/nowhere", nil },
		Output: &to,
	})
	return to.String(), o.Remark, err
}

func TestHowACommandEnds(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		command, out string
		kind         programs.Kind
		reason       string
	}{
		{"echo one; echo two >&2", "one\ntwo\n", "", ""},
		{"exit 3", "", programs.Failed, "the command ended with status 3"},
		{"kill -KILL $$", "", programs.Killed, "the command was killed by signal killed"},
		{"head -c 0; exec <&-; echo deaf", "deaf\n", "", ""},
		{"pwd >here; cat here | wc -l | tr -d ' '", "1\n", "", ""},
	} {
		out, _, err := b.run(t, c.command)
		if out != c.out {
			t.Errorf("%s printed %q", c.command, out)
		}
		f, _ := err.(*programs.Failure)
		switch {
		case c.kind == "" && err != nil:
			t.Errorf("%s: %v", c.command, err)
		case c.kind != "" && (f == nil || *f != programs.Failure{Kind: c.kind, Reason: c.reason}):
			t.Errorf("%s: %#v", c.command, err)
		}
	}
}

func TestWhatIsLeftBehindIsKilled(t *testing.T) {
	b := newBench(t)
	_, remark, err := b.run(t, family())
	if err != nil || !strings.Contains(remark, "left behind and killed") {
		t.Errorf("%v, remark %q", err, remark)
	}
	b.gone(t)
}

// What a daemon that was killed left running ends when the next one on the
// same data begins, and what belongs to another one does not.
func TestNextDriverKillsWhatIsLeft(t *testing.T) {
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("needs /proc to find processes of an earlier daemon")
	}
	dir := t.TempDir()
	began := filepath.Join(dir, "began")
	if err := syscall.Mkfifo(began, 0o600); err != nil {
		t.Skip("no named pipes here: ", err)
	}
	f, err := os.OpenFile(began, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := exec.New(filepath.Join(dir, "data")).Program(programs.Spec{Exec: "echo >" + began + "; exec sleep 1000"})
	ended := make(chan error, 1)
	go func() {
		_, err := p.Run(t.Context(), programs.Trigger{}, programs.Env{
			Addr:   func() (string, error) { return "unix:/nowhere", nil },
			Output: &counted{},
		})
		ended <- err
	}()
	if _, err := f.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	exec.New(filepath.Join(dir, "other"))
	select {
	case err := <-ended:
		t.Fatalf("another daemon's driver ended it: %v", err)
	default:
	}
	exec.New(filepath.Join(dir, "data"))
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "signal killed") {
		t.Errorf("it ended with %v", err)
	}
}
