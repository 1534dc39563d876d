package main

import (
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
	path := filepath.Dir(buildAgentctl(t)) + ":" + os.Getenv("PATH")
	return fmt.Sprintf(`{"program":{"exec":%q,"env":{"PATH":%q}},"tick":{"retries":0}}`, script, path)
}

func TestExampleSummarise(t *testing.T) {
	d := startDaemon(t)
	r := d.root()
	r.mkdir("agents", "bob")
	r.agent("alice", example(t, "summarise.sh"))
	id := r.ask("agents/bob/outbox/new", `{"to":"alice","body":"a long text"}`)
	answer := r.read("agents/bob/inbox/next")
	has(t, "the answer", answer, `"from":"alice"`, `"reply_to":"`+id+`"`, "Summarise in one sentence: a long text")
	r.write("agents/alice/inbox/new", "of the operator")
	r.until("alice", "state/latest", "of the operator")
	for _, l := range r.ended("alice", 2) {
		equal(t, "outcome", l.Outcome, "done")
	}
}

func TestExampleTalk(t *testing.T) {
	d := startDaemon(t)
	r := d.root()
	for _, name := range []string{"alice", "bob"} {
		r.agent(name, example(t, "talk.sh"))
	}
	r.write("agents/alice/inbox/new", `{"body":4}`)
	r.until("alice", "state/heard", "0\n")
	equal(t, "what bob heard", r.read("agents/bob/state/heard"), "1\n")
	equal(t, "alice's ticks", len(r.ended("alice", 3)), 3)
}

func TestExampleMorning(t *testing.T) {
	d := startDaemon(t)
	r := d.root()
	r.agent("alice", example(t, "morning.sh"))
	for range 2 {
		r.write("agents/alice/ctl", "tick")
	}
	r.until("alice", "status", `"count":2,"failed":0,"last_tick"`)
	ctl := r.read("agents/alice/ctl")
	equal(t, "alarms", strings.Count(ctl, "# alarm"), 1)
	has(t, "ctl", ctl, "T0", "TZ=Europe/Berlin 0 8 * * 1-5\tgood morning")
	r.write("agents/alice/ctl", "alarm +0s good morning")
	r.until("alice", "state/said", "good morning\n")
}

func TestExampleGo(t *testing.T) {
	d := startDaemon(t)
	r := d.root()
	r.agent("alice", `{"program":{"go":"echo"}}`)
	r.mkdir("agents", "bob")
	r.write("agents/bob/outbox/new", `{"to":"alice","body":{"a":1}}`)
	has(t, "the answer", r.read("agents/bob/inbox/next"), `"body":{"a":1}`, `"type":"echo"`)
	equal(t, "state", r.read("agents/alice/state/echoed"), "1\n")
}

func TestExampleHTTP(t *testing.T) {
	d := startDaemon(t)
	r := d.root()
	r.mkdir("agents", "bob")
	asked := make(chan string, 1)
	url := hook(t, func(_, trigger string) (int, string) {
		asked <- trigger
		return 200, `{"messages":[{"to":"bob","body":"hi"}],"alarms":[{"when":"+1h","text":"look"}],"state":{"seen":"17\n"},"log":"told"}`
	})
	r.agent("alice", `{"program":{"http":{"url":"`+url+`"}}}`)
	r.write("agents/alice/inbox/new", "x")
	has(t, "the message", r.read("agents/bob/inbox/next"), `"body":"hi"`)
	has(t, "the trigger", <-asked, `"cause":"message"`, `"body":"x"`)
	equal(t, "state", r.read("agents/alice/state/seen"), "17\n")
	has(t, "ctl", r.read("agents/alice/ctl"), "\tlook\n")
	has(t, "output", r.read("agents/alice/logs/output"), "told")
}
