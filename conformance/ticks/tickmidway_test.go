package ticks

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"agent9/conformance/daemon"
	"agent9/fsys"
)

// A message that a tick sends to its own agent has the room of the one that
// set the tick off.
func TestMessageToItself(t *testing.T) {
	d := daemon.Start(t)
	r := d.Root()
	r.Agent("alice", d.Config("relay", `,"inbox":{"limit":1}`))
	r.Write("agents/alice/inbox/new", `{"body":"3 alice"}`)
	r.Until("alice", "logs/ticks", `"id":"4"`)
	r.Until("alice", "status", `"state":"hibernating"`)
	daemon.Has(t, "status", r.Read("agents/alice/status"), `"queues":{"inbox":0,"deadletter":0,`)
	daemon.Equal(t, "ticks", len(r.Ticks("alice")), 4)
}

// gated is an agent whose program changes state, waits, and changes it again.
type gated struct {
	*daemon.Tree
	name, gate, config string
}

func newGated(t *testing.T, d *daemon.Daemon, name string) *gated {
	g := &gated{Tree: d.Root(), name: name, gate: filepath.Join(d.Dir, name+".gate")}
	if err := syscall.Mkfifo(g.gate, 0o600); err != nil {
		t.Skip("no named pipes here: ", err)
	}
	ctl := daemon.Agentctl(t)
	g.config = fmt.Sprintf(`{"program":{"exec":%q}}`, "echo first | "+ctl+" put state/a; read go <"+g.gate+"; echo second | "+ctl+" put state/b")
	g.Agent(name, g.config)
	return g
}

// begins starts a tick and waits until the program is at its gate.
func (g *gated) begins() (open func()) {
	g.T.Helper()
	g.Write("agents/"+g.name+"/inbox/new", "x")
	f, err := os.OpenFile(g.gate, os.O_WRONLY, 0)
	if err != nil {
		g.T.Fatal(err)
	}
	return func() { f.Close() }
}

// A config that is written during a tick counts from the next one on: the tick
// ends as it began.
func TestConfigDuringATick(t *testing.T) {
	d := daemon.Start(t)
	g := newGated(t, d, "alice")
	for i, config := range []string{d.Config("note", ""), `{}`} {
		open := g.begins()
		g.Write("agents/alice/config", config)
		daemon.Equal(t, "files meanwhile", g.List("agents/alice/state"), []string{"", "a b log"}[i])
		open()
		g.Until("alice", "logs/ticks", fmt.Sprintf(`"id":"%d"`, 2*i+1))
		daemon.Equal(t, "the tick", g.Ticks("alice")[2*i].Outcome, "done")
		daemon.Equal(t, "state/b", g.Read("agents/alice/state/b"), "second\n")
		if i == 0 {
			g.Write("agents/alice/inbox/new", "y")
			g.Until("alice", "state/log", "message y")
		}
		daemon.Equal(t, "inbox", g.List("agents/alice/inbox"), daemon.InboxFiles)
		g.Write("agents/alice/config", g.config)
	}
}

// An agent that works is not removed, and nothing of its tick is undone for
// the attempt; once it is stopped it is removed with all that it was doing.
func TestRemoveDuringATick(t *testing.T) {
	d := daemon.Start(t)
	g := newGated(t, d, "alice")
	open := g.begins()
	daemon.Refused(t, "removing it meanwhile", g.TryRemove("agents/alice"), fsys.Busy)
	open()
	g.Until("alice", "logs/ticks", "done")
	open = g.begins()
	defer open()
	g.Write("agents/alice/ctl", "stop")
	g.Remove("agents/alice")
	g.Mkdir("agents", "alice")
	daemon.Equal(t, "the files of one of the same name", g.List("agents/alice/state"), "")
	daemon.HasNot(t, "its history", g.Read("agents/alice/logs/ticks"), "stopped")
	if left, err := os.ReadDir(filepath.Join(d.Data(), "ticks")); err != nil || len(left) > 0 {
		t.Errorf("directories of its ticks are left: %v, %v", left, err)
	}
}
