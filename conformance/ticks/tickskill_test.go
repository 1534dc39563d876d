package ticks

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"agent9/conformance/daemon"
	"agent9/fsys"
)

// After kill -9 at any moment every message has been ticked with effect once,
// in its sender's order, by one program at a time, and nothing is half done:
// tokens that agents pass round are neither lost nor doubled.
func TestTicksSurviveKill(t *testing.T) {
	const tokens, hops, kills = 4, 18, 6
	names := []string{"a", "b", "c"}
	d := daemon.Start(t)
	r := d.Root()
	for _, name := range names {
		r.Agent(name, d.Config("relay", `,"tick":{"retries":100,"backoff_ms":20,"give_up":0}`))
	}
	for i := range tokens {
		r.Write("agents/a/inbox/new", fmt.Sprintf(`{"id":"token-%d","body":"%d b c a"}`, i, hops-1))
	}
	for range kills {
		events := 1 + rand.IntN(12)
		r.UntilThat("a", func() (string, bool) {
			events--
			return "", events < 0
		}, "some things have happened")
		d.Kill()
		d.Start()
		r = d.Root()
	}
	total := func() (done int) {
		for _, name := range names {
			for _, l := range r.Ticks(name) {
				if l.Outcome == "done" {
					done++
				}
			}
		}
		return done
	}
	// The last hop of a token is at the agent of its last number.
	last := names[(hops-1)%len(names)]
	r.UntilThat(last, func() (string, bool) {
		n := total()
		return fmt.Sprint(n), n >= tokens*hops
	}, "all tokens have gone their way")
	for _, name := range names {
		r.Until(name, "status", `"state":"hibernating"`)
	}
	daemon.Equal(t, "ticks with effect", total(), tokens*hops)
	if _, err := os.Stat(filepath.Join(d.Dir, "two-at-once")); err == nil {
		t.Error("two programs of one agent ran at once")
	}
	for _, name := range names {
		daemon.Has(t, name, r.Read("agents/"+name+"/status"), `"inbox":0,"deadletter":0`)
		done := map[string]int{}
		var order []string
		for _, l := range r.Ticks(name) {
			switch l.Outcome {
			case "done":
				done[l.Message]++
				order = append(order, l.Message)
			case "interrupted":
			default:
				t.Errorf("%s: %+v", name, l)
			}
		}
		for id, n := range done {
			if n != 1 {
				t.Errorf("%s: the message %s was ticked with effect %d times", name, id, n)
			}
		}
		var logged, sent []string
		for line := range strings.Lines(r.Read("agents/" + name + "/state/log")) {
			logged = append(logged, strings.Fields(line)[1])
		}
		daemon.Equal(t, name+"'s state", strings.Join(logged, " "), strings.Join(order, " "))
		from := names[(len(names)+strings.Index("abc", name)-1)%len(names)]
		type mail struct{ ID string }
		for _, m := range daemon.Lines[mail](t, r.Tail("agents/"+from+"/outbox/sent")) {
			sent = append(sent, m.ID)
		}
		if name == "a" {
			sent = append([]string{"token-0", "token-1", "token-2", "token-3"}, sent...)
		}
		// That of another sender is anywhere between.
		byOther := func(id string) bool { return strings.HasPrefix(id, "token-") }
		daemon.Equal(t, name+"'s order of "+from, strings.Join(without(order, byOther), " "), strings.Join(without(sent, byOther), " "))
	}
}

func without(list []string, not func(string) bool) (rest []string) {
	for _, s := range list {
		if !not(s) {
			rest = append(rest, s)
		}
	}
	return rest
}

// The last change of a watched file is always ticked, whenever it comes and
// whatever happens to the daemon.
func TestWatchLosesNothing(t *testing.T) {
	d := daemon.Start(t)
	r := d.Root()
	r.Agent("alice", d.Config("copy", `,"triggers":{"watch":["goals/plan"]},"tick":{"retries":100,"backoff_ms":20}`))
	r.Make("agents/alice/goals", "plan", "0\n")
	r.Make("agents/alice/goals", "other", "is not watched\n")
	n := 0
	for range 4 {
		for range 15 {
			n++
			r.Write("agents/alice/goals/plan", strconv.Itoa(n)+"\n")
		}
		d.Kill()
		d.Start()
		r = d.Root()
		r.UntilThat("alice", func() (string, bool) {
			s, err := r.TryRead("agents/alice/state/seen")
			return s, err == nil && s == strconv.Itoa(n)+"\n"
		}, "the last change is seen")
	}
	for _, l := range r.Ticks("alice") {
		daemon.Equal(t, "cause", l.Cause, "watch")
	}
	if got := len(r.Ticks("alice")); got > n+10 {
		t.Errorf("%d ticks for %d changes", got, n)
	}
}

// A program that was running when its daemon was killed does not go on beside
// the next one's, wherever it hid.
func TestKilledDaemonLeavesNoProgram(t *testing.T) {
	linuxOnly(t)
	d := daemon.Start(t)
	r := d.Root()
	pids := filepath.Join(d.Dir, "pids")
	r.Agent("alice", fmt.Sprintf(`{"program":{"exec":%q},"tick":{"retries":0}}`,
		"[ -e "+pids+" ] && exit; setsid sleep 1000 & echo $! >"+pids+".new; echo $$ >>"+pids+".new; mv "+pids+".new "+pids+"; wait"))
	r.Write("agents/alice/ctl", "tick")
	r.UntilThat("alice", func() (string, bool) {
		b, err := os.ReadFile(pids)
		if err != nil { // the event that is waited for next
			r.Write("agents/alice/logs/write", "not yet")
		}
		return string(b), err == nil
	}, "the program runs")
	d.Kill()
	d.Start()
	r = d.Root()
	r.Until("alice", "logs/ticks", `"outcome":"done"`)
	b, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range strings.Fields(string(b)) {
		if runs(pid) {
			t.Errorf("process %s of the killed daemon still runs", pid)
		}
	}
	daemon.Equal(t, "the first tick", r.Ticks("alice")[0].Outcome, "interrupted")
}

// A daemon that ends in order cuts off its ticks; they come again.
func TestShutdownCutsTicksOff(t *testing.T) {
	d := daemon.Start(t)
	r := d.Root()
	r.Agent("alice", d.Config("slow", ""))
	id := r.Ask("agents/alice/inbox/new", "1000s")
	r.Until("alice", "status", `"running":"1"`)
	r.Write("ctl", "shutdown")
	d.Ends(daemon.Limit)
	d.Start()
	r = d.Root()
	r.Until("alice", "status", `"running":"2"`)
	got := r.Ended("alice", 1)
	daemon.Equal(t, "the first tick", got[0].Outcome+" "+got[0].Message, "interrupted "+id)
	if err := r.TryWrite("agents/alice/ctl", "stop"); err != nil && fsys.CodeOf(err) != fsys.Busy {
		t.Error(err)
	}
}
