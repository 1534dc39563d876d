package main

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"agent9/fsys"
)

// What was acknowledged is there after kill -9, once, however often.
func TestKill(t *testing.T) {
	const writers, rounds, enough = 8, 5, 200
	d := startDaemon(t)
	r := d.root()
	r.mkdir("agents", "alice")
	r.write("agents/alice/config", `{"inbox": {"limit": 100000}}`)

	messages, goals := map[string]bool{}, map[string]string{} // that were acknowledged
	for round := range rounds {
		var mu sync.Mutex
		var all sync.WaitGroup
		acknowledged := 0
		for w := range writers {
			tr := d.at("/agents/alice")
			all.Go(func() {
				for i := 0; ; i++ {
					name := fmt.Sprintf("r%d-w%d-%d", round, w, i)
					message := i%2 == 0
					var err error
					if message {
						err = tr.tryWrite("inbox/new", `{"id":"`+name+`","body":`+strconv.Itoa(i)+`}`)
					} else {
						err = tr.tryMake("goals", name, "goal "+name)
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
						d.cmd.Process.Kill() // while the others write
					}
					mu.Unlock()
				}
			})
		}
		// Somebody is in the middle of a message.
		taker := d.at("/agents/alice")
		next := taker.open("inbox/next", fsys.Read)
		taken := make([]byte, 1<<16)
		n, err := fsys.ReadAt(within(t), next, taken, 0)
		if err != nil {
			t.Fatal(err)
		}
		all.Wait()
		<-d.exited
		d.start()

		alice := d.at("/agents/alice")
		inFlight, _, _ := strings.Cut(strings.TrimPrefix(string(taken[:n]), `{"id":"`), `"`)
		listed := map[string]int{}
		for _, name := range strings.Fields(alice.list("inbox")) {
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
		has(t, "the message that is next", alice.read("inbox/head"), `"id":"`+inFlight+`"`)
		names := map[string]int{}
		for _, name := range strings.Fields(alice.list("goals")) {
			names[name]++
		}
		for name, text := range goals {
			if names[name] != 1 {
				t.Errorf("round %d: the acknowledged goal %s is there %d times", round, name, names[name])
			} else if got := alice.read("goals/" + name); got != text {
				t.Errorf("round %d: the goal %s is %q", round, name, got)
			}
		}
		// A sender that did not hear an answer sends again: that makes no second one.
		for id := range messages {
			alice.write("inbox/new", `{"id":"`+id+`","body":0}`)
			break
		}
		equal(t, "after a repeated message", len(strings.Fields(alice.list("inbox"))), sum(listed))
		if t.Failed() {
			return
		}
	}

	// Everything can be taken, in order, once.
	alice := d.at("/agents/alice")
	total := len(strings.Fields(alice.list("inbox"))) - len(strings.Fields(inboxFiles))
	seen := map[string]bool{}
	for range total {
		id, _, _ := strings.Cut(strings.TrimPrefix(alice.read("inbox/next"), `{"id":"`), `"`)
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
	has(t, "status", alice.read("status"), `"inbox":0`)
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// A message that was taken and acknowledged does not come again after a kill.
func TestKillAfterAcknowledgement(t *testing.T) {
	d, _, alice := oneAgent(t)
	first, second := alice.ask("inbox/new", "one"), alice.ask("inbox/new", "two")
	has(t, "next", alice.read("inbox/next"), first)
	d.kill()
	d.start()
	alice = d.at("/agents/alice")
	has(t, "next", alice.read("inbox/next"), second)
	equal(t, "inbox", alice.list("inbox"), inboxFiles)
}
