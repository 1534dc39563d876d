package main

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"agent9/conformance/daemon"
	"agent9/fsys"
)

// What was acknowledged is there after kill -9, once, however often.
func TestKill(t *testing.T) {
	const writers, rounds, enough = 8, 5, 200
	d := daemon.Start(t)
	r := d.Root()
	r.Mkdir("agents", "alice")
	r.Write("agents/alice/config", `{"inbox": {"limit": 100000}}`)

	messages, goals := map[string]bool{}, map[string]string{} // that were acknowledged
	for round := range rounds {
		var mu sync.Mutex
		var all sync.WaitGroup
		acknowledged := 0
		for w := range writers {
			tr := d.At("/agents/alice")
			all.Go(func() {
				for i := 0; ; i++ {
					name := fmt.Sprintf("r%d-w%d-%d", round, w, i)
					message := i%2 == 0
					var err error
					if message {
						err = tr.TryWrite("inbox/new", `{"id":"`+name+`","body":`+strconv.Itoa(i)+`}`)
					} else {
						err = tr.TryMake("goals", name, "goal "+name)
					}
					if err != nil {
						return // it was killed
					}
					mu.Lock()
					if message {
						messages[name] = true
					} else {
						goals[name] = "goal " + name
					}
					if acknowledged++; acknowledged == enough {
						d.Cmd.Process.Kill() // while the others write
					}
					mu.Unlock()
				}
			})
		}
		// Somebody is in the middle of a message.
		taker := d.At("/agents/alice")
		next := taker.Open("inbox/next", fsys.Read)
		taken := make([]byte, 1<<16)
		n, err := fsys.ReadAt(daemon.Within(t), next, taken, 0)
		if err != nil {
			t.Fatal(err)
		}
		all.Wait()
		<-d.Exited
		d.Start()

		alice := d.At("/agents/alice")
		inFlight, _, _ := strings.Cut(strings.TrimPrefix(string(taken[:n]), `{"id":"`), `"`)
		listed := map[string]int{}
		for _, name := range strings.Fields(alice.List("inbox")) {
			listed[name]++
		}
		for id := range messages {
			if listed[id] != 1 {
				t.Errorf("round %d: the acknowledged message %s is there %d times", round, id, listed[id])
			}
		}
		if listed[inFlight] != 1 {
			t.Errorf("round %d: the message %s, which was being read, is there %d times", round, inFlight, listed[inFlight])
		}
		daemon.Has(t, "the message that is next", alice.Read("inbox/head"), `"id":"`+inFlight+`"`)
		names := map[string]int{}
		for _, name := range strings.Fields(alice.List("goals")) {
			names[name]++
		}
		for name, text := range goals {
			if names[name] != 1 {
				t.Errorf("round %d: the acknowledged goal %s is there %d times", round, name, names[name])
			} else if got := alice.Read("goals/" + name); got != text {
				t.Errorf("round %d: the goal %s is %q", round, name, got)
			}
		}
		// A sender that did not hear an answer sends again: that makes no second one.
		for id := range messages {
			alice.Write("inbox/new", `{"id":"`+id+`","body":0}`)
			break
		}
		daemon.Equal(t, "after a repeated message", len(strings.Fields(alice.List("inbox"))), sum(listed))
		if t.Failed() {
			return
		}
	}

	// Everything can be taken, in order, once.
	alice := d.At("/agents/alice")
	total := len(strings.Fields(alice.List("inbox"))) - len(strings.Fields(daemon.InboxFiles))
	seen := map[string]bool{}
	for range total {
		id, _, _ := strings.Cut(strings.TrimPrefix(alice.Read("inbox/next"), `{"id":"`), `"`)
		if seen[id] {
			t.Errorf("the message %s came twice", id)
		}
		seen[id] = true
	}
	for id := range messages {
		if !seen[id] {
			t.Errorf("the message %s never came", id)
		}
	}
	daemon.Has(t, "status", alice.Read("status"), `"inbox":0`)
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// A message that was taken and acknowledged does not come again after a kill.
func TestKillAfterAcknowledgement(t *testing.T) {
	d, _, alice := daemon.OneAgent(t)
	first, second := alice.Ask("inbox/new", "one"), alice.Ask("inbox/new", "two")
	daemon.Has(t, "next", alice.Read("inbox/next"), first)
	d.Kill()
	d.Start()
	alice = d.At("/agents/alice")
	daemon.Has(t, "next", alice.Read("inbox/next"), second)
	daemon.Equal(t, "inbox", alice.List("inbox"), daemon.InboxFiles)
}
