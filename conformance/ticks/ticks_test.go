package ticks

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

	"agent9/conformance/daemon"
	"agent9/fsys"
	"agent9/providers/programs/exec"
)

// How a program ends is what its tick is said to have come to, and nothing of
// it is left.
func TestHowProgramsEnd(t *testing.T) {
	d := daemon.Start(t)
	r := d.Root()
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
			r := r.As(t)
			pids := filepath.Join(d.Dir, c.name+".pids")
			program := fmt.Sprintf(`{"exec":%q}`, strings.ReplaceAll(c.command, "PIDS", pids))
			if c.name == "nowhere" {
				program = `{"exec":"true","dir":"/no/such/directory"}`
			}
			more := c.more
			if more != "" {
				more += ","
			}
			r.Agent(c.name, `{"program":`+program+`,"tick":{`+more+`"retries":0}}`)
			r.Write("agents/"+c.name+"/ctl", "tick do it")
			r.Until(c.name, "logs/ticks", "\n")
			got := r.Ticks(c.name)[0]
			daemon.Equal(t, "outcome", got.Outcome+": "+got.Reason, c.outcome+": "+c.reason)
			daemon.Has(t, "status", r.Read("agents/"+c.name+"/status"), `"outcome":"`+c.outcome+`"`)
			b, _ := os.ReadFile(pids)
			for _, pid := range strings.Fields(string(b)) {
				if runs(pid) {
					t.Errorf("process %s still runs", pid)
				}
			}
			if c.command == "cat" {
				daemon.Has(t, "output", r.Read("agents/good/logs/output"), `"cause":"manual"`)
				daemon.Has(t, "output", r.Read("agents/good/logs/output"), `"text":"do it"`)
			}
			if c.outcome == "flooded" {
				daemon.Has(t, "output", r.Read("agents/floods/logs/output"), "bytes are left out")
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

// A tick that fails has done nothing: neither in state nor with messages or
// alarms; the message is tried again, and then in deadletter with the reason.
func TestFailedTickLeavesNothing(t *testing.T) {
	d := daemon.Start(t)
	r := d.Root()
	r.Mkdir("agents", "bob")
	r.Agent("alice", d.Config("note", ""))
	r.Write("agents/alice/ctl", "alarm +1h first")
	r.Write("agents/alice/inbox/new", "before")
	r.Until("alice", "state/log", "message before")
	r.Write("agents/alice/config", d.Config("spoil", `,"tick":{"retries":2,"backoff_ms":10}`))
	id := r.Ask("agents/alice/inbox/new", "a message")
	r.Until("alice", "status", `"deadletter":1`)
	got := r.Ended("alice", 4)
	daemon.Equal(t, "ticks", len(got), 4)
	for i, l := range got[1:] {
		daemon.Equal(t, "a failed tick", l, daemon.TickLine{ID: fmt.Sprint(i + 2), Cause: "message", Message: id, Outcome: "failed",
			Reason: "the command ended with status 1", Attempt: i + 1, DurationMS: l.DurationMS})
	}
	daemon.Has(t, "deadletter", r.Read("agents/alice/deadletter/"+id), `"reason":"the command ended with status 1"`)
	daemon.Equal(t, "state", r.List("agents/alice/state")+" "+r.Read("agents/alice/state/log"), "log message before\n")
	daemon.Equal(t, "bob's inbox", r.List("agents/bob/inbox"), daemon.InboxFiles)
	ctl := r.Read("agents/alice/ctl")
	daemon.Has(t, "ctl", ctl, "# alarm 1\t")
	daemon.HasNot(t, "ctl", ctl, "spoilt")
	daemon.Has(t, "output", r.Read("agents/alice/logs/output"), "on purpose")

	// What was given up can be replayed.
	r.Write("agents/alice/config", d.Config("note", ""))
	r.Write("agents/alice/deadletter/ctl", "replay all")
	r.Until("alice", "state/log", "message a message")
}

// An agent whose triggers are given up one after another has failed, and says
// why; it begins again when it is told to.
func TestFailedAgent(t *testing.T) {
	d := daemon.Start(t)
	r := d.Root()
	r.Agent("alice", `{"program":{"exec":"exit 9"},"tick":{"retries":0,"give_up":3}}`)
	for i := range 5 {
		r.Write("agents/alice/inbox/new", fmt.Sprint(i))
	}
	status := r.Until("alice", "status", `"state":"failed"`)
	daemon.Has(t, "status", status, `"reason":"the command ended with status 9"`)
	daemon.Has(t, "status", status, `"queues":{"inbox":2,"deadletter":3,`)
	d.Kill()
	d.Start()
	r = d.Root()
	daemon.Has(t, "status", r.Read("agents/alice/status"), `"state":"failed"`)
	r.Write("agents/alice/inbox/new", "is taken in")
	for _, verb := range []string{"wake", "start"} {
		r.Write("agents/alice/ctl", verb)
		r.UntilThat("alice", func() (string, bool) {
			s := r.Read("agents/alice/status")
			return s, strings.Contains(s, `"inbox":0`) || strings.Contains(s, `"state":"failed"`)
		}, "it has worked again")
	}
}

// While a tick runs, state is its own: others read what was, and are refused
// to write.
func TestStateBelongsToTheTick(t *testing.T) {
	d := daemon.Start(t)
	r := d.Root()
	gate := filepath.Join(d.Dir, "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Skip("no named pipes here: ", err)
	}
	ctl := daemon.Agentctl(t)
	r.Agent("alice", fmt.Sprintf(`{"program":{"exec":%q}}`, ctl+" put state/notes </dev/null; echo new | "+ctl+" put state/notes; read go <"+gate))
	r.Make("agents/alice/state", "notes", "old\n")
	r.Write("agents/alice/ctl", "tick")
	r.Until("alice", "status", `"running":"1"`)
	err := r.TryWrite("agents/alice/state/notes", "mine")
	if fsys.CodeOf(err) != fsys.Busy || !strings.Contains(fsys.ReasonOf(err), "a tick is running") {
		t.Errorf("writing meanwhile: %v", err)
	}
	daemon.Equal(t, "notes meanwhile", r.Read("agents/alice/state/notes"), "old\n")
	open, err := os.OpenFile(gate, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(open, "go")
	open.Close()
	r.Until("alice", "logs/ticks", "done")
	daemon.Equal(t, "notes after it", r.Read("agents/alice/state/notes"), "new\n")
	r.Write("agents/alice/state/notes", "mine")
}

// A message with an id that was ticked already is not ticked again, also after
// a restart.
func TestDuplicatesAreNotTicked(t *testing.T) {
	d := daemon.Start(t)
	r := d.Root()
	r.Agent("alice", d.Config("note", ""))
	send := func(id string) { r.Write("agents/alice/inbox/new", `{"id":"`+id+`","body":"`+id+`"}`) }
	send("one")
	r.Until("alice", "logs/ticks", "one")
	send("one")
	d.Kill()
	d.Start()
	r = d.Root()
	send("one")
	send("two")
	r.Until("alice", "logs/ticks", "two")
	daemon.Equal(t, "log", r.Read("agents/alice/state/log"), "message one\nmessage two\n")
}

// next gives nothing to others while a program takes the messages.
func TestNextIsTheProgramsOwn(t *testing.T) {
	d := daemon.Start(t)
	r := d.Root()
	r.Mkdir("agents", "alice")
	waiting := r.Begin(r.Open("agents/alice/inbox/next", fsys.Read))
	r.Write("agents/alice/config", `{"program":{"exec":"exit 1"}}`)
	<-waiting.Done
	daemon.Equal(t, "who waits at next", fsys.CodeOf(waiting.Err), fsys.Busy)
	_, err := r.TryRead("agents/alice/inbox/next")
	daemon.Equal(t, "who opens it", fsys.CodeOf(err), fsys.Busy)
	r.Write("agents/alice/config", `{"program":{"exec":"exit 1"},"triggers":{"messages":false}}`)
	r.Write("agents/alice/inbox/new", "x")
	daemon.Has(t, "a message", r.Read("agents/alice/inbox/next"), `"body":"x"`)
}

// Nothing that a program prints, and nothing that is recorded of it, has a key
// of the daemon's in it.
func TestNoKeyInAnyOutput(t *testing.T) {
	const key = "sk-this-is-secret"
	t.Setenv("OPENAI_API_KEY", key)
	t.Setenv("ECHO_API_KEY", key)
	t.Setenv("AGENT9_PASSPHRASE", key)
	d := daemon.Start(t)
	os.Unsetenv("AGENT9_PASSPHRASE")
	r := d.Root()
	r.Agent("alice", d.Config("env", ""))
	r.Write("agents/alice/ctl", "tick")
	r.Until("alice", "logs/ticks", "done")
	out := r.Read("agents/alice/logs/output")
	daemon.Has(t, "output", out, exec.AddrVar+"=unix:")
	for _, file := range []string{"logs/output", "logs/recent", "logs/ticks", "status", "config", "ctl"} {
		daemon.HasNot(t, file, r.Read("agents/alice/"+file), key)
	}
	r.Make("agents/alice/secrets", "hook", key)
	server := hook(t, func(auth, _ string) (int, string) { return 500, "no, " + auth + " is wrong" })
	r.Write("agents/alice/config", `{"secrets":{"hook":{"uses":["net"],"hosts":["`+strings.TrimPrefix(server, "http://")+`"]}},
		"program":{"http":{"url":"`+server+`","secret":{"name":"hook","prefix":"Bearer "}}},"tick":{"retries":0}}`)
	r.Write("agents/alice/ctl", "tick")
	r.Until("alice", "logs/ticks", "failed")
	daemon.Has(t, "ticks", r.Read("agents/alice/logs/ticks"), "no, Bearer [secret] is wrong")
	for _, file := range []string{"logs/output", "logs/recent", "logs/ticks", "status", "config"} {
		daemon.HasNot(t, file, r.Read("agents/alice/"+file), key)
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
	d := daemon.Start(t)
	r := d.Root()
	r.Agent("alice", d.Config("note", ""))
	ctl := func(words string) string { return r.Ask("agents/alice/ctl", words) }
	daemon.Equal(t, "an alarm", ctl("alarm +0s  at   once"), "1")
	daemon.Equal(t, "an alarm", ctl("alarm +1h in an hour"), "2")
	daemon.Equal(t, "an alarm", ctl("alarm TZ=Europe/Berlin 0 8 * * 1-5 in the morning"), "3")
	daemon.Equal(t, "an alarm", ctl("alarm @every 1s again"), "4")
	r.Until("alice", "state/log", "alarm again\nalarm again\n")
	daemon.Has(t, "log", r.Read("agents/alice/state/log"), "alarm at once\n")
	ctl("cancel 4")
	list := r.Read("agents/alice/ctl")
	daemon.Has(t, "ctl", list, "# alarm 3\t")
	daemon.Has(t, "ctl", list, "\tTZ=Europe/Berlin 0 8 * * 1-5\tin the morning\n")
	daemon.HasNot(t, "ctl", list, "# alarm 1\t")
	daemon.HasNot(t, "ctl", list, "# alarm 4\t")
	ctl("alarm +2s after the restart")
	d.Kill()
	d.Start()
	r = d.Root()
	r.Until("alice", "state/log", "alarm after the restart\n")
	daemon.Has(t, "ctl", r.Read("agents/alice/ctl"), "# alarm 2\t")
	for _, bad := range []string{"alarm", "alarm tomorrow", "alarm +x", "alarm 0 0 30 2 *", "alarm 99 * * * *", "alarm TZ=Nowhere/Land 0 8 * * *", "cancel 77", "cancel"} {
		if err := r.TryWrite("agents/alice/ctl", bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	r.Mkdir("agents", "bob")
	if err := r.TryWrite("agents/bob/ctl", "alarm +1s"); fsys.CodeOf(err) != fsys.Busy {
		t.Errorf("an alarm without a program: %v", err)
	}
}

// An agent that has nothing to do hibernates, also across a restart, and the
// next trigger wakes it.
func TestHibernation(t *testing.T) {
	d := daemon.Start(t)
	r := d.Root()
	r.Agent("alice", d.Config("note", ""))
	daemon.Has(t, "status", r.Read("agents/alice/status"), `"state":"hibernating"`)
	r.Write("agents/alice/inbox/new", "one")
	r.Until("alice", "state/log", "one")
	r.Until("alice", "status", `"state":"hibernating"`)
	r.Mkdir("agents", "bob")
	daemon.Has(t, "status", r.Read("agents/bob/status"), `"state":"active"`)
	r.Write("agents/bob/ctl", "hibernate")
	d.Kill()
	d.Start()
	r = d.Root()
	for _, name := range []string{"alice", "bob"} {
		daemon.Has(t, name, r.Read("agents/"+name+"/status"), `"state":"hibernating"`)
	}
	r.Write("agents/bob/inbox/new", "wake up")
	daemon.Has(t, "bob", r.Read("agents/bob/status"), `"state":"active"`)
	r.Write("agents/alice/inbox/new", "two")
	r.Until("alice", "state/log", "two")

	r.Write("agents/alice/ctl", "stop")
	r.Write("agents/alice/inbox/new", "three")
	d.Kill()
	d.Start()
	r = d.Root()
	daemon.Has(t, "status", r.Read("agents/alice/status"), `"state":"stopped"`)
	daemon.Equal(t, "ticks of a stopped agent", len(r.Ended("alice", 2)), 2)
	r.Write("agents/alice/ctl", "start")
	r.Until("alice", "state/log", "three")
}

// Stopping an agent ends its tick, and its message is ticked again when it is
// started.
func TestStopEndsATick(t *testing.T) {
	d := daemon.Start(t)
	r := d.Root()
	r.Agent("alice", `{"program":{"exec":"sleep 1000"}}`)
	id := r.Ask("agents/alice/inbox/new", "x")
	r.Until("alice", "status", `"running":"1"`)
	if err := r.TryWrite("agents/alice/ctl", "hibernate"); fsys.CodeOf(err) != fsys.Busy {
		t.Errorf("hibernate meanwhile: %v", err)
	}
	r.Write("agents/alice/ctl", "stop")
	r.Until("alice", "logs/ticks", "stopped")
	r.Write("agents/alice/config", d.Config("note", ""))
	r.Write("agents/alice/ctl", "start")
	r.Until("alice", "state/log", "message x")
	got := r.Ended("alice", 2)
	daemon.Equal(t, "the second tick", got[1].Message+fmt.Sprint(got[1].Attempt), id+"1")

	// One that is removed in the middle of a tick is gone, with the program.
	r.Write("agents/alice/config", `{"program":{"exec":"sleep 1000"}}`)
	r.Write("agents/alice/ctl", "tick")
	r.Until("alice", "status", `"running":"3"`)
	r.Write("agents/alice/ctl", "stop")
	r.Remove("agents/alice")
	daemon.Equal(t, "agents", r.List("agents"), "")
}

// Each agent has its turn, whoever has more to do.
func TestNoisyAgentDoesNotHoldUpOthers(t *testing.T) {
	d := daemon.Start(t, "--max-ticks", "1")
	r := d.Root()
	r.Agent("noisy", `{"program":{"exec":"true"}}`)
	r.Agent("quiet", `{"program":{"exec":"true"}}`)
	const many = 40
	r.Write("agents/noisy/ctl", "stop")
	for range many {
		r.Write("agents/noisy/inbox/new", "x")
	}
	r.Write("agents/noisy/ctl", "start")
	r.Write("agents/quiet/inbox/new", "x")
	r.Until("quiet", "logs/ticks", "done")
	if n := len(r.Ticks("noisy")); n >= many {
		t.Errorf("the noisy agent had all its %d ticks before the quiet one had any", n)
	}
}

// A message that waits for its next try holds up its sender's other messages,
// and nobody else's.
func TestOrderOfSenders(t *testing.T) {
	d := daemon.Start(t)
	r := d.Root()
	for _, name := range []string{"bob", "carol"} {
		r.Mkdir("agents", name)
	}
	door := filepath.Join(d.Dir, "door")
	r.Agent("alice", fmt.Sprintf(`{"program":{"exec":%q},"tick":{"backoff_ms":300,"retries":100}}`,
		`read t; echo "$t" >>`+d.Dir+`/tried; case $t in *first*) [ -e `+door+` ];; esac`))
	send := func(from, body string) {
		r.Write("agents/"+from+"/outbox/new", `{"to":"alice","body":"`+body+`"}`)
	}
	send("bob", "first")
	send("bob", "second")
	send("carol", "third")
	r.Until("alice", "logs/ticks", "failed")
	r.UntilThat("alice", func() (string, bool) {
		b, _ := os.ReadFile(filepath.Join(d.Dir, "tried"))
		return string(b), strings.Contains(string(b), "third")
	}, "carol's message is tried")
	b, _ := os.ReadFile(filepath.Join(d.Dir, "tried"))
	daemon.HasNot(t, "what was tried", string(b), "second")
	if err := os.WriteFile(door, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.Until("alice", "status", `"inbox":0`)
	b, _ = os.ReadFile(filepath.Join(d.Dir, "tried"))
	daemon.Has(t, "what was tried", string(b), "second")
}

// More messages than fit go to deadletter while the program is slow, and none
// is lost.
func TestOverflowWhileTicking(t *testing.T) {
	d := daemon.Start(t)
	r := d.Root()
	r.Agent("alice", d.Config("note", `,"inbox":{"limit":3}`))
	r.Write("agents/alice/ctl", "stop")
	for i := range 5 {
		r.Write("agents/alice/inbox/new", fmt.Sprint("m", i))
	}
	daemon.Has(t, "status", r.Read("agents/alice/status"), `"queues":{"inbox":3,"deadletter":2,`)
	r.Write("agents/alice/ctl", "start")
	r.Until("alice", "status", `"inbox":0`)
	r.Write("agents/alice/deadletter/ctl", "replay all")
	r.Until("alice", "state/log", "m4")
	daemon.Equal(t, "log", r.Read("agents/alice/state/log"), "message m0\nmessage m1\nmessage m2\nmessage m3\nmessage m4\n")
}

// A program can spend what one tick may, and no more.
func TestTickSpendsItsBudgetOnly(t *testing.T) {
	till := &daemon.Till{Runs: map[string]int{}}
	till.Shut(true) // so that what is held stays held
	server := httptest.NewServer(till)
	t.Cleanup(server.Close)
	t.Cleanup(func() { till.Shut(false) })
	t.Setenv("M_API_KEY", "secret") // with a key it bills
	d := daemon.Start(t, "--compute", "m=openai:"+server.URL)
	r := d.Root()
	r.Agent("alice", d.Config("spend", ""))
	r.Write("agents/alice/compute/policy", `{"prices":{"*":{"input_microusd":1000000,"output_microusd":1000000}}}`)
	r.Write("agents/alice/budget/limits", `{"per_tick_microusd":1000}`)
	r.Write("agents/alice/ctl", "tick")
	r.Until("alice", "logs/ticks", "done")
	daemon.Has(t, "what was refused", r.Read("agents/alice/state/refused"), "budget exceeded")
}

// The namespace of a tick can be mounted for its program.
func TestTickIsMounted(t *testing.T) {
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip("no FUSE here: ", err)
	}
	d := daemon.Start(t)
	r := d.Root()
	r.Agent("alice", strings.Replace(d.Config("mount", ""), `"env"`, `"mount":true,"env"`, 1))
	r.Write("agents/alice/ctl", "tick")
	r.Until("alice", "logs/ticks", "\n")
	got := r.Ticks("alice")[0]
	if got.Outcome == "refused" {
		t.Skip("FUSE does not work here: ", got.Reason)
	}
	daemon.Equal(t, "outcome", got.Outcome+got.Reason, "done")
	daemon.Equal(t, "state/mounted", r.Read("agents/alice/state/mounted"), "yes\n")
	mounts, _ := os.ReadFile("/proc/mounts")
	daemon.HasNot(t, "what is mounted", string(mounts), "agent9-mount-")
}

// Every line that a tick leaves in the trace says which tick, and which
// message, it was for.
func TestTraceNamesTheMessage(t *testing.T) {
	d := daemon.Start(t)
	r := d.Root()
	r.Agent("alice", d.Config("relay", ""))
	id := r.Ask("agents/alice/inbox/new", `{"body":"1 alice"}`)
	r.Until("alice", "status", `"inbox":0,"deadletter":0,"jobs":0,"approvals":0,"alarms":0`)
	r.Until("alice", "logs/ticks", `"id":"2"`)
	type event struct{ Event, Tick, Message string }
	began := false
	for _, e := range daemon.Lines[event](t, r.Read("agents/alice/logs/recent")) {
		if e.Event == "tick.began" {
			began = e.Tick == "1"
		}
		if began && e.Event != "inbox.received" {
			daemon.Equal(t, e.Event, e.Tick+" "+e.Message, "1 "+id)
		}
		if e.Event == "tick.ended" {
			began = false
		}
	}
}

// What is wrong with a config is said when it is written.
func TestTickConfig(t *testing.T) {
	d := daemon.Start(t)
	r := d.Root()
	r.Mkdir("agents", "alice")
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
		err := r.TryWrite("agents/alice/config", config)
		if fsys.CodeOf(err) != fsys.Invalid || !strings.Contains(fsys.ReasonOf(err), reason) {
			t.Errorf("%s: got %v, want %s", config, err, reason)
		}
	}
	daemon.Equal(t, "config", r.Read("agents/alice/config"), "{}\n")
}

// A message that is given up and finds no room in deadletter stays in the inbox,
// before those that came after it, and goes there as soon as there is room.
func TestGivenUpMessageWaitsForRoom(t *testing.T) {
	d := daemon.Start(t)
	r := d.Root()
	config := func(limit int) string {
		return fmt.Sprintf(`{"program":{"exec":"exit 1"},"tick":{"retries":0,"backoff_ms":10,"give_up":1000},"deadletter":{"limit":%d}}`, limit)
	}
	r.Agent("alice", config(1))
	send := func(id string) { r.Write("agents/alice/inbox/new", `{"id":"`+id+`","body":"b"}`) }
	are := func(inbox, dead string) {
		t.Helper()
		daemon.Equal(t, "inbox", r.List("agents/alice/inbox"), strings.TrimSpace(daemon.InboxFiles+" "+inbox))
		daemon.Equal(t, "deadletter", r.List("agents/alice/deadletter"), strings.TrimSpace("ctl "+dead))
	}
	send("m1")
	r.Until("alice", "status", `"inbox":0,"deadletter":1`)
	send("m2")
	r.Until("alice", "logs/ticks", "deadletter is full")
	send("m3")
	are("m2 m3", "m1")
	daemon.Has(t, "status", r.Read("agents/alice/status"), "the command ended with status 1; deadletter is full, so the message stays in inbox")

	r.Write("agents/alice/deadletter/ctl", "discard all")
	r.Until("alice", "logs/ticks", `"message":"m3"`)
	r.Until("alice", "status", "deadletter is full")
	are("m3", "m2")
	r.Write("agents/alice/config", config(2))
	r.Until("alice", "status", `"inbox":0,"deadletter":2`)
	are("", "m2 m3")
	send("m4")
	r.Until("alice", "status", `"inbox":1,"deadletter":2`)
	r.Until("alice", "status", "deadletter is full")
	r.Remove("agents/alice/deadletter/m2")
	r.Until("alice", "status", `"inbox":0,"deadletter":2`)
	are("", "m3 m4")
	d.Stop()
	d.Clean(d.Data())
}
