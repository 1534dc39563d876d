package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agent9/conformance/daemon"
	"agent9/fsys"
	"agent9/fsys/export/fuse"
)

// Every prompt that was acknowledged is answered after kill -9, once, and paid
// for once.
func TestSessionsKill(t *testing.T) {
	const talks, rounds, writers, enough = 3, 5, 6, 25
	s, d := daemon.WithSpeaker(t)
	alice := d.At("/agents/alice")
	alice.Write("config", `{"sessions":{"max_waiting":10000}}`)
	alice.Write("budget/limits", `{"total_microusd":1000000000}`)
	for i := range talks {
		daemon.Equal(t, "session", alice.Ask("sessions/new", fmt.Sprintf("talk %d", i+1)), fmt.Sprint(i+1))
	}
	acknowledged := make([]map[int]string, talks+1) // texts, by number
	for i := range acknowledged {
		acknowledged[i] = map[int]string{}
	}
	for round := range rounds {
		var mu sync.Mutex
		var all sync.WaitGroup
		count := 0
		for w := range writers {
			tr, talk := d.At("/agents/alice"), w%talks+1
			all.Go(func() {
				for i := 0; ; i++ {
					text := fmt.Sprintf("round %d writer %d prompt %d", round, w, i)
					b, err := fsys.Converse(daemon.Within(t), tr.Root, fmt.Sprintf("sessions/%d/prompt", talk), []byte(text))
					if err != nil {
						return // it was killed
					}
					var n int
					fmt.Sscan(string(b), &n)
					mu.Lock()
					acknowledged[talk][n] = text
					if count++; count == enough+round*7 {
						d.Cmd.Process.Kill() // while the others write, and answers come
					}
					mu.Unlock()
				}
			})
		}
		all.Wait()
		<-d.Exited
		d.Start()
	}

	alice = d.At("/agents/alice")
	for talk := 1; talk <= talks; talk++ {
		dir := fmt.Sprintf("sessions/%d/", talk)
		var prompts []int
		for n := range acknowledged[talk] {
			prompts = append(prompts, n)
		}
		lines := alice.Transcript(dir+"transcript", prompts...)
		stream := alice.Tail(dir + "stream")
		var asked []int
		final, parts := map[int]int{}, map[int]int{}
		for i, l := range lines {
			daemon.Equal(t, "number of a line", l.N, i+1)
			switch {
			case l.Role == "user":
				asked = append(asked, l.Prompt)
				if text := acknowledged[talk][l.Prompt]; text != "" && text != l.Text {
					t.Errorf("prompt %d is %q, want %q", l.Prompt, l.Text, text)
				}
			case l.Role == "assistant":
				daemon.Equal(t, "the stream", strings.TrimRight(stream[l.From:l.To], " \n"), strings.TrimRight(l.Text, " \n"))
				parts[l.Prompt]++
				if !l.Final() {
					continue
				}
				final[l.Prompt]++
				text := acknowledged[talk][l.Prompt]
				if l.Outcome != "done" && !strings.Contains(l.Reason, "interrupted 3 times") || l.Outcome == "done" && text != "" && l.Text != text {
					t.Errorf("the answer to %d is %+v, want %q", l.Prompt, l, text)
				}
			}
		}
		daemon.Equal(t, "in order", slices.IsSorted(asked) && len(slices.Compact(slices.Clone(asked))) == len(asked), true)
		for n, text := range acknowledged[talk] {
			if final[n] != 1 {
				t.Errorf("session %d: prompt %d has %d answers", talk, n, final[n])
			}
			s.Mu.Lock()
			if s.Came[text] > parts[n] {
				t.Errorf("session %d: the model was asked %d times for prompt %d, which has %d answers and parts", talk, s.Came[text], n, parts[n])
			}
			s.Mu.Unlock()
		}
	}
	daemon.Eventually(t, "nothing runs, also of what was never acknowledged", func() bool {
		for talk := 1; talk <= talks; talk++ {
			if status := alice.Read(fmt.Sprintf("sessions/%d/status", talk)); !strings.Contains(status, `"state":"idle"`) || !strings.Contains(status, `"waiting":0`) {
				return false
			}
		}
		return strings.Contains(alice.Read("budget/usage"), `"holds":0`)
	})
	daemon.Equal(t, "the ledger", daemon.Replay(t, alice.Tail("budget/ledger")), daemon.Summary(t, alice.Read("budget/usage")))
}

// Those who watch by way of a mount see the same, also who comes back where he
// was after the daemon was killed.
func TestSessionInAShell(t *testing.T) {
	d, in := daemon.WithMount(t)
	sh := func(script string) string {
		t.Helper()
		cmd := exec.CommandContext(daemon.Within(t), "sh", "-c", script)
		cmd.Dir = in("agents/alice/sessions")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", script, err, out)
		}
		return string(out)
	}
	daemon.Equal(t, "a new session", sh(`exec 3<>new; echo plans >&3; cat <&3`), "1\n")
	watch := func() (*exec.Cmd, *os.File) {
		t.Helper()
		f, err := os.CreateTemp(d.Dir, "seen")
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(daemon.Within(t), "cat", in("agents/alice/sessions/1/stream"))
		cmd.Stdout = f
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, f
	}
	seen := func(f *os.File) string {
		b, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	first, a := watch()
	sh(`echo one > 1/prompt`)
	sh(`echo two > 1/prompt`)
	daemon.Eventually(t, "the first has seen it", func() bool { return seen(a) == "one\ntwo\n" })

	d.Kill()
	first.Wait() // the mount is gone, and cat with it
	fuse.Unmount(in(""))
	d.Start()
	sh(`echo three > 1/prompt`)
	// dd takes the stream up at the byte where the other stopped.
	back := exec.CommandContext(daemon.Within(t), "dd", "if="+in("agents/alice/sessions/1/stream"), "bs=4096", "iflag=skip_bytes", fmt.Sprintf("skip=%d", len(seen(a))), "status=none")
	var rest bytes.Buffer
	back.Stdout = &rest
	if err := back.Start(); err != nil {
		t.Fatal(err)
	}
	second, b := watch()
	daemon.Eventually(t, "the second has seen it", func() bool { return seen(b) == "one\ntwo\nthree\n" })
	sh(`echo end > 1/ctl`)
	for _, cmd := range []*exec.Cmd{back, second} {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", cmd, err)
		}
	}
	daemon.Equal(t, "who came back", seen(a)+rest.String(), "one\ntwo\nthree\n")
	daemon.Equal(t, "the end", sh(`tail -n 1 1/transcript | grep -c '"event":"ended"'`), "1\n")
	daemon.Equal(t, "a prompt now", sh(`echo four > 1/prompt; tail -n 1 ../logs/errors | grep -o 'session 1 has ended; write resume to its ctl'; true`) != "", true)
	sh(`echo resume > 1/ctl && echo five > 1/prompt`)
	daemon.Equal(t, "what comes then", sh(`dd if=1/stream iflag=skip_bytes skip=14 bs=1 count=5 status=none`), "five\n")
	sh(`echo end > 1/ctl`)
	daemon.Equal(t, "tail", sh(`tail -c +9 1/stream`), "three\nfive\n")
	sh(`rm -r 1`)
	daemon.Equal(t, "what is left", sh(`ls`), "new\n")
}

// A session is for those who may: rights, limits, money and a stopped agent.
func TestSessionAccess(t *testing.T) {
	d, r, address := daemon.OverTCP(t)
	alice := d.At("/agents/alice")
	alice.Ask("sessions/new", "mine")
	token := func(rights string) *daemon.Tree {
		t.Helper()
		tr, err := daemon.Attach(t, "tcp", address, r.Ask("ctl", "token alice "+rights))
		if err != nil {
			t.Fatal(err)
		}
		return tr
	}
	reader := token("/sessions:r")
	daemon.Equal(t, "files", reader.List("sessions/1"), "prompt queue stream transcript status ctl")
	daemon.Refused(t, "a prompt of who may only read", reader.TryWrite("sessions/1/prompt", "x"), fsys.Permission)
	daemon.Refused(t, "end by who may only read", reader.TryWrite("sessions/1/ctl", "end"), fsys.Permission)
	writer := token("/sessions:rw,/compute:w")
	daemon.Equal(t, "prompt", writer.Ask("sessions/1/prompt", "from a token"), "1")
	lines := alice.Transcript("sessions/1/transcript", 1)
	daemon.Equal(t, "author", lines[1].Author, "alice")

	alice.Write("ctl", "stop")
	daemon.Refused(t, "a prompt for a stopped agent", alice.TryWrite("sessions/1/prompt", "x"), fsys.Busy, "stopped")
	alice.Write("ctl", "start")
	alice.Write("budget/limits", `{"total_microusd":0}`)
	daemon.Refused(t, "a prompt without money", alice.TryWrite("sessions/1/prompt", "x"), fsys.Exhausted)
}

// The model is told who it is, what was said, and what it is to answer now.
func TestSessionOfAModel(t *testing.T) {
	s, d := daemon.WithSpeaker(t)
	alice := d.At("/agents/alice")
	alice.Write("config", `{"prompt":"Be kind.","sessions":{"profiles":{"terse":{"prompt":"Be brief."}}}}`)
	daemon.Refused(t, "a profile that is not there", alice.TryWrite("sessions/new", `{"profile":"long"}`), fsys.Invalid, "terse")
	alice.Ask("sessions/new", `{"title":"a","profile":"terse"}`)
	alice.Ask("sessions/1/prompt", "first words")
	alice.Ask("sessions/1/prompt", `{"content":[{"type":"text","text":"second"}]}`)
	gate := make(chan struct{})
	lines := alice.Transcript("sessions/1/transcript", 1)
	daemon.Equal(t, "answer", lines[2].Text, "first words")
	daemon.Equal(t, "cost", lines[2].Cost, daemon.JobCost)
	alice.Transcript("sessions/1/transcript", 2)
	daemon.Has(t, "the request", alice.Read("compute/jobs/2/request"),
		`{"role":"system","content":"Be brief."},{"role":"user","content":"first words"},{"role":"assistant","content":"first words"},{"role":"user","content":[{"type":"text","text":"second"}]}`)

	// A cancelled prompt cancels its job, and is paid for what it was.
	s.Mu.Lock()
	s.Gate = gate
	s.Mu.Unlock()
	alice.Ask("sessions/1/prompt", "long answer that waits")
	stream := alice.Open("sessions/1/stream", fsys.Read)
	b := make([]byte, 100)
	n, err := fsys.ReadAt(daemon.Within(t), stream, b, int64(lines[2].To))
	for off := lines[2].To; err == nil && !strings.HasPrefix(string(b[:n]), "long "); off += n {
		n, err = fsys.ReadAt(daemon.Within(t), stream, b, int64(off))
	}
	alice.Write("sessions/1/ctl", "cancel")
	lines = alice.Transcript("sessions/1/transcript", 3)
	daemon.Equal(t, "outcome", lines[len(lines)-1].Outcome+": "+lines[len(lines)-1].Reason, "cancelled: cancelled by operator")
	daemon.Has(t, "its job", alice.Read("compute/jobs/3/status"), `"state":"cancelled"`)

	// A stop of the agent ends the answer, and what waits goes on at its start.
	alice.Ask("sessions/1/prompt", "stopped answer here")
	alice.Ask("sessions/1/prompt", "after the start")
	daemon.Eventually(t, "it runs", func() bool { return strings.Contains(alice.Read("sessions/1/status"), `"running":4`) })
	alice.Write("ctl", "stop")
	alice.Transcript("sessions/1/transcript", 4)
	daemon.Has(t, "queue", alice.Read("sessions/1/queue"), "after the start")
	close(gate)
	alice.Write("ctl", "start")
	lines = alice.Transcript("sessions/1/transcript", 5)
	daemon.Equal(t, "answer", lines[len(lines)-1].Text, "after the start")
}

// askSession writes a prompt to a session, and reads its stream from off on
// until the answer is whole.
func (p *pacer) askSession(b *testing.B, agent fsys.Node, session int, off *int64) (t timing, err error) {
	dir := fmt.Sprintf("sessions/%d/", session)
	asked := p.now()
	if _, err := fsys.Converse(b.Context(), agent, dir+"prompt", []byte("go")); err != nil {
		return t, err
	}
	h, err := fsys.OpenPath(b.Context(), agent, dir+"stream", fsys.Read)
	if err != nil {
		return t, err
	}
	defer h.Close()
	buf := make([]byte, 4096)
	for len(t.late) < p.pieces {
		n, err := fsys.ReadAt(b.Context(), h, buf, *off)
		now := p.now()
		if err != nil {
			return t, err
		}
		if err := t.take(string(buf[:n]), asked, now); err != nil {
			return t, err
		}
		*off += int64(n)
	}
	return t, nil
}

// BenchmarkSessions reports how long after a model has sent it each piece of an
// answer comes to a reader of the session's stream, over 9P, and how long the
// first takes, without what the model waited: with one session, with fifty that
// are prompted one after the other within the time of an answer, of a second and
// of a fifth of that, and with fifty that are prompted at the same moment, whose
// answers end at the same moment.
func BenchmarkSessions(b *testing.B) {
	for _, c := range []struct {
		name   string
		talks  int
		pieces int // of an answer
		spread bool
	}{
		{"sessions=1", 1, pieces, false},
		{"sessions=50", 50, 5 * pieces, true},
		{"sessions=50/short", 50, pieces, true},
		{"sessions=50/short/at-once", 50, pieces, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			talks := c.talks
			p := newPacer(c.pieces)
			srv := httptest.NewServer(p)
			defer srv.Close()
			agent, _ := benchAgent(b, srv.URL)
			offs := make([]int64, talks)
			for i := range talks {
				if _, err := fsys.Converse(b.Context(), agent, "sessions/new", []byte("talk")); err != nil {
					b.Fatal(err)
				}
				offs[i] = 0
			}
			f, err := os.CreateTemp(b.TempDir(), "fsync")
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			var first, late, fsyncs []time.Duration
			round := func() []timing {
				var mu sync.Mutex
				next := 0
				return atSameTime(b, talks, func() (timing, error) {
					mu.Lock()
					i := next
					next++
					mu.Unlock()
					if c.spread {
						time.Sleep(time.Duration(c.pieces) * pace * time.Duration(i) / time.Duration(talks))
					}
					return p.askSession(b, agent, i+1, &offs[i])
				})
			}
			round() // so that there are connections
			for b.Loop() {
				fsyncs = append(fsyncs, fsyncTime(b, f))
				for _, t := range round() {
					first = append(first, t.first)
					late = append(late, t.late...)
				}
			}
			for _, m := range []struct {
				name string
				took []time.Duration
			}{{"ttft", first}, {"chunk", late}, {"fsync", fsyncs}} {
				slices.Sort(m.took)
				for _, percent := range []int{50, 99} {
					b.ReportMetric(float64(m.took[len(m.took)*percent/100].Nanoseconds())/1000, fmt.Sprintf("%s-µs-p%d", m.name, percent))
				}
			}
			b.ReportMetric(0, "ns/op") // it is the server's pace
		})
	}
}

// The agent's program answers, if it has one: what it prints is read as it
// comes, and it works in the agent's namespace.
func TestSessionOfAProgram(t *testing.T) {
	d := daemon.Start(t)
	r := d.Root()
	r.Mkdir("agents", "alice")
	alice := d.At("/agents/alice")
	gate := d.Dir + "/gate"
	if err := exec.Command("mkfifo", gate).Run(); err != nil {
		t.Skip(err)
	}
	program := `read -r trigger; text=${trigger##*\"text\":\"}; text=${text%%\"*}
case $text in
wait) echo before; cat ` + gate + ` ;;
spin) echo $$; sleep 1000 ;;
fail) echo partly; exit 3 ;;
note) echo noted | ` + daemon.Agentctl(t) + ` --addr $AGENT9_ADDR put goals/note; echo done ;;
*) echo "you said $text" ;;
esac`
	config, _ := json.Marshal(map[string]any{"program": map[string]string{"exec": program}})
	alice.Write("config", string(config))
	alice.Ask("sessions/new", "talk")
	answer := func(n int) daemon.Said {
		t.Helper()
		lines := alice.Transcript("sessions/1/transcript", n)
		for _, l := range lines {
			if l.Prompt == n && l.Final() {
				return l
			}
		}
		return daemon.Said{}
	}
	alice.Ask("sessions/1/prompt", "hello")
	daemon.Equal(t, "answer", answer(1).Text, "you said hello\n")
	alice.Ask("sessions/1/prompt", "note")
	daemon.Equal(t, "answer", answer(2).Text, "done\n")
	daemon.Equal(t, "what it did", alice.Read("goals/note"), "noted\n")
	alice.Ask("sessions/1/prompt", "fail")
	failed := answer(3)
	daemon.Equal(t, "outcome", failed.Text+failed.Outcome, "partly\nfailed")
	daemon.Has(t, "reason", failed.Reason, "3")

	// As it comes, and over a kill -9: it is run again, and the rest is behind.
	alice.Ask("sessions/1/prompt", "wait")
	stream := alice.Open("sessions/1/stream", fsys.Read)
	b := make([]byte, 100)
	n, err := fsys.ReadAt(daemon.Within(t), stream, b, int64(failed.To))
	daemon.Equal(t, "what has come", string(b[:n]), "before\n")
	if err != nil {
		t.Fatal(err)
	}
	d.Kill()
	d.Start()
	alice = d.At("/agents/alice")
	stream = alice.Open("sessions/1/stream", fsys.Read)
	var rest string
	for off := failed.To + n; !strings.HasSuffix(rest, "before\n"); {
		n, err := fsys.ReadAt(daemon.Within(t), stream, b, int64(off))
		if err != nil {
			t.Fatal(err)
		}
		off += n
		rest += string(b[:n])
	}
	if err := os.WriteFile(gate, []byte("after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	daemon.Equal(t, "answer", answer(4).Text, "before\nafter\n")

	alice.Ask("sessions/1/prompt", "spin")
	daemon.Eventually(t, "it runs", func() bool {
		return strings.HasSuffix(alice.Tail("sessions/1/stream"), "\n") && strings.Contains(alice.Read("sessions/1/status"), `"running":5`)
	})
	alice.Write("sessions/1/ctl", "cancel")
	spun := answer(5)
	daemon.Equal(t, "outcome", spun.Outcome, "cancelled")
	if pid := strings.TrimSpace(spun.Text); pid != "" {
		if _, err := os.Stat("/proc/" + pid); err == nil {
			t.Errorf("the program %s goes on after it was cancelled", pid)
		}
	}
}
