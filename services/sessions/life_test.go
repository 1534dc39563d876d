package sessions_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/services/sessions"
	"agent9/store"
	"agent9/store/bolt"
	"agent9/store/mem"
)

// begun waits until a prompt of a session is being answered.
func (d *desk) began(session string, prompt int64) *reader {
	d.Helper()
	r := d.reader(session+"/transcript", 0)
	for {
		l, ok := r.line()
		if !ok {
			d.Fatalf("prompt %d was never begun", prompt)
		}
		if l.Role == sessions.User && l.Prompt == prompt {
			return r
		}
	}
}

func (d *desk) tryCtl(session, command string) error {
	return fsys.WriteFile(d.within(), d.svc.Root(), session+"/ctl", []byte(command+"\n"))
}

// Each command in each state does what it says, or says why not.
func TestCommands(t *testing.T) {
	d := newDesk(t, sessions.Config{})
	if text := d.read(d.new("x") + "/ctl"); !strings.HasPrefix(text, "pause\t") || strings.Count(text, "\n") != 4 {
		t.Errorf("ctl says %s", text)
	}

	n := d.new("idle")
	d.refused("cancel", d.tryCtl(n, "cancel"), fsys.Busy, "no prompt")
	d.ctl(n, "resume")
	d.ctl(n, "pause")
	d.ctl(n, "pause")
	d.equal("state", d.status(n).State, "paused")
	p := d.prompt(n, "say late")
	if q := d.read(n + "/queue"); !strings.HasPrefix(q, `{"prompt":1,"author":"bob","time":"`) || !strings.HasSuffix(q, `","text":"say late"}`+"\n") {
		t.Errorf("the queue is %s", q)
	}
	d.ctl(n, "cancel "+p)
	d.equal("queue", d.read(n+"/queue"), "")
	d.refused("cancel again", d.tryCtl(n, "cancel "+p), fsys.Busy, "not wait")
	d.prompt(n, "say now")
	d.ctl(n, "resume")
	if l := d.reader(n+"/transcript", 0).answer(2); l.Text != "now" {
		t.Errorf("after resume: %+v", l)
	}

	n = d.new("running")
	d.prompt(n, "say a;wait never;say b")
	r := d.began(n, 1)
	d.reader(n+"/stream", 0).want("a")
	d.prompt(n, "say second")
	d.prompt(n, "say third")
	d.equal("state", d.status(n).State, "running")
	d.ctl(n, "cancel 2")
	if l := r.answer(2); l.Event != sessions.Cancelled || l.Reason != "cancelled by bob" {
		t.Errorf("a prompt that waited: %+v", l)
	}
	d.ctl(n, "pause")
	d.ctl(n, "cancel")
	if l := r.answer(1); l.Text != "a" || l.Outcome != sessions.Cancelled || l.Reason != "cancelled by bob" {
		t.Errorf("a prompt that was being answered: %+v", l)
	}
	d.equal("state", d.status(n).State, "paused")
	d.prompt(n, "wait never")
	d.ctl(n, "resume")
	r.answer(3)
	d.began(n, 4)
	d.prompt(n, "say lost")
	d.ctl(n, "end")
	if l := r.answer(5); l.Event != sessions.Cancelled {
		t.Errorf("what waited at the end: %+v", l)
	}
	if l := r.answer(4); l.Outcome != sessions.Cancelled {
		t.Errorf("what ran at the end: %+v", l)
	}
	if l, _ := r.line(); l.Event != "ended" {
		t.Errorf("the last line is %+v", l)
	}
	if l, ok := r.line(); ok {
		t.Errorf("after the end there is %+v", l)
	}
	d.equal("state", d.status(n).State, "ended")
	d.ctl(n, "end")
	d.refused("pause", d.tryCtl(n, "pause"), fsys.Busy, "ended")
	d.refused("cancel", d.tryCtl(n, "cancel"), fsys.Busy, "ended")
	_, err := d.ask(n+"/prompt", "hello")
	d.refused("prompt", err, fsys.Busy, "resume")

	d.ctl(n, "resume") // and it goes on where it was
	r = d.reader(n+"/transcript", r.off)
	d.prompt(n, "say again here")
	if l := r.answer(6); l.Text != "again here" {
		t.Errorf("after the end: %+v", l)
	}
	want := "system ended the session was ended\nsystem resumed bob\nuser bob say again here\nassistant alice again here done\n"
	if s := d.transcript(n); !strings.HasSuffix(s, want) {
		t.Errorf("the transcript is %s", s)
	}
}

// The end waits for what does not stop, and takes nothing meanwhile.
func TestEndOfTheDeaf(t *testing.T) {
	d := newDesk(t, sessions.Config{})
	n := d.new("deaf")
	d.prompt(n, "deaf go;say done")
	r := d.began(n, 1)
	d.ctl(n, "end")
	d.equal("state", d.status(n).State, "running")
	_, err := d.ask(n+"/prompt", "x")
	d.refused("prompt", err, fsys.Busy, "ending")
	d.refused("resume", d.tryCtl(n, "resume"), fsys.Busy, "ending")
	d.openGate("go")
	if l := r.answer(1); l.Outcome != sessions.Cancelled {
		t.Errorf("the answer is %+v", l)
	}
	if l, _ := r.line(); l.Event != "ended" {
		t.Errorf("then comes %+v", l)
	}
}

// rm -r removes a session in any state, and ends its streams.
func TestRemove(t *testing.T) {
	d := newDesk(t, sessions.Config{})
	for _, state := range []string{"idle", "paused", "running", "ended"} {
		n := d.new(state)
		switch state {
		case "paused":
			d.ctl(n, "pause")
			d.prompt(n, "say x")
		case "running":
			d.prompt(n, "say x;wait never")
			d.began(n, 1)
		case "ended":
			d.ctl(n, "end")
		}
		stream := d.reader(n+"/stream", 0)
		dir, err := fsys.WalkPath(d.within(), d.svc.Root(), n)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := fsys.List(d.within(), dir)
		if err != nil || len(entries) != 6 {
			t.Fatalf("%d files, %v", len(entries), err)
		}
		for _, e := range entries {
			if err := fsys.Remove(d.within(), e.Node); err != nil {
				t.Errorf("%s: %v", e.Name, err)
			}
		}
		if entries, _ = fsys.List(d.within(), dir); len(entries) != 0 {
			t.Errorf("%d files are left", len(entries))
		}
		if err := fsys.Remove(d.within(), dir); err != nil {
			t.Errorf("a session that is %s: %v", state, err)
		}
		if _, err := fsys.WalkPath(d.within(), d.svc.Root(), n); fsys.CodeOf(err) != fsys.NotExist {
			t.Errorf("a removed session: %v", err)
		}
		for stream.more() {
		}
	}
	if err := d.svc.Wait(d.within()); err != nil {
		t.Fatal(err)
	}
	page, err := d.db.List(d.within(), "sessions/", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range page {
		if p.Key != "sessions/next" && p.Key != "sessions/totals" {
			t.Errorf("the database still has %s", p.Key)
		}
	}
}

// A session that is idle is warned, and then ends, in time, whether somebody
// looks or not.
func TestIdle(t *testing.T) {
	d := newDesk(t, sessions.Config{Idle: time.Hour})
	n := d.new("quiet")
	d.pass(50 * time.Minute)
	d.prompt(n, "say here")
	d.reader(n+"/transcript", 0).answer(1)
	d.pass(50 * time.Minute)
	d.equal("state", d.status(n).State, "idle")
	ends := d.status(n).Ends
	d.pass(9*time.Minute + 30*time.Second)
	d.equal("state", d.status(n).State, "idle")
	if e := d.last(); !strings.HasPrefix(e, "sessions.ending ") || !strings.Contains(e, ends) {
		t.Errorf("the last event is %s, want a warning of %s", e, ends)
	}
	d.pass(10 * time.Hour) // and nobody looks
	s := d.status(n)
	if s.State != "ended" || s.Ended != ends || s.Reason != "nothing was said for 1h0m0s" {
		t.Errorf("status is %+v, want the end at %s", s, ends)
	}

	// It ends after a restart as well, for the time when it was due.
	n = d.new("restart")
	ends = d.status(n).Ends
	d.close()
	d.pass(10 * time.Hour)
	d.open()
	if s := d.status(n); s.State != "ended" || s.Ended != ends {
		t.Errorf("status is %+v, want the end at %s", s, ends)
	}

	// What waits or runs is not idle.
	paused, running := d.new("paused"), d.new("running")
	d.ctl(paused, "pause")
	d.prompt(paused, "say x")
	d.prompt(running, "wait go")
	d.began(running, 1)
	d.pass(10 * time.Hour)
	d.equal("state", d.status(paused).State, "paused")
	d.equal("state", d.status(running).State, "running")
	d.openGate("go")
}

// How long nobody says anything is measured: a clock that is set in the meantime
// neither ends a session nor keeps it.
func TestIdleAndTheClock(t *testing.T) {
	for _, by := range []time.Duration{-24 * time.Hour, -time.Hour, time.Hour, 24 * time.Hour} {
		d := newDesk(t, sessions.Config{Idle: time.Hour})
		old := d.new("old")
		d.pass(40 * time.Minute)
		d.wall.Set(by)
		n := d.new("new")
		d.equal("old", d.status(old).State, "idle")
		d.pass(15 * time.Minute)
		d.equal("old", d.status(old).State, "idle")
		d.prompt(n, "say here")
		d.reader(n+"/transcript", 0).answer(1)
		d.pass(10 * time.Minute)
		s := d.status(old)
		d.equal("old", s.State+" "+s.Reason, "ended nothing was said for 1h0m0s")
		if ended, err := time.Parse(fsys.TimeFormat, s.Ended); err != nil || ended.After(d.now()) || d.now().Round(0).Sub(ended) > 10*time.Minute {
			t.Errorf("set by %v: it ended at %s, and it is %v: %v", by, s.Ended, d.now(), err)
		}
		d.wall.Set(-by)
		d.pass(45 * time.Minute)
		d.equal("new", d.status(n).State, "idle")
		d.pass(6 * time.Minute)
		d.equal("new", d.status(n).State, "ended")
		if log := d.transcript(n); strings.Count(log, "ended") != 1 {
			t.Errorf("it did not end once:\n%s", log)
		}
	}
}

func (d *desk) last() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.events[len(d.events)-1]
}

// The timer ends it for who waits at the stream and looks at nothing.
func TestIdleTimer(t *testing.T) {
	d := newDesk(t, sessions.Config{Idle: 50 * time.Millisecond})
	stream := d.reader(d.new("short")+"/stream", 0)
	if stream.more() {
		t.Error("the stream has something")
	}
	d.equal("state", d.status("1").State, "ended")
	d.mu.Lock()
	defer d.mu.Unlock()
	if got := d.events[len(d.events)-2]; !strings.HasPrefix(got, "sessions.ending") {
		t.Errorf("before the end came %s", got)
	}
}

// What has ended is kept for a time, and up to a size.
func TestSwept(t *testing.T) {
	d := newDesk(t, sessions.Config{Keep: time.Hour, KeepBytes: 20 << 10})
	first := d.new("first")
	d.ctl(first, "end")
	d.pass(59 * time.Minute)
	d.ctl(d.new("second"), "end")
	d.status(first)
	d.pass(2 * time.Minute)
	d.new("third")
	if _, err := fsys.WalkPath(d.within(), d.svc.Root(), first); fsys.CodeOf(err) != fsys.NotExist {
		t.Errorf("an old session: %v", err)
	}
	d.status("2")
	for range 40 {
		d.ctl(d.new("many"), "end")
	}
	d.pass(2 * time.Minute) // what has just ended stays
	for range 20 {
		d.ctl(d.new("more"), "end")
	}
	entries, err := fsys.List(d.within(), d.svc.Root())
	if err != nil || len(entries) > 45 {
		t.Errorf("%d sessions are left, %v", len(entries), err)
	}
}

// A stopped agent begins nothing, and goes on with what waited when it starts.
func TestStopAndStart(t *testing.T) {
	d := newDesk(t, sessions.Config{})
	n := d.new("x")
	d.prompt(n, "say a;wait never")
	r := d.began(n, 1)
	d.prompt(n, "say b")
	d.holds.Store(true)
	d.svc.Stop(fsys.E(fsys.Busy, "the agent is stopped"))
	if l := r.answer(1); l.Outcome == sessions.Done || l.Reason != "the agent is stopped" {
		t.Errorf("what ran: %+v", l)
	}
	if s := d.status(n); s.Waiting != 1 || s.State != "idle" {
		t.Errorf("status is %+v", s)
	}
	d.close()
	d.open()
	if s := d.status(n); s.Waiting != 1 || s.Running != 0 {
		t.Errorf("after a restart status is %+v", s)
	}
	d.holds.Store(false)
	if err := d.svc.Start(d.within()); err != nil {
		t.Fatal(err)
	}
	if l := d.reader(n+"/transcript", 0).answer(2); l.Text != "b" {
		t.Errorf("what waited: %+v", l)
	}
}

// A session can be ended and removed while nobody is at its prompt.
func TestEndWhileStopped(t *testing.T) {
	d := newDesk(t, sessions.Config{})
	for range 3 {
		d.prompt(d.new("x"), "say a;wait never")
	}
	for n := range 3 {
		d.began(fmt.Sprint(n+1), 1)
	}
	d.close()
	d.holds.Store(true)
	d.open()
	d.equal("state", d.status("1").State, "running")
	d.ctl("1", "cancel")
	d.equal("state", d.status("1").State, "idle")
	d.ctl("2", "end")
	d.equal("state", d.status("2").State, "ended")
	dir, err := fsys.WalkPath(d.within(), d.svc.Root(), "3")
	if err != nil {
		t.Fatal(err)
	}
	if err := fsys.Remove(d.within(), dir); err != nil {
		t.Fatal(err)
	}
}

// What was cut off is taken up again: either where it was, or anew.
func TestRestart(t *testing.T) {
	d := newDesk(t, sessions.Config{})
	n := d.new("x")
	d.prompt(n, "again;say one;wait go;say two")
	stream := d.reader(n+"/stream", 0)
	stream.want("one")
	d.prompt(n, "say second")
	off, before := stream.off, d.transcript(n)
	d.close()
	d.openGate("go")
	d.open()
	stream = d.reader(n+"/stream", off)
	stream.want("\nonetwo\nsecond\n")
	d.reader(n+"/transcript", 0).answer(2)
	d.equal("transcript", d.transcript(n), before+"assistant alice one interrupted\nassistant alice onetwo done\nuser bob say second\nassistant alice second done\n")
	s := d.status(n)
	if s.State != "idle" || s.Waiting != 0 {
		t.Errorf("status is %+v", s)
	}

	// But not for ever.
	d.prompt(n, "again;say x;wait never")
	for _, want := range []string{"x", "\nx", "\nx"} {
		stream.want(want)
		d.close()
		d.open()
		stream = d.reader(n+"/stream", stream.off)
	}
	stream.want("\n")
	if l := d.reader(n+"/transcript", 0).answer(3); l.Outcome != sessions.Failed || !strings.Contains(l.Reason, "interrupted 3 times") {
		t.Errorf("the answer is %+v", l)
	}
}

// What was shown when the program died is in nobody's way: who comes back at
// his offset gets all that follows, whether the answer is taken up or begun
// anew.
func TestCrash(t *testing.T) {
	for _, script := range []string{"say one ;wait go;say two", "again;say one ;wait go;say two", "much 5000;say one ;wait go;say two"} {
		path := t.TempDir() + "/db"
		db, err := bolt.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		d := newDeskOn(t, db, sessions.Config{})
		n := d.new("x")
		d.prompt(n, script)
		stream := d.reader(n+"/stream", 0)
		for !strings.HasSuffix(stream.buf, "one ") && stream.more() {
		}

		// What is on disk now is what a crash leaves.
		file, err := os.Create(path + "2")
		if err == nil {
			err = errors.Join(db.Copy(t.Context(), file), file.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		db2, err := bolt.Open(path + "2")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db2.Close() })
		after := newDeskOn(t, db2, sessions.Config{})
		after.openGate("go")
		l := after.reader(n+"/transcript", 0).answer(1)
		if l.Outcome != sessions.Done || !strings.HasSuffix(l.Text, "one two") {
			t.Errorf("%s: the answer is %+v", script, l)
		}
		after.prompt(n, "say next")
		back := after.reader(n+"/stream", stream.off)
		after.reader(n+"/transcript", 0).answer(2)
		after.ctl(n, "end")
		for back.more() {
		}
		// All of the new answer, or, if it was taken up, the rest of it.
		got := strings.TrimLeft(back.buf, " \n")
		if strings.HasPrefix(script, "again") && got != "one two\nnext\n" || !strings.HasSuffix(got, "two\nnext\n") {
			t.Errorf("%s: who came back at %d got %q", script, stream.off, back.buf)
		}
		whole := after.read(n + "/stream")
		if got := whole[*l.From:*l.To]; strings.TrimRight(got, " \n") != l.Text {
			t.Errorf("%s: the answer is %q in the stream, and %q in the transcript", script, got, l.Text)
		}
	}
}

// A slowed store begins no transaction while it is held.
type slowed struct {
	store.Updater
	turn    sync.RWMutex
	waiting chan struct{} // gets one for each transaction that begins
}

func (s *slowed) Update(ctx context.Context, f func(tx store.Store) error) error {
	select {
	case s.waiting <- struct{}{}:
	default:
	}
	s.turn.RLock()
	defer s.turn.RUnlock()
	return s.Updater.Update(ctx, f)
}

// TestAnswersDoNotWaitForTheDisk has a disk that takes its time while an answer
// grows: what readers may have already comes at once, and nothing beyond.
func TestAnswersDoNotWaitForTheDisk(t *testing.T) {
	db := &slowed{Updater: mem.New(), waiting: make(chan struct{}, 1)}
	d := newDeskOn(t, db, sessions.Config{})
	n := d.new("x")
	d.prompt(n, "say begun;wait slow;much 600;much 300;wait seen;much 500;say  end")
	stream := d.reader(n+"/stream", 0)
	stream.want("begun")
	db.turn.Lock()
	select {
	case <-db.waiting: // those before
	default:
	}
	d.openGate("slow")
	stream.want(strings.Repeat("x", 900))
	select {
	case <-db.waiting:
	case <-d.within().Done():
		t.Fatal("what was given is not made durable before somebody waits for that")
	}
	d.openGate("seen")
	h, err := fsys.OpenPath(d.within(), d.svc.Root(), n+"/stream", fsys.Read)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		runtime.Gosched()
		if got, err := fsys.ReadAt(fsys.AtOnce(d.within()), h, make([]byte, 4096), 0); got > 1024 {
			t.Fatalf("readers had %d bytes of which nothing was on disk, %v", got, err)
		}
	}
	db.turn.Unlock()
	stream.want(strings.Repeat("x", 500) + " end")
	if l := d.reader(n+"/transcript", 0).answer(1); l.Outcome != sessions.Done {
		t.Errorf("the answer is %+v", l)
	}
}

// Everything at once: each prompt has one answer in the end.
func TestManyAtOnce(t *testing.T) {
	const talks, rounds = 10, 30
	db, err := bolt.Open(t.TempDir() + "/db")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	d := newDeskOn(t, db, sessions.Config{Waiting: 1000, Keep: time.Hour, Idle: time.Minute})
	for range talks {
		d.new("x")
	}
	var all sync.WaitGroup
	for w := range 6 {
		rnd := rand.New(rand.NewPCG(1, uint64(w)))
		all.Go(func() {
			for i := range rounds {
				n := fmt.Sprint(rnd.IntN(talks) + 1)
				switch rnd.IntN(8) {
				case 0:
					d.tryCtl(n, []string{"pause", "resume", "cancel", "end"}[rnd.IntN(4)])
				case 1:
					d.tryCtl(n, "resume")
				case 2:
					ctx, cancel := context.WithTimeout(d.within(), time.Millisecond)
					fsys.ReadFile(ctx, d.svc.Root(), n+"/stream")
					cancel()
				case 3:
					d.pass(5 * time.Second)
				default:
					d.ask(n+"/prompt", fmt.Sprintf("say %d.%d;say more", w, i))
				}
			}
		})
	}
	all.Wait()
	for n := 1; n <= talks; n++ {
		s := fmt.Sprint(n)
		d.ctl(s, "resume")
		d.ctl(s, "end")
		for d.reader(s+"/stream", 0).more() && d.status(s).State != "ended" {
		}
		d.read(s + "/stream") // until it has ended
		prompts := d.status(s).Prompts
		seen := map[int64]int{}
		r := d.reader(s+"/transcript", 0)
		for l, ok := r.line(); ok; l, ok = r.line() {
			if l.Role == sessions.Assistant || l.Event == sessions.Cancelled {
				seen[l.Prompt]++
			}
		}
		for p := int64(1); p <= prompts; p++ {
			if seen[p] != 1 {
				t.Errorf("session %d: prompt %d has %d answers", n, p, seen[p])
			}
		}
	}
}
