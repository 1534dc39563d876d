//go:build linux

package conformance

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// exportPatience is how long anything may take that should be quick, on a
// machine that is busy with other things.
const exportPatience = time.Minute

// bash runs a script in dir and returns what it printed.
func bash(t *testing.T, dir, script string) string {
	t.Helper()
	out, err := tryBash(t, dir, script)
	if err != nil {
		t.Fatalf("%s\n%s%v", script, out, err)
	}
	return out
}

func tryBash(t *testing.T, dir, script string) (string, error) {
	t.Helper()
	cmd, out := startBash(t, dir, script)
	err := waitBash(cmd)
	return out.String(), err
}

// startBash starts a script in a process group of its own.
func startBash(t *testing.T, dir, script string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	// Not cmd.Dir: this process may be the one that serves dir, and would wait
	// for itself.
	cmd := exec.Command("bash", "-c", `cd "$DIR" || exit; `+script)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DIR="+dir, "TMP="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out := new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out
}

func waitBash(cmd *exec.Cmd) error {
	late := time.AfterFunc(exportPatience, func() { killGroup(cmd) })
	err := cmd.Wait()
	if !late.Stop() {
		return fmt.Errorf("still running after %v", exportPatience)
	}
	return err
}

func killGroup(cmd *exec.Cmd) { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// receive returns the next value of c, or fails the test.
func receive[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(exportPatience):
		t.Fatalf("%s: nothing after %v", what, exportPatience)
		panic("unreachable")
	}
}

// needPrograms skips a test of programs that are not installed.
func needPrograms(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("no %s on this machine", p)
		}
	}
}
