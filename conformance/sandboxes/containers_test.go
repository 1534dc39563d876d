//go:build linux

package sandboxes

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agent9/conformance/daemon"
	"agent9/conformance/engine"
	"agent9/fsys"
)

// TestContainers runs sessions with real sandboxes.
func TestContainers(t *testing.T) {
	daemon.HelperFor(t)
	t.Run("bwrap", func(t *testing.T) {
		d := daemon.Start(t, "--containers", "main=bwrap:")
		if h := d.RootWith(t, "alice").Read("agents/alice/containers/providers/main/health"); !strings.Contains(h, `"ok":true`) {
			t.Skip(h)
		}
		containers(d, t, "")
		if left, err := filepath.Glob(d.Data() + "/containers/main/*/*"); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	})
	t.Run("docker", func(t *testing.T) {
		e := engine.Start(t)
		image := e.Busybox(t)
		d := daemon.Start(t, "--containers", "main=docker:"+e.Host)
		d.RootWith(t, "alice")
		containers(d, t, image)
		out, err := exec.Command("docker", "-H", e.Host, "ps", "-aq").Output()
		if err == nil && len(bytes.TrimSpace(out)) > 0 {
			t.Errorf("containers are left: %s", out)
		}
	})
	t.Run("unsafe", func(t *testing.T) {
		d := daemon.Start(t, "--unsafe-host-containers")
		r := d.RootWith(t, "alice")
		r.Write("agents/alice/containers/new", "echo ran")
		if got := r.Read("agents/alice/containers/sessions/1/stdout"); got != "ran\n" {
			t.Errorf("%q", got)
		}
	})
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
func containers(d *daemon.Daemon, t *testing.T, image string) {
	const dir = "agents/alice/containers/"
	r := d.As(t).Root()
	r.Write(dir+"policy", `{"price_per_second_microusd":10,"price_per_session_microusd":100}`)
	request := func(fields string) string { return `{"image":"` + image + `",` + fields + `}` }
	n := r.Ask(dir+"new", request(`"keep":true,"workspace":"w","commands":["echo kept > file; a9 cat status; echo ready"]`))
	session := dir + "sessions/" + n
	h := r.Open(session+"/stdout", fsys.Read)
	for all := []byte{}; !bytes.Contains(all, []byte("ready\n")); {
		b := make([]byte, 4096)
		m, err := fsys.ReadAt(daemon.Within(t), h, b, int64(len(all)))
		all = append(all, b[:m]...)
		if err != nil || m == 0 {
			t.Fatalf("%v after %s; %s", err, all, r.Read(session+"/status"))
		}
	}
	x := session + "/exec/" + r.Ask(session+"/exec/new", "echo begun; sleep "+marker)
	h = r.Open(x+"/stdout", fsys.Read)
	if _, err := fsys.ReadAt(daemon.Within(t), h, make([]byte, 16), 0); err != nil {
		t.Fatal(err)
	}
	daemon.Eventually(t, "the command is to be seen, as its end is to be", func() bool { return len(marked(t)) > 0 })
	d.Cmd.Process.Kill()
	<-d.Exited
	d.Start()

	r = d.As(t).Root()
	var status struct {
		State string
		Cost  int64 `json:"cost_microusd"`
		Error struct{ Reason string }
	}
	daemon.Parse(t, r.Read(session+"/status"), &status)
	if status.State != "failed" || status.Error.Reason != "interrupted" || status.Cost < 100 || status.Cost > 1000 {
		t.Errorf("after the crash: %+v", status)
	}
	var usage struct {
		Held  int64 `json:"held_microusd"`
		Total struct {
			Spent int64 `json:"spent_microusd"`
		}
	}
	daemon.Parse(t, r.Read("agents/alice/budget/usage"), &usage)
	if usage.Held != 0 || usage.Total.Spent != status.Cost {
		t.Errorf("the books say %+v, the session cost %d", usage, status.Cost)
	}
	if left := marked(t); len(left) > 0 {
		t.Errorf("it still runs: %v", left)
	}
	if got := r.Read(session + "/files/workspace/file"); got != "kept\n" {
		t.Errorf("the file has %q", got)
	}
	// The workspace goes on.
	n = r.Ask(dir+"new", request(`"workspace":"w","commands":["cat file"]`))
	if got := r.Read(dir + "sessions/" + n + "/stdout"); got != "kept\n" {
		t.Errorf("the next session saw %q; %s", got, r.Read(dir+"sessions/"+n+"/status"))
	}
	r.Read(dir + "sessions/" + n + "/result")
	// An agent that goes leaves nothing.
	r.Write("agents/alice/ctl", "stop")
	r.Remove("agents/alice")
}
