package main

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
	if slowed && name == "agentd" {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "agent9/cmd/"+name)...).CombinedOutput(); err != nil {
		t.Fatalf("%s cannot be built: %v\n%s", name, err, out)
	}
	return path
}

// buildAgentctl returns where agentctl is.
func buildAgentctl(t *testing.T) string {
	t.Helper()
	return build(t, "agentctl")
}

// ctlCommand is agentctl on a daemon's address. To build it may take longer
// than a command may.
func ctlCommand(t *testing.T, address string, args ...string) *exec.Cmd {
	t.Helper()
	program := buildAgentctl(t)
	return exec.CommandContext(within(t), program, append([]string{"--addr", address}, args...)...)
}

// ctl runs agentctl at an address and returns all that it prints, and whether
// it succeeded.
func ctl(t *testing.T, address, in string, args ...string) (out string, ok bool) {
	t.Helper()
	cmd := ctlCommand(t, address, args...)
	cmd.Env = append(os.Environ(), "AGENT9_TOKEN=")
	cmd.Stdin = strings.NewReader(in)
	b, err := cmd.CombinedOutput()
	return string(b), err == nil
}

func TestWhatAPersonReads(t *testing.T) {
	d, r, address := overTCP(t)
	at := "unix:" + d.sock()
	r.write("agents/bob/config", `{"inbox": {"limit": 1, "overflow": "refuse"}, "accept": []}`)
	works := func(want, in string, args ...string) {
		t.Helper()
		if out, ok := ctl(t, at, in, args...); !ok || !strings.Contains(out, want) {
			t.Errorf("agentctl %q: got %v and\n%s\nwant %q", args, ok, out, want)
		}
	}
	fails := func(at string, in string, args []string, words ...string) {
		t.Helper()
		out, ok := ctl(t, at, in, args...)
		if ok {
			t.Errorf("agentctl %q succeeded: %s", args, out)
		}
		if lines := strings.Count(out, "\n"); lines != 1 {
			t.Errorf("agentctl %q says %d lines:\n%s", args, lines, out)
		}
		for _, w := range words {
			if !strings.Contains(out, w) {
				t.Errorf("agentctl %q says\n%swant %q in it", args, out, w)
			}
		}
	}
	works("alice", "", "list")
	works("", "", "send", "bob", "first")
	fails(at, "", []string{"send", "bob", "second"}, "bob", "the inbox is full")
	fails(at, "", []string{"create", "no spaces"}, "no spaces", "letters, digits, and - _ . only")
	fails(at, "", []string{"create", "alice"}, "there is an agent alice already")
	fails(at, "", []string{"delete", "alice"}, "alice", "stop the agent first: echo stop > agents/alice/ctl, or agentctl stop alice")
	fails(at, `{"accept": [`, []string{"put", "agents/alice/config"}, "config", "not a whole JSON value; nothing was changed")
	fails(at, `{"acept": []}`, []string{"put", "agents/alice/config"}, "config", `unknown field "acept"`)
	fails(at, "", []string{"cat", "agents/nobody/status"}, "agents/nobody/status", "no agent nobody")
	fails(at, "", []string{"rm", "agents/alice"}, "agents/alice")
	fails(at, "", []string{"token", "nobody"}, "no agent nobody")
	fails(at, "", []string{"token", "alice", "everything"}, "everything")
	fails("tcp:"+address, "", []string{"list"}, "a token is needed as aname; make one with agentctl token")
	fails("unix:"+filepath.Join(d.dir, "nothing"), "", []string{"--wait", "0s", "list"}, filepath.Join(d.dir, "nothing"))
	works("alice", "", "list")
	works("", "", "delete", "--stop", "bob")
	works("", "shutdown", "put", "ctl")
	d.ends(bound)
}
