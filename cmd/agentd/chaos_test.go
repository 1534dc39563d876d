package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"agent9/conformance/daemon"
	"agent9/fsys"
)

// Agents that come and go while others use them: every operation works or is
// refused in words that say why, and what is left is whole.
func TestAgentsComeAndGo(t *testing.T) {
	d := daemon.Start(t)
	names := []string{"a", "b", "c"}
	ctl := func(r *daemon.Tree, words string) error {
		_, err := fsys.Converse(daemon.Within(t), r.Root, "ctl", []byte(words))
		return err
	}
	deeds := []func(r *daemon.Tree, name, other string) error{
		func(r *daemon.Tree, name, _ string) error { return r.TryMkdir("agents", name) },
		func(r *daemon.Tree, name, _ string) error { return r.TryMkdir("agents", name) },
		func(r *daemon.Tree, name, _ string) error {
			if err := r.TryWrite("agents/"+name+"/ctl", "stop"); err != nil {
				return err
			}
			return r.TryRemove("agents/" + name)
		},
		func(r *daemon.Tree, name, _ string) error { return r.TryWrite("agents/"+name+"/inbox/new", "x") },
		func(r *daemon.Tree, name, _ string) error { return r.TryMake("agents/"+name+"/goals", "g", "x") },
		func(r *daemon.Tree, name, other string) error {
			return r.TryWrite("agents/"+name+"/outbox/new", `{"to":"`+other+`","body":1}`)
		},
		func(r *daemon.Tree, name, _ string) error { return ctl(r, "token "+name) },
		func(r *daemon.Tree, name, _ string) error { return ctl(r, "socket "+name) },
		func(r *daemon.Tree, name, _ string) error {
			_, err := r.TryRead("agents/" + name + "/status")
			return err
		},
		func(r *daemon.Tree, name, _ string) error { return r.TryWrite("agents/"+name+"/ctl", "start") },
	}
	expected := []fsys.Code{fsys.NotExist, fsys.Exist, fsys.Busy}
	var all sync.WaitGroup
	for w := range 6 {
		r := d.Root()
		all.Go(func() {
			for i := range 150 {
				name, other := names[(i+w)%len(names)], names[(i*7+w*5)%len(names)]
				if err := deeds[(i*3+w*7)%len(deeds)](r, name, other); err != nil && !slices.Contains(expected, fsys.CodeOf(err)) {
					t.Errorf("deed %d on %s: %v", (i*3+w*7)%len(deeds), name, err)
				}
			}
		})
	}
	all.Wait()

	r := d.Root()
	check := func() {
		t.Helper()
		for _, name := range strings.Fields(r.List("agents")) {
			daemon.Has(t, "status", r.Read("agents/"+name+"/status"), `"name":"`+name+`"`)
			r.Ask("agents/"+name+"/identity/sign", "x")
			r.Write("agents/"+name+"/inbox/new", "x")
		}
		for _, id := range strings.Fields(r.List("tokens")) {
			_, rest, _ := strings.Cut(r.Read("tokens/"+id), `"agent":"`)
			agent, _, _ := strings.Cut(rest, `"`)
			if !slices.Contains(strings.Fields(r.List("agents")), agent) {
				t.Errorf("a token is left of %s, which is gone", agent)
			}
		}
	}
	check()
	d.Kill()
	d.Start()
	r = d.Root()
	check()
	for _, name := range strings.Fields(r.List("agents")) {
		r.Write("agents/"+name+"/ctl", "stop")
		r.Remove("agents/" + name)
	}
	daemon.Equal(t, "tokens", r.List("tokens"), "")
	if left, err := os.ReadDir(filepath.Join(d.Data(), "sockets")); err == nil && len(left) > 0 {
		t.Errorf("sockets are left: %v", left)
	}
}

// What is sent is in both places or in none, whenever the daemon dies; an
// agent is there whole or not at all.
func TestKillBetweenAgents(t *testing.T) {
	d := daemon.Start(t)
	r := d.Root()
	r.Mkdir("agents", "alice")
	r.Mkdir("agents", "bob")
	sent, made := map[string]bool{}, map[string]bool{}
	for round := range 3 {
		var mu sync.Mutex
		var all sync.WaitGroup
		count := 0
		acknowledged := func(m map[string]bool, what string) {
			mu.Lock()
			defer mu.Unlock()
			m[what] = true
			if count++; count == 60 {
				d.Cmd.Process.Kill()
			}
		}
		for w := range 4 {
			tr := d.Root()
			all.Go(func() {
				for i := 0; ; i++ {
					if w < 3 {
						id := fmt.Sprintf("m%d-%d-%d", round, w, i)
						if tr.TryWrite("agents/alice/outbox/new", `{"to":"bob","id":"`+id+`","body":1}`) != nil {
							return
						}
						acknowledged(sent, id)
					} else {
						name := fmt.Sprintf("x%d-%d", round, i)
						if tr.TryMkdir("agents", name) != nil {
							return
						}
						acknowledged(made, name)
					}
				}
			})
		}
		all.Wait()
		<-d.Exited
		d.Start()
		r = d.Root()
		inbox := strings.Fields(r.List("agents/bob/inbox"))
		log := r.Tail("agents/alice/outbox/sent")
		for id := range sent {
			if !slices.Contains(inbox, id) || strings.Count(log, `"id":"`+id+`"`) != 1 {
				t.Errorf("round %d: %s was sent: in the inbox %v, in sent %d times", round, id, slices.Contains(inbox, id), strings.Count(log, `"id":"`+id+`"`))
			}
		}
		daemon.Equal(t, "messages in the inbox", len(inbox)-len(strings.Fields(daemon.InboxFiles)), strings.Count(log, "\n"))
		agents := strings.Fields(r.List("agents"))
		for name := range made {
			if !slices.Contains(agents, name) {
				t.Errorf("round %d: the agent %s is not there", round, name)
			}
		}
		for _, name := range agents {
			if signature := r.Ask("agents/"+name+"/identity/sign", "x"); len(signature) != 128 {
				t.Errorf("the agent %s signs with %q", name, signature)
			}
		}
	}
}

// A daemon that is asked to end while many write: what it acknowledged is
// there, and the others were told.
func TestEndWhileWriting(t *testing.T) {
	d, _, _ := daemon.OneAgent(t)
	var mu sync.Mutex
	var all sync.WaitGroup
	kept := map[string]string{}
	for w := range 6 {
		tr := d.At("/agents/alice")
		all.Go(func() {
			for i := 0; ; i++ {
				name := fmt.Sprintf("w%d-%d", w, i)
				if tr.TryMake("goals", name, name) != nil {
					return
				}
				mu.Lock()
				kept[name] = name
				if len(kept) == 100 {
					d.Cmd.Process.Signal(syscall.SIGTERM)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	d.Ends(daemon.Bound)
	d.Start()
	alice := d.At("/agents/alice")
	for name, text := range kept {
		if got, err := alice.TryRead("goals/" + name); err != nil || got != text {
			t.Errorf("goal %s: got %q, %v", name, got, err)
		}
	}
}
