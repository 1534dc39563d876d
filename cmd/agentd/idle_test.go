package main

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"agent9/conformance/daemon"
	"agent9/fsys"
	"agent9/namespace/budget"
)

// serveHere runs a daemon in the process of the test, which can then collect
// its garbage, and returns the operator's tree.
func serveHere(t *testing.T) *daemon.Tree {
	t.Helper()
	dir := daemon.New(t).Dir
	sock := filepath.Join(dir, "sock")
	ctx, end := context.WithCancel(context.WithoutCancel(t.Context()))
	listening := make(chan string, 1)
	done := make(chan error, 1)
	perDay := budget.Micros(1_000_000)
	go func() {
		done <- serve(ctx, settings{
			data: filepath.Join(dir, "data"), listen: []string{"unix:" + sock}, compute: []string{"echo=echo:"},
			limits: budget.Limits{PerDay: &perDay}, messages: testLog{t}, getenv: func(string) string { return "" },
			listening: func(at string) { listening <- at },
		})
	}()
	t.Cleanup(func() {
		end()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(daemon.Limit):
			t.Error("serve did not end")
		}
	})
	select {
	case <-listening:
	case err := <-done:
		done <- err
		t.Fatal(err)
	}
	tr, err := daemon.Attach(t, "unix", sock, "")
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Logf("agentd: %s", p)
	return len(p), nil
}

// The agents that nobody looks at cost no memory.
func TestIdleAgentsAreDropped(t *testing.T) {
	const agents = 200
	r := serveHere(t)
	for i := range agents {
		name := fmt.Sprintf("agent%d", i)
		r.Mkdir("agents", name)
		daemon.Has(t, "status", r.Read("agents/"+name+"/status"), name)
		r.Write("agents/"+name+"/inbox/new", "to "+name)
	}
	daemon.Equal(t, "agents", r.Metric("agent9_agents"), agents)

	h := r.Open("agents/agent7/inbox/next", fsys.Read)
	first := r.Begin(h)
	first.Ends(t)
	reader := r.Begin(r.Open("agents/agent7/inbox/next", fsys.Read)) // keeps its agent
	few := func() bool {
		runtime.GC()
		return r.Metric("agent9_agents_in_memory") <= 10
	}
	daemon.Eventually(t, "few agents are in memory", few)
	reader.Waits(t)

	// Who comes again finds everything, and finds the one agent that others use.
	daemon.Has(t, "a message", r.Read("agents/agent42/inbox/next"), "to agent42")
	for range 3 {
		runtime.GC()
	}
	r.Write("agents/agent7/inbox/new", "woken")
	reader.Ends(t)
	daemon.Has(t, "the reader of agent7", reader.Text, "woken")

	// So do readers that came by different ways, and with many rebuilds between.
	own := r.Begin(r.Open("agents/agent9/logs/trace", fsys.Read))
	for range 20 {
		runtime.GC()
		r.Read("agents/agent8/status")
	}
	r.Write("agents/agent9/logs/write", "a line")
	own.Ends(t)
	daemon.Has(t, "the trace of agent9", own.Text, `"text":"a line"`)
	events := r.Begin(r.Open("events", fsys.Read))
	r.Write("agents/agent10/logs/write", "seen")
	events.Ends(t)
	daemon.Has(t, "events", events.Text, `"agent":"agent10"`, `"text":"seen"`)
	daemon.Eventually(t, "few agents are in memory", few)
}

// An agent that is built again and again leaves nothing each time.
func TestRebuiltAgentLeavesNothing(t *testing.T) {
	r := serveHere(t)
	r.Mkdir("agents", "alice")
	ctx := daemon.Within(t)
	touch := func(n int) (heap uint64) {
		for range n {
			if _, err := fsys.ReadFile(ctx, r.Root, "agents/alice/status"); err != nil {
				t.Fatal(err)
			}
			daemon.Eventually(t, "the agent is dropped", func() bool {
				runtime.GC()
				b, err := fsys.ReadFile(ctx, r.Root, "metrics")
				return err == nil && strings.Contains(string(b), "\nagent9_agents_in_memory 0\n")
			})
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapObjects
	}
	before := touch(30)
	const times = 150
	if after := touch(times); after > before+times/2 {
		t.Errorf("%d objects, and %d before the agent was built %d times more", after, before, times)
	}
}
