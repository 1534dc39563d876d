package main

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
)

// serveHere runs a daemon in the process of the test, which can then collect
// its garbage, and returns the operator's tree.
func serveHere(t *testing.T) *tree {
	t.Helper()
	dir := newDaemon(t).dir
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
		case <-time.After(limit):
			t.Error("serve did not end")
		}
	})
	select {
	case <-listening:
	case err := <-done:
		done <- err
		t.Fatal(err)
	}
	tr, err := attach(t, "unix", sock, "")
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

func (tr *tree) metric(name string) int {
	tr.t.Helper()
	_, rest, _ := strings.Cut(tr.read("metrics"), "\n"+name+" ")
	n, err := strconv.Atoi(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]))
	if err != nil {
		tr.t.Fatal(err)
	}
	return n
}

// The agents that nobody looks at cost no memory.
func TestIdleAgentsAreDropped(t *testing.T) {
	const agents = 200
	r := serveHere(t)
	for i := range agents {
		name := fmt.Sprintf("agent%d", i)
		r.mkdir("agents", name)
		has(t, "status", r.read("agents/"+name+"/status"), name)
		r.write("agents/"+name+"/inbox/new", "to "+name)
	}
	equal(t, "agents", r.metric("agent9_agents"), agents)

	h := r.open("agents/agent7/inbox/next", fsys.Read)
	first := r.begin(h)
	first.ends(t)
	reader := r.begin(r.open("agents/agent7/inbox/next", fsys.Read)) // keeps its agent
	few := func() bool {
		runtime.GC()
		return r.metric("agent9_agents_in_memory") <= 10
	}
	eventually(t, "few agents are in memory", few)
	reader.waits(t)

	// Who comes again finds everything, and finds the one agent that others use.
	has(t, "a message", r.read("agents/agent42/inbox/next"), "to agent42")
	for range 3 {
		runtime.GC()
	}
	r.write("agents/agent7/inbox/new", "woken")
	reader.ends(t)
	has(t, "the reader of agent7", reader.text, "woken")

	// So do readers that came by different ways, and with many rebuilds between.
	own := r.begin(r.open("agents/agent9/logs/trace", fsys.Read))
	for range 20 {
		runtime.GC()
		r.read("agents/agent8/status")
	}
	r.write("agents/agent9/logs/write", "a line")
	own.ends(t)
	has(t, "the trace of agent9", own.text, `"text":"a line"`)
	events := r.begin(r.open("events", fsys.Read))
	r.write("agents/agent10/logs/write", "seen")
	events.ends(t)
	has(t, "events", events.text, `"agent":"agent10"`, `"text":"seen"`)
	eventually(t, "few agents are in memory", few)
}

// An agent that is built again and again leaves nothing each time.
func TestRebuiltAgentLeavesNothing(t *testing.T) {
	r := serveHere(t)
	r.mkdir("agents", "alice")
	ctx := within(t)
	touch := func(n int) (heap uint64) {
		for range n {
			if _, err := fsys.ReadFile(ctx, r.root, "agents/alice/status"); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the agent is dropped", func() bool {
				runtime.GC()
				b, err := fsys.ReadFile(ctx, r.root, "metrics")
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
