//go:build linux

package sandboxes

import (
	"fmt"
	"strings"
	"testing"

	"agent9/conformance/daemon"
	"agent9/fsys"
)

// A program in a container has the tick's namespace without any network: what
// it does there is stored when it ends well, and not at all otherwise, and
// nothing of the container is left.
func TestProgramInAContainer(t *testing.T) {
	daemon.HelperFor(t)
	d := daemon.Start(t, "--containers", "main=bwrap:")
	r := d.RootWith(t, "probe")
	if h := r.Read("agents/probe/containers/providers/main/health"); !strings.Contains(h, `"ok":true`) {
		t.Skip(h)
	}
	r.Mkdir("agents", "bob")
	const note = `cat > /tmp/t; a9 write state/seen </tmp/t; echo '{"to":"bob","body":"from inside"}' | a9 write outbox/new; `
	for _, c := range []struct {
		name, script, tick string
		outcome, reason    string
		stored             bool
	}{
		{"good", note + "echo printed", "", "done", "", true},
		{"fails", note + "echo why; exit 3", "", "failed", "the command exited with 3", false},
		{"dies", note + "kill -SEGV $$", "", "killed", "the command was killed by SIGSEGV", false},
		{"hangs", note + "sleep " + marker, `"timeout_s":2,`, "timed out", "the program did not end in time", false},
		{"floods", note + "exec yes", `"output_bytes":100000,`, "flooded", "the program printed more than is allowed", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := r.As(t)
			program := fmt.Sprintf(`{"container":{"command":["sh","-c",%q]}}`, c.script)
			r.Agent(c.name, `{"program":`+program+`,"tick":{`+c.tick+`"retries":0}}`)
			id := r.Ask("agents/"+c.name+"/inbox/new", "hello")
			r.Until(c.name, "logs/ticks", "\n")
			got := r.Ticks(c.name)[0]
			daemon.Equal(t, "outcome", got.Outcome+": "+got.Reason, c.outcome+": "+c.reason)
			daemon.Equal(t, "sessions left", r.List("agents/"+c.name+"/containers/sessions"), "")
			if left := marked(t); len(left) > 0 {
				t.Errorf("it still runs: %v", left)
			}
			if !c.stored {
				daemon.Equal(t, "state", r.List("agents/"+c.name+"/state"), "")
				daemon.Has(t, "status", r.Read("agents/"+c.name+"/status"), `"deadletter":1`)
				return
			}
			daemon.Has(t, "state", r.Read("agents/"+c.name+"/state/seen"), id)
			daemon.Has(t, "output", r.Read("agents/"+c.name+"/logs/output"), "printed")
			daemon.Has(t, "the message", r.Read("agents/bob/inbox/head"), `"body":"from inside"`)
		})
	}
	t.Run("refused", func(t *testing.T) {
		r := r.As(t)
		r.Agent("refused", `{"program":{"container":{"command":["true"],"network":true}},"tick":{"retries":0}}`)
		r.Write("agents/refused/ctl", "tick")
		r.Until("refused", "logs/ticks", "\n")
		got := r.Ticks("refused")[0]
		daemon.Equal(t, "outcome", got.Outcome+": "+got.Reason, "refused: the container: the policy allows no network")
	})
	t.Run("prompt", func(t *testing.T) {
		r := r.As(t)
		r.Agent("prompt", `{"program":{"container":{"command":["sh","-c","echo answered"]}}}`)
		s := "agents/prompt/sessions/" + r.Ask("agents/prompt/sessions/new", "{}")
		r.Write(s+"/prompt", "a question")
		b := make([]byte, 64)
		n, err := fsys.ReadAt(daemon.Within(t), r.Open(s+"/stream", fsys.Read), b, 0)
		if err != nil || string(b[:n]) != "answered\n" {
			t.Errorf("%q, %v; %s", b[:n], err, r.Read(s+"/status"))
		}
	})
}
