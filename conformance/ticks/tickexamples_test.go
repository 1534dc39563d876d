package ticks

import (
	"agent9/conformance/daemon"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// example is the config of an agent whose program is one of the manual's.
func example(t *testing.T, name string) string {
	t.Helper()
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("the manual's scripts need jq")
	}
	script, err := filepath.Abs(filepath.Join("../../docs/examples", name))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Dir(daemon.Agentctl(t)) + ":" + os.Getenv("PATH")
	return fmt.Sprintf(`{"program":{"exec":%q,"env":{"PATH":%q}},"tick":{"retries":0}}`, script, path)
}

func TestExampleSummarise(t *testing.T) {
	d := daemon.Start(t)
	r := d.Root()
	r.Mkdir("agents", "bob")
	r.Agent("alice", example(t, "summarise.sh"))
	id := r.Ask("agents/bob/outbox/new", `{"to":"alice","body":"a long text"}`)
	answer := r.Read("agents/bob/inbox/next")
	daemon.Has(t, "the answer", answer, `"from":"alice"`, `"reply_to":"`+id+`"`, "Summarise in one sentence: a long text")
	r.Write("agents/alice/inbox/new", "of the operator")
	r.Until("alice", "state/latest", "of the operator")
	for _, l := range r.Ended("alice", 2) {
		daemon.Equal(t, "outcome", l.Outcome, "done")
	}
}

func TestExampleTalk(t *testing.T) {
	d := daemon.Start(t)
	r := d.Root()
	for _, name := range []string{"alice", "bob"} {
		r.Agent(name, example(t, "talk.sh"))
	}
	r.Write("agents/alice/inbox/new", `{"body":4}`)
	r.Until("alice", "state/heard", "0\n")
	daemon.Equal(t, "what bob heard", r.Read("agents/bob/state/heard"), "1\n")
	daemon.Equal(t, "alice's ticks", len(r.Ended("alice", 3)), 3)
}

func TestExampleMorning(t *testing.T) {
	d := daemon.Start(t)
	r := d.Root()
	r.Agent("alice", example(t, "morning.sh"))
	for range 2 {
		r.Write("agents/alice/ctl", "tick")
	}
	r.Until("alice", "status", `"count":2,"failed":0,"last_tick"`)
	ctl := r.Read("agents/alice/ctl")
	daemon.Equal(t, "alarms", strings.Count(ctl, "# alarm"), 1)
	daemon.Has(t, "ctl", ctl, "T0", "TZ=Europe/Berlin 0 8 * * 1-5\tgood morning")
	r.Write("agents/alice/ctl", "alarm +0s good morning")
	r.Until("alice", "state/said", "good morning\n")
}

func TestExampleGo(t *testing.T) {
	d := daemon.Start(t)
	r := d.Root()
	r.Agent("alice", `{"program":{"go":"echo"}}`)
	r.Mkdir("agents", "bob")
	r.Write("agents/bob/outbox/new", `{"to":"alice","body":{"a":1}}`)
	daemon.Has(t, "the answer", r.Read("agents/bob/inbox/next"), `"body":{"a":1}`, `"type":"echo"`)
	daemon.Equal(t, "state", r.Read("agents/alice/state/echoed"), "1\n")
}

func TestExampleHTTP(t *testing.T) {
	d := daemon.Start(t)
	r := d.Root()
	r.Mkdir("agents", "bob")
	asked := make(chan string, 1)
	url := hook(t, func(_, trigger string) (int, string) {
		asked <- trigger
		return 200, `{"messages":[{"to":"bob","body":"hi"}],"alarms":[{"when":"+1h","text":"look"}],"state":{"seen":"17\n"},"log":"told"}`
	})
	r.Agent("alice", `{"program":{"http":{"url":"`+url+`"}}}`)
	r.Write("agents/alice/inbox/new", "x")
	daemon.Has(t, "the message", r.Read("agents/bob/inbox/next"), `"body":"hi"`)
	daemon.Has(t, "the trigger", <-asked, `"cause":"message"`, `"body":"x"`)
	daemon.Equal(t, "state", r.Read("agents/alice/state/seen"), "17\n")
	daemon.Has(t, "ctl", r.Read("agents/alice/ctl"), "\tlook\n")
	daemon.Has(t, "output", r.Read("agents/alice/logs/output"), "told")
}
