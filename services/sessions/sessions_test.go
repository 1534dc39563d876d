package sessions_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"agent9/fsys"
	"agent9/services/sessions"
)

func TestConversation(t *testing.T) {
	d := newDesk(t, sessions.Config{})
	n := d.new("plans for today")
	d.equal("number", n, "1")
	stream, said := d.reader("1/stream", 0), d.reader("1/transcript", 0)
	d.equal("prompt", d.prompt("1", "say good ;say morning;cost 7"), "1")
	stream.want("good morning\n")
	if l := said.answer(1); l.Text != "good morning\n" && l.Text != "good morning" || l.Outcome != sessions.Done || l.Author != "alice" || l.Cost != 7 {
		t.Errorf("the answer is %+v", l)
	}
	d.equal("prompt", d.prompt("1", `{"a": [1, "say yes;"]}`), "2")
	said.answer(2)
	d.prompt("1", "fail no model")
	said.answer(3)
	d.prompt("1", "say x;panic")
	said.answer(4)
	stream.want("[failed: no model]\nx\n[failed: the program panicked: as the script says]\n")
	d.equal("transcript", d.transcript("1"), strings.Join([]string{
		"system created bob plans for today",
		"user bob say good ;say morning;cost 7", "assistant alice good morning done",
		`user bob {"a":[1,"say yes;"]}`, "assistant alice done",
		"user bob fail no model", "assistant alice failed no model",
		"user bob say x;panic", "assistant alice x failed the program panicked: as the script says", "",
	}, "\n"))
	s := d.status("1")
	if s.State != "idle" || s.Title != "plans for today" || s.Prompts != 4 || s.Cost != 7 || s.Ends == "" {
		t.Errorf("status is %+v", s)
	}
	d.mu.Lock()
	var history []string
	for _, l := range d.said["say x;panic"] {
		history = append(history, fmt.Sprint(l.Role, l.Prompt))
	}
	d.mu.Unlock()
	d.equal("history", fmt.Sprint(history), "[system0 user1 assistant1 user2 assistant2 user3 assistant3]")
}

func TestRefusals(t *testing.T) {
	d := newDesk(t, sessions.Config{Open: 2, Waiting: 2, Profiles: []string{"terse"}})
	for req, word := range map[string]string{
		`{"name":"x"}`:           "unknown field",
		`{"profile":"long"}`:     "terse",
		"two\nlines":             "one line",
		strings.Repeat("x", 300): "255",
		"\xff":                   "text",
	} {
		_, err := d.ask("new", req)
		d.refused(req, err, fsys.Invalid, word)
	}
	n := d.new(`{"title":"a","profile":"terse"}`)
	for req, word := range map[string]string{"\xff": "UTF-8", `{"a":}`: "JSON"} {
		_, err := d.ask(n+"/prompt", req)
		d.refused(req, err, fsys.Invalid, word)
	}
	_, err := d.ask(n+"/prompt", strings.Repeat("x", 1<<20+2))
	d.refused("a long prompt", err, fsys.TooLarge, "longer")
	d.new("b")
	_, err = d.ask("new", "c")
	d.refused("a third session", err, fsys.Busy, "2 sessions")

	d.prompt(n, "wait end")
	r := d.reader(n+"/transcript", 0)
	for l, _ := r.line(); l.Role != sessions.User; l, _ = r.line() {
	}
	d.prompt(n, "one")
	d.prompt(n, "two")
	_, err = d.ask(n+"/prompt", "three")
	d.refused("a third prompt", err, fsys.Busy, "2 prompts wait")
	for _, cmd := range []string{"stop", "cancel 1 2", "pause 1", "cancel x", "cancel 0"} {
		err := fsys.WriteFile(d.within(), d.svc.Root(), n+"/ctl", []byte(cmd))
		d.refused(cmd, err, fsys.Invalid, "")
	}
	err = fsys.WriteFile(d.within(), d.svc.Root(), n+"/ctl", []byte("cancel 9"))
	d.refused("cancel 9", err, fsys.NotExist, "no prompt 9")
	d.openGate("end")
	for _, name := range []string{"0", "01", "x", "99", "-1"} {
		if _, err := fsys.WalkPath(d.within(), d.svc.Root(), name); !errors.Is(err, fsys.NotExist) {
			t.Errorf("session %s: %v", name, err)
		}
	}
}

// Prompts are answered in the order of their numbers, one at a time, whoever
// writes them; sessions at the same time.
func TestOrder(t *testing.T) {
	const writers, each, talks = 8, 10, 4
	d := newDesk(t, sessions.Config{Waiting: writers * each, Running: 3})
	for range talks {
		d.new("{}")
	}
	texts := make([]map[string]string, talks+1) // by number
	var mu sync.Mutex
	var all sync.WaitGroup
	for s := 1; s <= talks; s++ {
		texts[s] = map[string]string{}
		for w := range writers {
			all.Go(func() {
				for i := range each {
					text := fmt.Sprintf("say %d-%d-%d", s, w, i)
					n, err := d.ask(fmt.Sprint(s)+"/prompt", text)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					texts[s][n] = text
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	for s := 1; s <= talks; s++ {
		r := d.reader(fmt.Sprintf("%d/transcript", s), 0)
		stream := d.reader(fmt.Sprintf("%d/stream", s), 0)
		for p := int64(1); p <= writers*each; p++ {
			var l sessions.Line
			for l.Role != sessions.User {
				l, _ = r.line()
			}
			text := texts[s][fmt.Sprint(p)]
			if l.Prompt != p || l.Text != text {
				t.Fatalf("session %d: prompt %d is %+v, want %q", s, p, l, text)
			}
			if l = r.answer(p); l.Text != strings.TrimPrefix(text, "say ") {
				t.Fatalf("session %d: the answer to prompt %d is %+v, want %q", s, p, l, text)
			}
			stream.want(strings.TrimPrefix(text, "say ") + "\n")
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.most > 3 {
		t.Errorf("%d sessions were answered at once", d.most)
	}
}

// Many prompts of one session do not keep the others waiting.
func TestFair(t *testing.T) {
	d := newDesk(t, sessions.Config{Running: 1})
	d.new("busy")
	d.new("other")
	d.prompt("1", "wait go")
	said := d.reader("1/transcript", 0)
	for l, _ := said.line(); l.Role != sessions.User; l, _ = said.line() {
	}
	for range 20 {
		d.prompt("1", "say more")
	}
	d.prompt("2", "say here")
	d.openGate("go")
	said.answer(21)
	d.reader("2/transcript", 0).answer(1)
	d.mu.Lock()
	defer d.mu.Unlock()
	if got := strings.Join(d.begun[:3], " "); !strings.Contains(got, "here") {
		t.Errorf("the order was %q", d.begun)
	}
}

// Two watch, and one comes back where it was: each sees the same.
func TestWatchers(t *testing.T) {
	d := newDesk(t, sessions.Config{})
	d.new("{}")
	a, b := d.reader("1/stream", 0), d.reader("1/stream", 0)
	d.prompt("1", "say one ;wait 1;say two ;wait 2;say three")
	a.want("one ")
	b.want("one ")
	b.h.Close()
	d.openGate("1")
	a.want("two ")
	back := d.reader("1/stream", b.off)
	back.want("two ")
	d.openGate("2")
	a.want("three\n")
	back.want("three\n")
	d.ctl("1", "end")
	if a.more() || back.more() {
		t.Error("the stream goes on after the end of the session")
	}
	d.equal("stream", d.read("1/stream"), "one two three\n")
}

// An answer that is longer than an answer may be is cut.
func TestLongAnswer(t *testing.T) {
	d := newDesk(t, sessions.Config{})
	d.new("{}")
	d.prompt("1", "much 1000000;much 3000000;say and;much 1000000")
	r := d.reader("1/transcript", 0)
	if l := r.answer(1); l.Outcome != sessions.Failed || len(l.Text) != 4_000_003 || !strings.Contains(l.Reason, "4 MiB") {
		t.Errorf("the answer has %d bytes, %s: %s", len(l.Text), l.Outcome, l.Reason)
	}
	d.prompt("1", "say ok")
	if l := r.answer(2); l.Text != "ok" {
		t.Errorf("the answer is %+v", l)
	}
}

// What is not text in an answer is in the stream as it is.
func TestBytes(t *testing.T) {
	d := newDesk(t, sessions.Config{})
	d.new("{}")
	h, err := fsys.OpenPath(d.within(), d.svc.Root(), "1/prompt", fsys.Read|fsys.Write)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for _, p := range []string{"say ä", " and more"} {
		if _, err := fsys.WriteAt(d.within(), h, []byte(p), 0); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := fsys.ReadAll(d.within(), h); string(b) != "1\n" {
		t.Errorf("the reply is %q, %v", b, err)
	}
	d.reader("1/stream", 0).want("ä and more\n")
}
