package main

import (
	"agent9/conformance/daemon"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

func send(p *promised, r *daemon.Tree, n int) error {
	return r.TryWrite(p.at("inbox/new"), fmt.Sprintf(`{"id":"m%d","body":"%d"}`, n, n))
}

const manyTries = `,"tick":{"retries":100,"backoff_ms":10,"backoff_max_ms":20,"give_up":0}`

// lives is what is promised of agents that live. (That there may be 10,000 of
// them is TestManyAgents.)
var lives = []promise{
	{name: "SingleTickLock", config: "slow", more: manyTries,
		act: func(p *promised, r *daemon.Tree, n int) error {
			return r.TryWrite(p.at("inbox/new"), fmt.Sprintf(`{"id":"m%d","body":"2ms"}`, n))
		},
		holds: func(p *promised, r *daemon.Tree) {
			p.rests(r)
			p.each("state/log", p.numbers(p.noted(r), "m"))
			if b, err := os.ReadFile(filepath.Join(p.d.Dir, "two-at-once")); err == nil {
				p.Errorf("two programs of %s ran at once", b)
			}
		}},
	{name: "HibernationPersists",
		act: func(p *promised, r *daemon.Tree, n int) error {
			return r.TryWrite(p.at("ctl"), []string{"hibernate", "wake"}[n%2])
		},
		holds: func(p *promised, r *daemon.Tree) {
			states := []string{`"state":"hibernating"`, `"state":"active"`}
			status := r.Read(p.at("status"))
			last := -1
			if len(p.kept) > 0 {
				last = p.kept[len(p.kept)-1]
			}
			asItWas := last >= 0 && strings.Contains(status, states[last%2]) || last < 0 && strings.Contains(status, states[1])
			asItWouldBe := p.tries > last+1 && strings.Contains(status, states[(p.tries-1)%2])
			if !asItWas && !asItWouldBe {
				p.Errorf("after %d orders, of which %d was acknowledged last: %s", p.tries, last, status)
			}
		}},
	{name: "DuplicateSuppression", config: "note", more: manyTries,
		act: func(p *promised, r *daemon.Tree, n int) error {
			for range 3 {
				if err := send(p, r, n); err != nil {
					return err
				}
			}
			return send(p, r, n/2)
		},
		holds: func(p *promised, r *daemon.Tree) {
			for _, n := range []int{0, p.tries / 2} { // once more, after the start
				if err := send(p, r, n); err != nil {
					p.Error(err)
				}
			}
			p.rests(r)
			p.each("state/log", p.numbers(p.noted(r), ""))
		}},
	{name: "AtLeastOnceInOrder", config: "note", more: manyTries, act: send,
		holds: func(p *promised, r *daemon.Tree) {
			p.rests(r)
			list := p.numbers(p.noted(r), "")
			p.each("state/log", list)
			if !slices.IsSorted(list) {
				p.Errorf("the messages were ticked in the order %v", list)
			}
		}},
	{name: "WatchWithoutGaps", config: "copy", more: `,"triggers":{"watch":["goals"]}` + manyTries,
		act: func(p *promised, r *daemon.Tree, n int) error {
			if n == 0 {
				return r.TryMake(p.at("goals"), "plan", "0")
			}
			return r.TryWrite(p.at("goals/plan"), strconv.Itoa(n))
		},
		holds: func(p *promised, r *daemon.Tree) {
			p.rests(r)
			if len(p.kept) == 0 {
				return
			}
			// Also what was cut or written, but not acknowledged any more, was
			// seen: what is there has been.
			last, seen := p.kept[len(p.kept)-1], r.Read(p.at("state/seen"))
			daemon.Equal(p.T, "what was seen last", seen, r.Read(p.at("goals/plan")))
			if n, err := strconv.Atoi(seen); (err != nil || n < last) && (seen != "" || p.tries == last+1) {
				p.Errorf("%q was seen last, and %d acknowledged", seen, last)
			}
		}},
	{name: "NoKeyInAnyOutput", config: "env", more: manyTries,
		act: func(p *promised, r *daemon.Tree, n int) error { return r.TryWrite(p.at("ctl"), "tick") },
		holds: func(p *promised, r *daemon.Tree) {
			p.rests(r)
			for _, file := range []string{"logs/output", "logs/recent", "logs/ticks", "status", "config", "ctl"} {
				daemon.HasNot(p.T, file, r.Read(p.at(file)), promisedKey)
			}
			daemon.HasNot(p.T, "what the daemon says", p.d.Text(), promisedKey)
			if len(p.kept) > 0 {
				daemon.Has(p.T, "output", r.Read(p.at("logs/output")), "AGENT9_ADDR=unix:")
			}
		}},
	{name: "TraceTiedToMessage", config: "note", more: manyTries, act: send,
		holds: func(p *promised, r *daemon.Tree) {
			p.rests(r)
			type event struct{ Event, Tick, Message, ID, Path string }
			var now event
			tied := 0
			for _, e := range daemon.Lines[event](p.T, r.Read(p.at("logs/recent"))) {
				switch {
				case e.Event == "tick.began":
					now = e
				case strings.HasPrefix(e.Event, "state.") && now.Tick != "": // what began before is not recent
					daemon.Equal(p.T, e.Event, e.Tick+" "+e.Message, now.Tick+" "+now.Message)
					daemon.Has(p.T, "the message's id", e.Message, "m")
					tied++
				}
			}
			if tied == 0 && len(p.kept) > 0 {
				p.Error("nothing that ticks changed is in logs/recent")
			}
		}},
	{name: "OverflowToDeadletter", more: `"inbox":{"limit":4}`, act: send,
		holds: func(p *promised, r *daemon.Tree) {
			inbox, dead := p.numbers(r.List(p.at("inbox")), "m"), p.numbers(r.List(p.at("deadletter")), "m")
			if len(inbox) > 4 || len(dead) > 0 && len(inbox) < 4 {
				p.Errorf("%d messages are in the inbox, %d in deadletter", len(inbox), len(dead))
			}
			p.each("inbox and deadletter", append(inbox, dead...))
		}},
	{name: "GivenUpToDeadletter", config: `{"exec":"exit 1"}`, more: `,"tick":{"retries":1,"backoff_ms":1,"give_up":0}`, act: send,
		holds: func(p *promised, r *daemon.Tree) {
			p.rests(r)
			list := p.numbers(r.List(p.at("deadletter")), "m")
			p.each("deadletter", list)
			for _, n := range list {
				daemon.Has(p.T, "why", r.Read(p.at("deadletter/m"+strconv.Itoa(n))), `"reason":"the command ended with status 1"`)
			}
		}},
	{name: "ExportImportRoundTrip", config: "note", more: manyTries, act: send,
		holds: func(p *promised, r *daemon.Tree) {
			b := p.d.MustCtl(nil, "export", p.name) // while it works
			p.rests(r)
			copied := fmt.Sprint("Copy", p.tries)
			p.d.MustCtl(b, "import", "--as", copied, "--new-identity")
			it := &promised{T: p.T, promise: promise{name: copied}, d: p.d, tries: p.tries, kept: p.kept}
			it.rests(r) // when what waited has been ticked there, too
			it.each("the copy's state/log", it.numbers(it.noted(r), ""))
			daemon.Equal(p.T, "the copy's log", it.noted(r), p.noted(r))
			r.Write(it.at("ctl"), "stop")
			r.Remove("agents/" + copied)
		}},
	{name: "AlarmsRing", config: "note", more: manyTries,
		act: func(p *promised, r *daemon.Tree, n int) error {
			if err := r.TryWrite(p.at("ctl"), fmt.Sprintf("alarm +%dms %d", n%3, n)); err != nil {
				return err
			}
			return r.TryWrite(p.at("ctl"), fmt.Sprintf("alarm +24h later%d", n))
		},
		holds: func(p *promised, r *daemon.Tree) {
			if len(p.kept) > 0 {
				r.Until(p.name, "state/log", fmt.Sprintf("alarm %d\n", p.kept[len(p.kept)-1]))
			}
			p.rests(r)
			p.each("state/log", p.numbers(p.noted(r), ""))
			p.each("ctl", p.numbers(r.Read(p.at("ctl")), "later"))
		}},
	{name: "StateIsWhole", config: "pair", more: manyTries,
		act: func(p *promised, r *daemon.Tree, n int) error {
			return r.TryWrite(p.at("ctl"), "tick "+strconv.Itoa(n))
		},
		holds: func(p *promised, r *daemon.Tree) {
			p.rests(r)
			if len(p.kept) > 0 {
				daemon.Equal(p.T, "b and a", r.Read(p.at("state/b")), r.Read(p.at("state/a")))
			}
			daemon.Equal(p.T, "files", strings.Contains(r.List(p.at("state")), "half"), false)
		}},
}

const promisedKey = "sk-th1s-is-a-s3cret"
