package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"agent9/fsys"
)

// A message that a tick sends to its own agent has the room of the one that
// set the tick off.
func TestMessageToItself(t *testing.T) {
	d := startDaemon(t)
	r := d.root()
	r.agent("alice", d.config("relay", `,"inbox":{"limit":1}`))
	r.write("agents/alice/inbox/new", `{"body":"3 alice"}`)
	r.until("alice", "logs/ticks", `"id":"4"`)
	r.until("alice", "status", `"state":"hibernating"`)
	has(t, "status", r.read("agents/alice/status"), `"queues":{"inbox":0,"deadletter":0,`)
	equal(t, "ticks", len(r.ticks("alice")), 4)
}

// gated is an agent whose program changes state, waits, and changes it again.
type gated struct {
	*tree
	name, gate, config string
}

func newGated(t *testing.T, d *daemon, name string) *gated {
	g := &gated{tree: d.root(), name: name, gate: filepath.Join(d.dir, name+".gate")}
	if err := syscall.Mkfifo(g.gate, 0o600); err != nil {
		t.Skip("no named pipes here: ", err)
	}
	ctl := buildAgentctl(t)
	g.config = fmt.Sprintf(`{"program":{"exec":%q}}`, "echo first | "+ctl+" put state/a; read go <"+g.gate+"; echo second | "+ctl+" put state/b")
	g.agent(name, g.config)
	return g
}

// begins starts a tick and waits until the program is at its gate.
func (g *gated) begins() (open func()) {
	g.t.Helper()
	g.write("agents/"+g.name+"/inbox/new", "x")
	f, err := os.OpenFile(g.gate, os.O_WRONLY, 0)
	if err != nil {
		g.t.Fatal(err)
	}
	return func() { f.Close() }
}

// A config that is written during a tick counts from the next one on: the tick
// ends as it began.
func TestConfigDuringATick(t *testing.T) {
	d := startDaemon(t)
	g := newGated(t, d, "alice")
	for i, config := range []string{d.config("note", ""), `{}`} {
		open := g.begins()
		g.write("agents/alice/config", config)
		equal(t, "files meanwhile", g.list("agents/alice/state"), []string{"", "a b log"}[i])
		open()
		g.until("alice", "logs/ticks", fmt.Sprintf(`"id":"%d"`, 2*i+1))
		equal(t, "the tick", g.ticks("alice")[2*i].Outcome, "done")
		equal(t, "state/b", g.read("agents/alice/state/b"), "second\n")
		if i == 0 {
			g.write("agents/alice/inbox/new", "y")
			g.until("alice", "state/log", "message y")
		}
		equal(t, "inbox", g.list("agents/alice/inbox"), inboxFiles)
		g.write("agents/alice/config", g.config)
	}
}

// An agent that works is not removed, and nothing of its tick is undone for
// the attempt; once it is stopped it is removed with all that it was doing.
func TestRemoveDuringATick(t *testing.T) {
	d := startDaemon(t)
	g := newGated(t, d, "alice")
	open := g.begins()
	refused(t, "removing it meanwhile", g.tryRemove("agents/alice"), fsys.Busy)
	open()
	g.until("alice", "logs/ticks", "done")
	open = g.begins()
	defer open()
	g.write("agents/alice/ctl", "stop")
	g.remove("agents/alice")
	g.mkdir("agents", "alice")
	equal(t, "the files of one of the same name", g.list("agents/alice/state"), "")
	hasNot(t, "its history", g.read("agents/alice/logs/ticks"), "stopped")
	if left, err := os.ReadDir(filepath.Join(d.data(), "ticks")); err != nil || len(left) > 0 {
		t.Errorf("directories of its ticks are left: %v, %v", left, err)
	}
}
