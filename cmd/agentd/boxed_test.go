//go:build linux

package main

import (
	"fmt"
	"strings"
	"testing"

	"agent9/fsys"
)

// A program in a container has the tick's namespace without any network: what
// it does there is stored when it ends well, and not at all otherwise, and
// nothing of the container is left.
func TestProgramInAContainer(t *testing.T) {
	helperFor(t)
	d := startDaemon(t, "--containers", "main=bwrap:")
	r := d.rootWith(t, "probe")
	if h := r.read("agents/probe/containers/providers/main/health"); !strings.Contains(h, `"ok":true`) {
		t.Skip(h)
	}
	r.mkdir("agents", "bob")
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
			r := r.as(t)
			program := fmt.Sprintf(`{"container":{"command":["sh","-c",%q]}}`, c.script)
			r.agent(c.name, `{"program":`+program+`,"tick":{`+c.tick+`"retries":0}}`)
			id := r.ask("agents/"+c.name+"/inbox/new", "hello")
			r.until(c.name, "logs/ticks", "\n")
			got := r.ticks(c.name)[0]
			equal(t, "outcome", got.Outcome+": "+got.Reason, c.outcome+": "+c.reason)
			equal(t, "sessions left", r.list("agents/"+c.name+"/containers/sessions"), "")
			if left := marked(t); len(left) > 0 {
				t.Errorf("it still runs: %v", left)
			}
			if !c.stored {
				equal(t, "state", r.list("agents/"+c.name+"/state"), "")
				has(t, "status", r.read("agents/"+c.name+"/status"), `"deadletter":1`)
				return
			}
			has(t, "state", r.read("agents/"+c.name+"/state/seen"), id)
			has(t, "output", r.read("agents/"+c.name+"/logs/output"), "printed")
			has(t, "the message", r.read("agents/bob/inbox/head"), `"body":"from inside"`)
		})
	}
	t.Run("refused", func(t *testing.T) {
		r := r.as(t)
		r.agent("refused", `{"program":{"container":{"command":["true"],"network":true}},"tick":{"retries":0}}`)
		r.write("agents/refused/ctl", "tick")
		r.until("refused", "logs/ticks", "\n")
		got := r.ticks("refused")[0]
		equal(t, "outcome", got.Outcome+": "+got.Reason, "refused: the container: the policy allows no network")
	})
	t.Run("prompt", func(t *testing.T) {
		r := r.as(t)
		r.agent("prompt", `{"program":{"container":{"command":["sh","-c","echo answered"]}}}`)
		s := "agents/prompt/sessions/" + r.ask("agents/prompt/sessions/new", "{}")
		r.write(s+"/prompt", "a question")
		b := make([]byte, 64)
		n, err := fsys.ReadAt(within(t), r.open(s+"/stream", fsys.Read), b, 0)
		if err != nil || string(b[:n]) != "answered\n" {
			t.Errorf("%q, %v; %s", b[:n], err, r.read(s+"/status"))
		}
	})
}
