package daemon

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// built has the programs of this module that the tests of a package need, each
// built once.
var built struct {
	sync.Mutex
	dir string
}

// removeBuilt is for the end of all tests.
func removeBuilt() {
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
}

// build returns where the program is.
func build(t *testing.T, name string) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if built.dir == "" {
		dir, err := os.MkdirTemp("", "agent9")
		if err != nil {
			t.Fatal(err)
		}
		built.dir = dir
	}
	path := filepath.Join(built.dir, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	args := []string{"build", "-buildvcs=false", "-o", path}
	if Slowed && name == "agentd" {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "agent9/cmd/"+name)...).CombinedOutput(); err != nil {
		t.Fatalf("%s cannot be built: %v\n%s", name, err, out)
	}
	return path
}

// Agentctl returns where agentctl is.
func Agentctl(t *testing.T) string {
	t.Helper()
	return build(t, "agentctl")
}

// CtlCommand is agentctl on a daemon's address. To build it may take longer
// than a command may.
func CtlCommand(t *testing.T, address string, args ...string) *exec.Cmd {
	t.Helper()
	program := Agentctl(t)
	return exec.CommandContext(Within(t), program, append([]string{"--addr", address}, args...)...)
}

// Ctl runs agentctl at an address and returns all that it prints, and whether
// it succeeded.
func Ctl(t *testing.T, address, in string, args ...string) (out string, ok bool) {
	t.Helper()
	cmd := CtlCommand(t, address, args...)
	cmd.Env = append(os.Environ(), "AGENT9_TOKEN=")
	cmd.Stdin = strings.NewReader(in)
	b, err := cmd.CombinedOutput()
	return string(b), err == nil
}
