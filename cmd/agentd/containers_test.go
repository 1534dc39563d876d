//go:build linux

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agent9/conformance/engine"
	"agent9/fsys"
)

// TestContainers runs sessions with real sandboxes.
func TestContainers(t *testing.T) {
	helperFor(t)
	t.Run("bwrap", func(t *testing.T) {
		d := startDaemon(t, "--containers", "main=bwrap:")
		if h := d.rootWith(t, "alice").read("agents/alice/containers/providers/main/health"); !strings.Contains(h, `"ok":true`) {
			t.Skip(h)
		}
		d.containers(t, "")
		if left, err := filepath.Glob(d.data() + "/containers/main/*/*"); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	})
	t.Run("docker", func(t *testing.T) {
		e := engine.Start(t)
		image := e.Busybox(t)
		d := startDaemon(t, "--containers", "main=docker:"+e.Host)
		d.rootWith(t, "alice")
		d.containers(t, image)
		out, err := exec.Command("docker", "-H", e.Host, "ps", "-aq").Output()
		if err == nil && len(bytes.TrimSpace(out)) > 0 {
			t.Errorf("containers are left: %s", out)
		}
	})
	t.Run("unsafe", func(t *testing.T) {
		d := startDaemon(t, "--unsafe-host-containers")
		r := d.rootWith(t, "alice")
		r.write("agents/alice/containers/new", "echo ran")
		if got := r.read("agents/alice/containers/sessions/1/stdout"); got != "ran\n" {
			t.Errorf("%q", got)
		}
	})
}

// rootWith is the operator's tree with an agent.
func (d *daemon) rootWith(t *testing.T, agent string) *tree {
	t.Helper()
	r := d.as(t).root()
	r.mkdir("agents", agent)
	return r
}

// marker is in the command line of a process that no other test starts.
const marker = "98765.4321"

func marked(t *testing.T) (pids []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if b, err := os.ReadFile(p); err == nil && bytes.Contains(b, []byte("sleep\x00"+marker)) {
			pids = append(pids, p)
		}
	}
	return pids
}

// containers kills the daemon in the middle of a session that costs money.
func (d *daemon) containers(t *testing.T, image string) {
	const dir = "agents/alice/containers/"
	r := d.as(t).root()
	r.write(dir+"policy", `{"price_per_second_microusd":10,"price_per_session_microusd":100}`)
	request := func(fields string) string { return `{"image":"` + image + `",` + fields + `}` }
	n := r.ask(dir+"new", request(`"keep":true,"workspace":"w","commands":["echo kept > file; a9 cat status; echo ready"]`))
	session := dir + "sessions/" + n
	h := r.open(session+"/stdout", fsys.Read)
	for all := []byte{}; !bytes.Contains(all, []byte("ready\n")); {
		b := make([]byte, 4096)
		m, err := fsys.ReadAt(within(t), h, b, int64(len(all)))
		all = append(all, b[:m]...)
		if err != nil || m == 0 {
			t.Fatalf("%v after %s; %s", err, all, r.read(session+"/status"))
		}
	}
	x := session + "/exec/" + r.ask(session+"/exec/new", "echo begun; sleep "+marker)
	h = r.open(x+"/stdout", fsys.Read)
	if _, err := fsys.ReadAt(within(t), h, make([]byte, 16), 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the command is to be seen, as its end is to be", func() bool { return len(marked(t)) > 0 })
	d.cmd.Process.Kill()
	<-d.exited
	d.start()

	r = d.as(t).root()
	var status struct {
		State string
		Cost  int64 `json:"cost_microusd"`
		Error struct{ Reason string }
	}
	parse(t, r.read(session+"/status"), &status)
	if status.State != "failed" || status.Error.Reason != "interrupted" || status.Cost < 100 || status.Cost > 1000 {
		t.Errorf("after the crash: %+v", status)
	}
	var usage struct {
		Held  int64 `json:"held_microusd"`
		Total struct {
			Spent int64 `json:"spent_microusd"`
		}
	}
	parse(t, r.read("agents/alice/budget/usage"), &usage)
	if usage.Held != 0 || usage.Total.Spent != status.Cost {
		t.Errorf("the books say %+v, the session cost %d", usage, status.Cost)
	}
	if left := marked(t); len(left) > 0 {
		t.Errorf("it still runs: %v", left)
	}
	if got := r.read(session + "/files/workspace/file"); got != "kept\n" {
		t.Errorf("the file has %q", got)
	}
	// The workspace goes on.
	n = r.ask(dir+"new", request(`"workspace":"w","commands":["cat file"]`))
	if got := r.read(dir + "sessions/" + n + "/stdout"); got != "kept\n" {
		t.Errorf("the next session saw %q; %s", got, r.read(dir+"sessions/"+n+"/status"))
	}
	r.read(dir + "sessions/" + n + "/result")
	// An agent that goes leaves nothing.
	r.write("agents/alice/ctl", "stop")
	r.remove("agents/alice")
}
