package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"agent9/fsys"
	"agent9/providers/programs/exec"
)

// How a program ends is what its tick is said to have come to, and nothing of
// it is left.
func TestHowProgramsEnd(t *testing.T) {
	d := startDaemon(t)
	r := d.root()
	for _, c := range []struct {
		name, command, more string
		outcome, reason     string
	}{
		{"good", "cat", "", "done", ""},
		{"fails", "echo why; exit 3", "", "failed", "the command ended with status 3"},
		{"missing", "no-such-command", "", "failed", "the command ended with status 127"},
		{"hangs", "echo $$ >PIDS; sleep 1000", `"timeout_s":1`, "timed out", "the program did not end in time"},
		{"deaf", "trap '' TERM INT HUP; echo $$ >PIDS; while :; do sleep 1000; done", `"timeout_s":1`, "timed out", "the program did not end in time"},
		{"floods", "echo $$ >PIDS; exec yes", `"output_bytes":100000`, "flooded", "the program printed more than is allowed"},
		{"signalled", "kill -SEGV $$", "", "killed", "the command was killed by signal segmentation fault"},
		{"leaves", "sleep 1000 & echo $! >PIDS; exit 0", "", "done", "1 processes were left behind and killed"},
		{"daemons", "setsid sh -c 'sleep 1000 & echo $$ >PIDS; wait' >/dev/null 2>&1 </dev/null & while [ ! -s PIDS ]; do sleep 0.1; done", "", "done", "2 processes were left behind and killed"},
		{"forks", "f() { echo $$ >>PIDS; f & f & sleep 1000; }; ulimit -u 0 2>/dev/null; i=0; while [ $i -lt 50 ]; do (setsid sleep 1000 & echo $! >>PIDS) & i=$((i+1)); done; wait; exit 1", "", "failed", "the command ended with status 1"},
		{"nowhere", "true", "", "refused", "the directory to run in: stat /no/such/directory: no such file or directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "daemons" || c.name == "forks" {
				linuxOnly(t)
			}
			r := r.as(t)
			pids := filepath.Join(d.dir, c.name+".pids")
			program := fmt.Sprintf(`{"exec":%q}`, strings.ReplaceAll(c.command, "PIDS", pids))
			if c.name == "nowhere" {
				program = `{"exec":"true","dir":"/no/such/directory"}`
			}
			more := c.more
			if more != "" {
				more += ","
			}
			r.agent(c.name, `{"program":`+program+`,"tick":{`+more+`"retries":0}}`)
			r.write("agents/"+c.name+"/ctl", "tick do it")
			r.until(c.name, "logs/ticks", "\n")
			got := r.ticks(c.name)[0]
			equal(t, "outcome", got.Outcome+": "+got.Reason, c.outcome+": "+c.reason)
			has(t, "status", r.read("agents/"+c.name+"/status"), `"outcome":"`+c.outcome+`"`)
			b, _ := os.ReadFile(pids)
			for _, pid := range strings.Fields(string(b)) {
				if runs(pid) {
					t.Errorf("process %s still runs", pid)
				}
			}
			if c.command == "cat" {
				has(t, "output", r.read("agents/good/logs/output"), `"cause":"manual"`)
				has(t, "output", r.read("agents/good/logs/output"), `"text":"do it"`)
			}
			if c.outcome == "flooded" {
				has(t, "output", r.read("agents/floods/logs/output"), "bytes are left out")
			}
		})
	}
}

func linuxOnly(t *testing.T) {
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("needs /proc to find processes that left their session")
	}
}

// runs reports whether a process runs, and is not only not waited for.
func runs(pid string) bool {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		n, _ := strconv.Atoi(pid)
		_, noProc := os.Stat("/proc/self/stat")
		return noProc != nil && syscall.Kill(n, 0) == nil
	}
	return !strings.Contains(string(b), ") Z ")
}

// as is the same tree for a part of the test.
func (tr *tree) as(t *testing.T) *tree { return &tree{t, tr.client, tr.root} }

// A tick that fails has done nothing: neither in state nor with messages or
// alarms; the message is tried again, and then in deadletter with the reason.
func TestFailedTickLeavesNothing(t *testing.T) {
	d := startDaemon(t)
	r := d.root()
	r.mkdir("agents", "bob")
	r.agent("alice", d.config("note", ""))
	r.write("agents/alice/ctl", "alarm +1h first")
	r.write("agents/alice/inbox/new", "before")
	r.until("alice", "state/log", "message before")
	r.write("agents/alice/config", d.config("spoil", `,"tick":{"retries":2,"backoff_ms":10}`))
	id := r.ask("agents/alice/inbox/new", "a message")
	r.until("alice", "status", `"deadletter":1`)
	got := r.ended("alice", 4)
	equal(t, "ticks", len(got), 4)
	for i, l := range got[1:] {
		equal(t, "a failed tick", l, tickLine{ID: fmt.Sprint(i + 2), Cause: "message", Message: id, Outcome: "failed",
			Reason: "the command ended with status 1", Attempt: i + 1, DurationMS: l.DurationMS})
	}
	has(t, "deadletter", r.read("agents/alice/deadletter/"+id), `"reason":"the command ended with status 1"`)
	equal(t, "state", r.list("agents/alice/state")+" "+r.read("agents/alice/state/log"), "log message before\n")
	equal(t, "bob's inbox", r.list("agents/bob/inbox"), inboxFiles)
	ctl := r.read("agents/alice/ctl")
	has(t, "ctl", ctl, "# alarm 1\t")
	hasNot(t, "ctl", ctl, "spoilt")
	has(t, "output", r.read("agents/alice/logs/output"), "on purpose")

	// What was given up can be replayed.
	r.write("agents/alice/config", d.config("note", ""))
	r.write("agents/alice/deadletter/ctl", "replay all")
	r.until("alice", "state/log", "message a message")
}

func hasNot(t *testing.T, what, text, part string) {
	t.Helper()
	if strings.Contains(text, part) {
		t.Errorf("%s has %q:\n%s", what, part, text)
	}
}

// An agent whose triggers are given up one after another has failed, and says
// why; it begins again when it is told to.
func TestFailedAgent(t *testing.T) {
	d := startDaemon(t)
	r := d.root()
	r.agent("alice", `{"program":{"exec":"exit 9"},"tick":{"retries":0,"give_up":3}}`)
	for i := range 5 {
		r.write("agents/alice/inbox/new", fmt.Sprint(i))
	}
	status := r.until("alice", "status", `"state":"failed"`)
	has(t, "status", status, `"reason":"the command ended with status 9"`)
	has(t, "status", status, `"queues":{"inbox":2,"deadletter":3,`)
	d.kill()
	d.start()
	r = d.root()
	has(t, "status", r.read("agents/alice/status"), `"state":"failed"`)
	r.write("agents/alice/inbox/new", "is taken in")
	for _, verb := range []string{"wake", "start"} {
		r.write("agents/alice/ctl", verb)
		r.untilThat("alice", func() (string, bool) {
			s := r.read("agents/alice/status")
			return s, strings.Contains(s, `"inbox":0`) || strings.Contains(s, `"state":"failed"`)
		}, "it has worked again")
	}
}

// While a tick runs, state is its own: others read what was, and are refused
// to write.
func TestStateBelongsToTheTick(t *testing.T) {
	d := startDaemon(t)
	r := d.root()
	gate := filepath.Join(d.dir, "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Skip("no named pipes here: ", err)
	}
	ctl := buildAgentctl(t)
	r.agent("alice", fmt.Sprintf(`{"program":{"exec":%q}}`, ctl+" put state/notes </dev/null; echo new | "+ctl+" put state/notes; read go <"+gate))
	r.make("agents/alice/state", "notes", "old\n")
	r.write("agents/alice/ctl", "tick")
	r.until("alice", "status", `"running":"1"`)
	err := r.tryWrite("agents/alice/state/notes", "mine")
	if fsys.CodeOf(err) != fsys.Busy || !strings.Contains(fsys.ReasonOf(err), "a tick is running") {
		t.Errorf("writing meanwhile: %v", err)
	}
	equal(t, "notes meanwhile", r.read("agents/alice/state/notes"), "old\n")
	open, err := os.OpenFile(gate, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(open, "go")
	open.Close()
	r.until("alice", "logs/ticks", "done")
	equal(t, "notes after it", r.read("agents/alice/state/notes"), "new\n")
	r.write("agents/alice/state/notes", "mine")
}

// A message with an id that was ticked already is not ticked again, also after
// a restart.
func TestDuplicatesAreNotTicked(t *testing.T) {
	d := startDaemon(t)
	r := d.root()
	r.agent("alice", d.config("note", ""))
	send := func(id string) { r.write("agents/alice/inbox/new", `{"id":"`+id+`","body":"`+id+`"}`) }
	send("one")
	r.until("alice", "logs/ticks", "one")
	send("one")
	d.kill()
	d.start()
	r = d.root()
	send("one")
	send("two")
	r.until("alice", "logs/ticks", "two")
	equal(t, "log", r.read("agents/alice/state/log"), "message one\nmessage two\n")
}

// next gives nothing to others while a program takes the messages.
func TestNextIsTheProgramsOwn(t *testing.T) {
	d := startDaemon(t)
	r := d.root()
	r.mkdir("agents", "alice")
	waiting := r.begin(r.open("agents/alice/inbox/next", fsys.Read))
	r.write("agents/alice/config", `{"program":{"exec":"exit 1"}}`)
	<-waiting.done
	equal(t, "who waits at next", fsys.CodeOf(waiting.err), fsys.Busy)
	_, err := r.tryRead("agents/alice/inbox/next")
	equal(t, "who opens it", fsys.CodeOf(err), fsys.Busy)
	r.write("agents/alice/config", `{"program":{"exec":"exit 1"},"triggers":{"messages":false}}`)
	r.write("agents/alice/inbox/new", "x")
	has(t, "a message", r.read("agents/alice/inbox/next"), `"body":"x"`)
}

// Nothing that a program prints, and nothing that is recorded of it, has a key
// of the daemon's in it.
func TestNoKeyInAnyOutput(t *testing.T) {
	const key = "sk-this-is-secret"
	t.Setenv("OPENAI_API_KEY", key)
	t.Setenv("ECHO_API_KEY", key)
	t.Setenv("AGENT9_PASSPHRASE", key)
	d := startDaemon(t)
	os.Unsetenv("AGENT9_PASSPHRASE")
	r := d.root()
	r.agent("alice", d.config("env", ""))
	r.write("agents/alice/ctl", "tick")
	r.until("alice", "logs/ticks", "done")
	out := r.read("agents/alice/logs/output")
	has(t, "output", out, exec.AddrVar+"=unix:")
	for _, file := range []string{"logs/output", "logs/recent", "logs/ticks", "status", "config", "ctl"} {
		hasNot(t, file, r.read("agents/alice/"+file), key)
	}
	r.make("agents/alice/secrets", "hook", key)
	server := hook(t, func(auth, _ string) (int, string) { return 500, "no, " + auth + " is wrong" })
	r.write("agents/alice/config", `{"secrets":{"hook":{"uses":["net"],"hosts":["`+strings.TrimPrefix(server, "http://")+`"]}},
		"program":{"http":{"url":"`+server+`","secret":{"name":"hook","prefix":"Bearer "}}},"tick":{"retries":0}}`)
	r.write("agents/alice/ctl", "tick")
	r.until("alice", "logs/ticks", "failed")
	has(t, "ticks", r.read("agents/alice/logs/ticks"), "no, Bearer [secret] is wrong")
	for _, file := range []string{"logs/output", "logs/recent", "logs/ticks", "status", "config"} {
		hasNot(t, file, r.read("agents/alice/"+file), key)
	}
}

// hook returns the URL of a web service that is asked for each trigger.
func hook(t *testing.T, answer func(auth, trigger string) (status int, body string)) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		status, body := answer(r.Header.Get("Authorization"), string(b))
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// Alarms ring once or again, can be cancelled, and outlive the daemon.
func TestAlarms(t *testing.T) {
	d := startDaemon(t)
	r := d.root()
	r.agent("alice", d.config("note", ""))
	ctl := func(words string) string { return r.ask("agents/alice/ctl", words) }
	equal(t, "an alarm", ctl("alarm +0s  at   once"), "1")
	equal(t, "an alarm", ctl("alarm +1h in an hour"), "2")
	equal(t, "an alarm", ctl("alarm TZ=Europe/Berlin 0 8 * * 1-5 in the morning"), "3")
	equal(t, "an alarm", ctl("alarm @every 1s again"), "4")
	r.until("alice", "state/log", "alarm again\nalarm again\n")
	has(t, "log", r.read("agents/alice/state/log"), "alarm at once\n")
	ctl("cancel 4")
	list := r.read("agents/alice/ctl")
	has(t, "ctl", list, "# alarm 3\t")
	has(t, "ctl", list, "\tTZ=Europe/Berlin 0 8 * * 1-5\tin the morning\n")
	hasNot(t, "ctl", list, "# alarm 1\t")
	hasNot(t, "ctl", list, "# alarm 4\t")
	ctl("alarm +2s after the restart")
	d.kill()
	d.start()
	r = d.root()
	r.until("alice", "state/log", "alarm after the restart\n")
	has(t, "ctl", r.read("agents/alice/ctl"), "# alarm 2\t")
	for _, bad := range []string{"alarm", "alarm tomorrow", "alarm +x", "alarm 0 0 30 2 *", "alarm 99 * * * *", "alarm TZ=Nowhere/Land 0 8 * * *", "cancel 77", "cancel"} {
		if err := r.tryWrite("agents/alice/ctl", bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	r.mkdir("agents", "bob")
	if err := r.tryWrite("agents/bob/ctl", "alarm +1s"); fsys.CodeOf(err) != fsys.Busy {
		t.Errorf("an alarm without a program: %v", err)
	}
}

// An agent that has nothing to do hibernates, also across a restart, and the
// next trigger wakes it.
func TestHibernation(t *testing.T) {
	d := startDaemon(t)
	r := d.root()
	r.agent("alice", d.config("note", ""))
	has(t, "status", r.read("agents/alice/status"), `"state":"hibernating"`)
	r.write("agents/alice/inbox/new", "one")
	r.until("alice", "state/log", "one")
	r.until("alice", "status", `"state":"hibernating"`)
	r.mkdir("agents", "bob")
	has(t, "status", r.read("agents/bob/status"), `"state":"active"`)
	r.write("agents/bob/ctl", "hibernate")
	d.kill()
	d.start()
	r = d.root()
	for _, name := range []string{"alice", "bob"} {
		has(t, name, r.read("agents/"+name+"/status"), `"state":"hibernating"`)
	}
	r.write("agents/bob/inbox/new", "wake up")
	has(t, "bob", r.read("agents/bob/status"), `"state":"active"`)
	r.write("agents/alice/inbox/new", "two")
	r.until("alice", "state/log", "two")

	r.write("agents/alice/ctl", "stop")
	r.write("agents/alice/inbox/new", "three")
	d.kill()
	d.start()
	r = d.root()
	has(t, "status", r.read("agents/alice/status"), `"state":"stopped"`)
	equal(t, "ticks of a stopped agent", len(r.ended("alice", 2)), 2)
	r.write("agents/alice/ctl", "start")
	r.until("alice", "state/log", "three")
}

// Stopping an agent ends its tick, and its message is ticked again when it is
// started.
func TestStopEndsATick(t *testing.T) {
	d := startDaemon(t)
	r := d.root()
	r.agent("alice", `{"program":{"exec":"sleep 1000"}}`)
	id := r.ask("agents/alice/inbox/new", "x")
	r.until("alice", "status", `"running":"1"`)
	if err := r.tryWrite("agents/alice/ctl", "hibernate"); fsys.CodeOf(err) != fsys.Busy {
		t.Errorf("hibernate meanwhile: %v", err)
	}
	r.write("agents/alice/ctl", "stop")
	r.until("alice", "logs/ticks", "stopped")
	r.write("agents/alice/config", d.config("note", ""))
	r.write("agents/alice/ctl", "start")
	r.until("alice", "state/log", "message x")
	got := r.ended("alice", 2)
	equal(t, "the second tick", got[1].Message+fmt.Sprint(got[1].Attempt), id+"1")

	// One that is removed in the middle of a tick is gone, with the program.
	r.write("agents/alice/config", `{"program":{"exec":"sleep 1000"}}`)
	r.write("agents/alice/ctl", "tick")
	r.until("alice", "status", `"running":"3"`)
	r.write("agents/alice/ctl", "stop")
	r.remove("agents/alice")
	equal(t, "agents", r.list("agents"), "")
}

// Each agent has its turn, whoever has more to do.
func TestNoisyAgentDoesNotHoldUpOthers(t *testing.T) {
	d := startDaemon(t, "--max-ticks", "1")
	r := d.root()
	r.agent("noisy", `{"program":{"exec":"true"}}`)
	r.agent("quiet", `{"program":{"exec":"true"}}`)
	const many = 40
	r.write("agents/noisy/ctl", "stop")
	for range many {
		r.write("agents/noisy/inbox/new", "x")
	}
	r.write("agents/noisy/ctl", "start")
	r.write("agents/quiet/inbox/new", "x")
	r.until("quiet", "logs/ticks", "done")
	if n := len(r.ticks("noisy")); n >= many {
		t.Errorf("the noisy agent had all its %d ticks before the quiet one had any", n)
	}
}

// A message that waits for its next try holds up its sender's other messages,
// and nobody else's.
func TestOrderOfSenders(t *testing.T) {
	d := startDaemon(t)
	r := d.root()
	for _, name := range []string{"bob", "carol"} {
		r.mkdir("agents", name)
	}
	door := filepath.Join(d.dir, "door")
	r.agent("alice", fmt.Sprintf(`{"program":{"exec":%q},"tick":{"backoff_ms":300,"retries":100}}`,
		`read t; echo "$t" >>`+d.dir+`/tried; case $t in *first*) [ -e `+door+` ];; esac`))
	send := func(from, body string) {
		r.write("agents/"+from+"/outbox/new", `{"to":"alice","body":"`+body+`"}`)
	}
	send("bob", "first")
	send("bob", "second")
	send("carol", "third")
	r.until("alice", "logs/ticks", "failed")
	r.untilThat("alice", func() (string, bool) {
		b, _ := os.ReadFile(filepath.Join(d.dir, "tried"))
		return string(b), strings.Contains(string(b), "third")
	}, "carol's message is tried")
	b, _ := os.ReadFile(filepath.Join(d.dir, "tried"))
	hasNot(t, "what was tried", string(b), "second")
	if err := os.WriteFile(door, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.until("alice", "status", `"inbox":0`)
	b, _ = os.ReadFile(filepath.Join(d.dir, "tried"))
	has(t, "what was tried", string(b), "second")
}

// More messages than fit go to deadletter while the program is slow, and none
// is lost.
func TestOverflowWhileTicking(t *testing.T) {
	d := startDaemon(t)
	r := d.root()
	r.agent("alice", d.config("note", `,"inbox":{"limit":3}`))
	r.write("agents/alice/ctl", "stop")
	for i := range 5 {
		r.write("agents/alice/inbox/new", fmt.Sprint("m", i))
	}
	has(t, "status", r.read("agents/alice/status"), `"queues":{"inbox":3,"deadletter":2,`)
	r.write("agents/alice/ctl", "start")
	r.until("alice", "status", `"inbox":0`)
	r.write("agents/alice/deadletter/ctl", "replay all")
	r.until("alice", "state/log", "m4")
	equal(t, "log", r.read("agents/alice/state/log"), "message m0\nmessage m1\nmessage m2\nmessage m3\nmessage m4\n")
}

// A program can spend what one tick may, and no more.
func TestTickSpendsItsBudgetOnly(t *testing.T) {
	till := &till{runs: map[string]int{}}
	till.shut(true) // so that what is held stays held
	server := httptest.NewServer(till)
	t.Cleanup(server.Close)
	t.Cleanup(func() { till.shut(false) })
	t.Setenv("M_API_KEY", "secret") // with a key it bills
	d := startDaemon(t, "--compute", "m=openai:"+server.URL)
	r := d.root()
	r.agent("alice", d.config("spend", ""))
	r.write("agents/alice/compute/policy", `{"prices":{"*":{"input_microusd":1000000,"output_microusd":1000000}}}`)
	r.write("agents/alice/budget/limits", `{"per_tick_microusd":1000}`)
	r.write("agents/alice/ctl", "tick")
	r.until("alice", "logs/ticks", "done")
	has(t, "what was refused", r.read("agents/alice/state/refused"), "budget exceeded")
}

// The namespace of a tick can be mounted for its program.
func TestTickIsMounted(t *testing.T) {
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip("no FUSE here: ", err)
	}
	d := startDaemon(t)
	r := d.root()
	r.agent("alice", strings.Replace(d.config("mount", ""), `"env"`, `"mount":true,"env"`, 1))
	r.write("agents/alice/ctl", "tick")
	r.until("alice", "logs/ticks", "\n")
	got := r.ticks("alice")[0]
	if got.Outcome == "refused" {
		t.Skip("FUSE does not work here: ", got.Reason)
	}
	equal(t, "outcome", got.Outcome+got.Reason, "done")
	equal(t, "state/mounted", r.read("agents/alice/state/mounted"), "yes\n")
	mounts, _ := os.ReadFile("/proc/mounts")
	hasNot(t, "what is mounted", string(mounts), "agent9-mount-")
}

// Every line that a tick leaves in the trace says which tick, and which
// message, it was for.
func TestTraceNamesTheMessage(t *testing.T) {
	d := startDaemon(t)
	r := d.root()
	r.agent("alice", d.config("relay", ""))
	id := r.ask("agents/alice/inbox/new", `{"body":"1 alice"}`)
	r.until("alice", "status", `"inbox":0,"deadletter":0,"jobs":0,"approvals":0,"alarms":0`)
	r.until("alice", "logs/ticks", `"id":"2"`)
	type event struct{ Event, Tick, Message string }
	began := false
	for _, e := range lines[event](t, r.read("agents/alice/logs/recent")) {
		if e.Event == "tick.began" {
			began = e.Tick == "1"
		}
		if began && e.Event != "inbox.received" {
			equal(t, e.Event, e.Tick+" "+e.Message, "1 "+id)
		}
		if e.Event == "tick.ended" {
			began = false
		}
	}
}

// What is wrong with a config is said when it is written.
func TestTickConfig(t *testing.T) {
	d := startDaemon(t)
	r := d.root()
	r.mkdir("agents", "alice")
	for config, reason := range map[string]string{
		`{"program":{}}`:                                               "want one of exec, http, go, container",
		`{"program":{"exec":"x","go":"echo"}}`:                         "exec and go are given",
		`{"program":{"exec":" "}}`:                                     "exec is empty",
		`{"program":{"go":"nobody"}}`:                                  "no Go program is called nobody; there are: echo",
		`{"program":{"http":{"url":"ftp://x"}}}`:                       "url must be http",
		`{"program":{"http":{"url":"http://a:b@x"}}}`:                  "use secret",
		`{"program":{"http":{"url":"http://x","secret":{}}}}`:          "secret needs the name",
		`{"program":{"exec":"x","env":{"AGENT9_ADDR":"y"}}}`:           `"AGENT9_ADDR" cannot be set`,
		`{"program":{"go":"echo","mount":true}}`:                       "dir and mount are for exec",
		`{"program":{"exec":"x"},"tick":{"timeout_s":-1}}`:             "tick.timeout_s must be from 0 to 86400",
		`{"program":{"exec":"x"},"triggers":{"watch":["inbox/new"]}}`:  "cannot be watched",
		`{"program":{"exec":"x"},"triggers":{"watch":["goals/../x"]}}`: "cannot be watched",
		`{"program":{"exec":"x","shell":"bash"}}`:                      `unknown field "shell"`,
	} {
		err := r.tryWrite("agents/alice/config", config)
		if fsys.CodeOf(err) != fsys.Invalid || !strings.Contains(fsys.ReasonOf(err), reason) {
			t.Errorf("%s: got %v, want %s", config, err, reason)
		}
	}
	equal(t, "config", r.read("agents/alice/config"), "{}\n")
}

// A message that is given up and finds no room in deadletter stays in the inbox,
// before those that came after it, and goes there as soon as there is room.
func TestGivenUpMessageWaitsForRoom(t *testing.T) {
	d := startDaemon(t)
	r := d.root()
	config := func(limit int) string {
		return fmt.Sprintf(`{"program":{"exec":"exit 1"},"tick":{"retries":0,"backoff_ms":10,"give_up":1000},"deadletter":{"limit":%d}}`, limit)
	}
	r.agent("alice", config(1))
	send := func(id string) { r.write("agents/alice/inbox/new", `{"id":"`+id+`","body":"b"}`) }
	are := func(inbox, dead string) {
		t.Helper()
		equal(t, "inbox", r.list("agents/alice/inbox"), strings.TrimSpace(inboxFiles+" "+inbox))
		equal(t, "deadletter", r.list("agents/alice/deadletter"), strings.TrimSpace("ctl "+dead))
	}
	send("m1")
	r.until("alice", "status", `"inbox":0,"deadletter":1`)
	send("m2")
	r.until("alice", "logs/ticks", "deadletter is full")
	send("m3")
	are("m2 m3", "m1")
	has(t, "status", r.read("agents/alice/status"), "the command ended with status 1; deadletter is full, so the message stays in inbox")

	r.write("agents/alice/deadletter/ctl", "discard all")
	r.until("alice", "logs/ticks", `"message":"m3"`)
	r.until("alice", "status", "deadletter is full")
	are("m3", "m2")
	r.write("agents/alice/config", config(2))
	r.until("alice", "status", `"inbox":0,"deadletter":2`)
	are("", "m2 m3")
	send("m4")
	r.until("alice", "status", `"inbox":1,"deadletter":2`)
	r.until("alice", "status", "deadletter is full")
	r.remove("agents/alice/deadletter/m2")
	r.until("alice", "status", `"inbox":0,"deadletter":2`)
	are("", "m3 m4")
	d.stop()
	d.clean(d.data())
}
