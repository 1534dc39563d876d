package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"agent9/conformance/daemon"
	"agent9/fsys"
)

// A golden is a daemon with two servers of models, a driver of sandboxes that
// needs no rights, and a9 in the path of its agents' programs.
type golden struct {
	*testing.T
	d     *daemon.Daemon
	r     *daemon.Tree
	token string       // of ann
	old   time.Time    // when the jobs of sam may be swept
	holds *atomic.Bool // requests that begin with "hang" get no answer
}

// gateName is a pipe that the program of gate waits at, if it is there.
const gateName = "gate"

func newGolden(t *testing.T) *golden {
	daemon.HelperFor(t)
	g := &golden{T: t, holds: &atomic.Bool{}}
	t.Setenv("M_API_KEY", "secret") // with a key it bills
	t.Setenv("N_API_KEY", "secret")
	var args []string
	for _, id := range []string{"m", "n"} {
		server := httptest.NewServer(goldenModel{id, g.holds})
		t.Cleanup(server.Close)
		args = append(args, "--compute", id+"=openai:"+server.URL)
	}
	g.d = daemon.New(t, append(args, "--unsafe-host-containers")...)
	path := "PATH=" + filepath.Dir(os.Getenv("AGENT9_HELPER")) + ":" + os.Getenv("PATH")
	g.d.With = func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, path, "HOME="+g.d.Dir) }
	return g
}

// A goldenModel answers a message with itself.
type goldenModel struct {
	id    string
	holds *atomic.Bool
}

func (m goldenModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/models") {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
		return
	}
	text, _ := (&daemon.Speaker{Came: map[string]int{}}).Ask(r)
	switch {
	case strings.HasPrefix(text, "refuse"):
		http.Error(w, `{"error":{"message":"not that"}}`, http.StatusBadRequest)
		return
	case strings.HasPrefix(text, "flaky") && m.id == "m":
		http.Error(w, `{"error":{"message":"not now"}}`, http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for i, word := range strings.SplitAfter(text, " ") {
		piece, _ := json.Marshal(word)
		fmt.Fprintf(w, `data: {"object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":%s}}]}`+"\n\n", piece)
		w.(http.Flusher).Flush()
		if i == 0 && m.holds.Load() && strings.HasPrefix(text, "hang") {
			<-r.Context().Done()
			return
		}
	}
	fmt.Fprint(w, `data: {"object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":10,"total_tokens":20}}`+"\n\ndata: [DONE]\n\n")
}

// What the programs of agents do. A note is the cause of a tick; gatedProgram waits.
const (
	notesProgram = `a9 cat state/log >l 2>/dev/null; sed 's/.*"cause":"\([a-z]*\)".*/\1/' >>l; a9 write state/log <l; echo noted`
	gatedProgram = `cat >/dev/null; echo >$HOME/begun; test ! -p $HOME/gate || read x <$HOME/gate; a9 write state/done yes; a9 call outbox/new '{"to":"ina","id":"from-gate","body":"went on"}'; echo went on`
	// forever is longer than anybody keeps these files.
	forever = "36500d"
)

// look waits until the stream at path has words.
func (g *golden) look(path, words string) {
	g.Helper()
	h := g.r.Open(path, fsys.Read)
	defer h.Close()
	for all := []byte{}; !strings.Contains(string(all), words); {
		b := make([]byte, 4096)
		n, err := fsys.ReadAt(daemon.Within(g.T), h, b, int64(len(all)))
		if all = append(all, b[:n]...); err != nil || n == 0 {
			g.Fatalf("%s: %v after %q", path, err, all)
		}
	}
}

// is waits until a file has text.
func (g *golden) is(path, text string) {
	g.Helper()
	daemon.Eventually(g.T, path+" has "+text, func() bool {
		s, err := g.r.TryRead(path)
		return err == nil && strings.Contains(s, text)
	})
}

func (g *golden) begin() {
	g.Helper()
	g.d.Start()
	g.r = g.d.Root()
}

// A deed makes agents, and does to them what users do.
type deed struct {
	name string
	do   func(g *golden, r *daemon.Tree)
}

// before are done in a life of the daemon that is killed at its end, and after
// in the one that is frozen: killed, or ended in order.
var before = []deed{
	{"accounts and profiles", (*golden).accounts},
	{"a job and an answer that are cut off", (*golden).cut},
	{"jobs that are swept later", (*golden).sweeps},
}

var after = []deed{
	{"files, secrets, tools", (*golden).files},
	{"messages", (*golden).messages},
	{"jobs", (*golden).jobs},
	{"sandboxes", (*golden).sandboxes},
	{"conversations", (*golden).conversations},
	{"ticks", (*golden).ticks},
	{"tokens", (*golden).tokens},
	{"swept jobs", (*golden).swept},
	{"agents that come and go", (*golden).comeAndGo},
	{"what is under way", (*golden).underWay},
}

func (g *golden) world() {
	g.holds.Store(true)
	if err := syscall.Mkfifo(filepath.Join(g.d.Dir, gateName), 0o600); err != nil {
		g.Fatal(err)
	}
	g.begin()
	for _, d := range before {
		d.do(g, g.r)
	}
	g.d.Kill()
	g.begin()
	for _, d := range after {
		g.Log(d.name)
		d.do(g, g.r)
	}
}

func (g *golden) accounts(r *daemon.Tree) {
	for _, name := range []string{"org", "team", "crew", "gone"} {
		r.Mkdir("accounts", name)
	}
	r.Remove("accounts/gone")
	r.Write("accounts/org/limits", `{"total_microusd":900000000}`)
	r.Write("accounts/team/limits", `{"parent":"org","total_microusd":800000000,"approval_threshold_microusd":5000}`)
	r.Write("accounts/crew/limits", `{"parent":"team"}`)
	for _, p := range []string{"default", "support"} {
		r.Mkdir("profiles", p)
		for _, dir := range []string{"budget", "compute", "goals"} {
			r.Mkdir("profiles/"+p, dir)
		}
		// Nothing depends on the day.
		r.Make("profiles/"+p+"/budget", "limits", `{"total_microusd":700000000}`)
		r.Make("profiles/"+p+"/compute", "policy", `{"keep_results":"`+forever+`","idempotency_ttl":"`+forever+`","default_provider":"m","allow_providers":["m","echo"],"prices":{"m":{"input_microusd":1000000,"output_microusd":1000000}}}`)
	}
	r.Make("profiles/support", "README", "For those who help.\n")
	r.Make("profiles/support/goals", "help", "{{NAME}} helps {{PEER}}.\n")
}

// ask asks a model, and returns the number of the job.
func (g *golden) ask(agent, text, more string) string {
	g.Helper()
	return g.r.Ask("agents/"+agent+"/compute/new", fmt.Sprintf(`{"provider":"m","model":"m","max_tokens":100%s,"messages":[{"role":"user","content":%q}]}`, more, text))
}

func (g *golden) cut(r *daemon.Tree) {
	r.Mkdir("agents", "ann")
	n := g.ask("ann", "hang and be cut off", `,"idempotency_key":"cut"`)
	g.look("agents/ann/compute/jobs/"+n+"/output", "hang")
	r.Mkdir("agents", "cat")
	r.Write("agents/cat/config", `{"sessions":{"idle":"36500d","keep":"36500d"}}`)
	r.Ask("agents/cat/sessions/new", "cut short")
	r.Ask("agents/cat/sessions/1/prompt", "hang at first")
	g.look("agents/cat/sessions/1/stream", "hang")
	g.holds.Store(false) // from its next start on it gets an answer
}

func (g *golden) sweeps(r *daemon.Tree) {
	r.Mkdir("agents", "sam")
	for i := range 6 {
		n := g.ask("sam", fmt.Sprint("old ", i), fmt.Sprintf(`,"idempotency_key":"old%d"`, i))
		r.Read("agents/sam/compute/jobs/" + n + "/result")
	}
	g.old = time.Now().Add(61 * time.Second)
}

func (g *golden) files(r *daemon.Tree) {
	r.Mkdir("agents", "fil")
	at := "agents/fil/"
	r.Write(at+"config", `{"accept":["ann","team-*"],"prompt":"Be kind.","mounts":{"/identity":"sign-only","/tools":"read-only"},
		"secrets":{"github":{"uses":["git"],"hosts":["github.com"]},"key":{"uses":["tools"]}},
		"tools":{"none":{"command":["/no/such/server"],"env":{"API_KEY":{"secret":"key"}},"price_microusd":3}},
		"triggers":{"messages":false}}`)
	r.Make(at+"secrets", "github", daemon.Canary)
	r.Make(at+"secrets", "key", daemon.Canary+"-too")
	r.Make(at+"secrets", "gone", daemon.Canary+"-gone")
	r.Remove(at + "secrets/gone")
	r.Mkdir(at+"goals", "learn")
	r.Mkdir(at+"goals/learn", "empty")
	r.Make(at+"goals", "small", "Ship it.\n")
	r.Make(at+"goals", "nothing", "")
	r.Make(at+"goals/learn", "large", strings.Repeat("a golden line\n", 30_000))
	r.Make(at+"goals/learn", "bytes", string([]byte{0, 1, 255, '\n'}))
	r.Make(at+"state", "seen", "17\n")
	r.Make(at+"state", "large", strings.Repeat("a golden state\n", 20_000))
	r.Make(at+"skills", "review.md", "---\nname: review\ndescription: How we review.\n---\nRead all of it.\n")
	r.Make(at+"skills", "draft.md", "no header\n")
	r.Make(at+"skills", "gone.md", "no header\n")
	r.Remove(at + "skills/gone.md")
	r.Write(at+"logs/write", "a line <of> its own")
	r.TryWrite(at+"config", `{"nonsense":1}`)
	r.Ask(at+"identity/sign", "m")
}

func (g *golden) messages(r *daemon.Tree) {
	r.Agent("ina", `{"inbox":{"limit":6},"accept":["ann","gate"]}`)
	at := "agents/ina/"
	for i := range 7 { // one goes to deadletter
		r.Write(at+"inbox/new", fmt.Sprintf(`{"id":"m%d","type":"note","reply_to":"x","body":{"n":%d}}`, i, i))
	}
	r.TryWrite(at+"inbox/new", "plain")
	daemon.Has(g.T, "deadletter", r.List(at+"deadletter"), "m6")
	r.Read(at + "inbox/next")
	r.Remove(at + "inbox/m1")
	r.Remove(at + "inbox/m2")
	r.Write(at+"inbox/ctl", "untake m2")
	r.Remove(at + "inbox/taken/m1")
	r.Write("agents/ann/outbox/new", `{"to":"ina","id":"from-ann","body":"hello"}`)
	r.Write("agents/ann/outbox/new", `{"to":"ina","id":"from-ann","body":"hello"}`)
	r.TryWrite("agents/sam/outbox/new", `{"to":"ina","body":"is not taken"}`)
	r.Agent("old", `{"inbox":{"limit":2,"overflow":"drop-oldest"},"deadletter":{"limit":3,"overflow":"drop-oldest"}}`)
	for i := range 4 {
		r.Write("agents/old/inbox/new", fmt.Sprintf(`{"id":"d%d","body":"%d"}`, i, i))
	}
}

// approvals returns the id of what waits for a job of a service.
func (g *golden) approval(agent, service, job string) string {
	g.Helper()
	for id := range strings.FieldsSeq(g.r.List("agents/" + agent + "/approvals")) {
		text := g.r.Read("agents/" + agent + "/approvals/" + id)
		if strings.Contains(text, `"service":"`+service+`","job":`+job+`,`) {
			return "agents/" + agent + "/approvals/" + id
		}
	}
	g.Fatalf("nothing waits for %s %s", service, job)
	return ""
}

// dear is what needs an approval of ann.
const goldenDear = `,"max_cost_microusd":3000`

func (g *golden) jobs(r *daemon.Tree) {
	at := "agents/ann/"
	result := func(n string) { r.Read(at + "compute/jobs/" + n + "/result") }
	r.Write(at+"budget/limits", `{"parent":"crew","per_tick_microusd":500000000,"total_microusd":600000000,"approval_threshold_microusd":2000,"approval_expires_ms":31536000000}`)
	r.Write(at+"compute/policy", `{"keep_results":"36500d","idempotency_ttl":"36500d","default_provider":"m","max_concurrent":3,"max_queued":5,"requests_per_minute":1000,"fallback":[{"provider":"n"}],"prices":{"*":{"input_microusd":1000000,"output_microusd":1000000}}}`)
	result(r.Ask(at+"compute/new", `{"provider":"echo","messages":[{"role":"user","content":"for nothing"}],"max_cost_microusd":500}`))
	result(g.ask("ann", "done and paid", `,"idempotency_key":"paid"`))
	result(g.ask("ann", "refuse this", ""))
	result(r.Ask(at+"compute/new", `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"flaky the first time"}]}`))
	gone := g.ask("ann", "removed", `,"idempotency_key":"gone"`)
	result(gone)
	(&patient{t: g.T, r: r}).remove(at + "compute/jobs/" + gone)
	g.holds.Store(true)
	n := g.ask("ann", "hang until cancelled", "")
	g.look(at+"compute/jobs/"+n+"/output", "hang")
	r.Write(at+"compute/jobs/"+n+"/ctl", "cancel")
	result(n)
	r.Mkdir(at+"compute/jobs", "draft")
	r.Mkdir(at+"compute/jobs", "submitted")
	r.Write(at+"compute/jobs/submitted/request", `{"provider":"m","model":"m","max_tokens":100,"messages":[{"role":"user","content":"was a draft"}]}`)
	result("submitted")

	for _, word := range []string{"approve", "deny too dear"} {
		n := g.ask("ann", word, goldenDear)
		r.Write(g.approval("ann", "compute", n), word)
		result(n)
	}
	n = g.ask("ann", "withdrawn", goldenDear)
	r.Write(at+"compute/jobs/"+n+"/ctl", "cancel")
	result(n)
	r.Mkdir("agents", "exp")
	r.Write("agents/exp/budget/limits", `{"total_microusd":1000000,"approval_threshold_microusd":0,"approval_expires_ms":1}`)
	r.Read("agents/exp/compute/jobs/" + g.ask("exp", "expires", "") + "/result")
	g.ask("ann", "waits", goldenDear+`,"idempotency_key":"waits"`)
	g.ask("ann", "waits too", goldenDear)

	r.Agent("day", `{}`)
	r.Write("agents/day/budget/limits", `{"per_day_microusd":5000000}`)
	r.Read("agents/day/compute/jobs/" + g.ask("day", "on a day", "") + "/result")
}

func (g *golden) sandboxes(r *daemon.Tree) {
	r.Mkdir("agents", "box")
	at := "agents/box/"
	r.Write(at+"budget/limits", `{"parent":"crew","total_microusd":600000000,"approval_threshold_microusd":3000,"approval_expires_ms":31536000000}`)
	const rules = `{"price_per_session_microusd":100,"price_per_second_microusd":1,"stop_grace_s":1,"keep_sessions":"36500d","idempotency_ttl":"36500d"%s}`
	r.Write(at+"containers/policy", fmt.Sprintf(rules, ""))
	run := func(request string) string { return r.Ask(at+"containers/new", request) }
	result := func(n string) { r.Read(at + "containers/sessions/" + n + "/result") }
	result(run(`{"workspace":"w1","idempotency_key":"first","files":{"in/a":"given\n"},"env":{"X":"y"},"commands":["cat in/a; echo hello >file; echo err >&2","echo two $X"]}`))
	result(run(`{"commands":["echo before; exit 3","echo never"]}`))
	result(run(`{"limits":{"time_s":1},"commands":["echo begun; sleep 1000"]}`))
	n := run(`{"keep":true,"max_cost_microusd":2000,"commands":["echo kept"]}`)
	g.look(at+"containers/sessions/"+n+"/stdout", "kept")
	r.Write(at+"containers/sessions/"+n+"/ctl", "stop")
	result(n)
	gone := run("echo removed")
	result(gone)
	(&patient{t: g.T, r: r}).remove(at + "containers/sessions/" + gone)
	n = run(`{"max_cost_microusd":4000,"commands":["echo denied"]}`)
	r.Write(g.approval("box", "containers", n), "deny too dear")
	result(n)
	run(`{"max_cost_microusd":4000,"idempotency_key":"asks","commands":["echo approved; cat env.json >/dev/null"]}`)

	// One that is kept, with execs.
	n = run(`{"keep":true,"max_cost_microusd":2000,"workspace":"w2","commands":["echo mine >own; echo up"]}`)
	at += "containers/sessions/" + n + "/"
	g.look(at+"stdout", "up")
	x := at + "exec/" + r.Ask(at+"exec/new", "echo in a box; cat own")
	r.Read(x + "/result")
	x = at + "exec/" + r.Ask(at+"exec/new", "exit 7")
	r.Read(x + "/result")
	x = at + "exec/" + r.Ask(at+"exec/new", "echo begun; sleep 1000")
	g.look(x+"/stdout", "begun")
	r.Write(x+"/ctl", "kill")
	r.Read(x + "/result")
	x = at + "exec/" + r.Ask(at+"exec/new", `{"command":"cat","stdin":"given\n"}`)
	r.Read(x + "/result")
	r.Write(at+"ctl", "snapshot w3")

	r.Mkdir("agents", "dock")
	r.Write("agents/dock/containers/policy", fmt.Sprintf(rules, `,"max_concurrent":1`))
}

func (g *golden) conversations(r *daemon.Tree) {
	const config = `{"sessions":{"idle":"36500d","keep":"36500d","profiles":{"terse":{"prompt":"Be brief."}}}}`
	r.Agent("tom", config)
	at := "agents/tom/sessions/"
	say := func(n, text string) string {
		p := r.Ask(at+n+"/prompt", text)
		var number int
		fmt.Sscan(p, &number)
		return p
	}
	g.holds.Store(false)
	r.Ask(at+"new", `{"title":"two answers","profile":"terse"}`)
	say("1", "first words")
	say("1", `{"content":[{"type":"text","text":"second words"}]}`)
	r.Transcript(at+"1/transcript", 1, 2)
	r.Ask(at+"new", "ended")
	say("2", "a word")
	r.Transcript(at+"2/transcript", 1)
	r.Write(at+"2/ctl", "end")
	r.Ask(at+"new", "paused")
	r.Write(at+"3/ctl", "pause")
	say("3", "waits for resume")
	say("3", "cancelled before")
	r.Write(at+"3/ctl", "cancel 2")
	r.Ask(at+"new", "failed")
	say("4", "refuse this")
	r.Transcript(at+"4/transcript", 1)
	g.holds.Store(true)
	r.Ask(at+"new", "cancelled")
	say("5", "hang until cancelled")
	g.look(at+"5/stream", "hang")
	r.Write(at+"5/ctl", "cancel")
	r.Transcript(at+"5/transcript", 1)
	r.Ask(at+"new", "removed")
	(&patient{t: g.T, r: r}).remove(at + "6")

	r.Agent("tia", config) // whose every word needs an approval
	r.Write("agents/tia/budget/limits", `{"total_microusd":1000000,"approval_threshold_microusd":0,"approval_expires_ms":31536000000}`)
	r.Ask("agents/tia/sessions/new", "asks")
	r.Ask("agents/tia/sessions/1/prompt", "may I")
	g.is("agents/tia/status", `"approvals":1`)

	r.Agent("tim", config) // is stopped
	r.Ask("agents/tim/sessions/new", "stopped")
	r.Ask("agents/tim/sessions/1/prompt", "hang until stopped")
	g.look("agents/tim/sessions/1/stream", "hang")
	r.Ask("agents/tim/sessions/1/prompt", "after the start")
	r.Write("agents/tim/ctl", "stop")
	r.Transcript("agents/tim/sessions/1/transcript", 1)
	r.Write("agents/tim/inbox/new", `{"id":"waits","body":"for the start"}`)

	r.Agent("tek", `{"program":{"exec":"cat >/dev/null; echo an answer of a program"},"sessions":{"idle":"36500d","keep":"36500d"}}`)
	r.Ask("agents/tek/sessions/new", "a program")
	r.Ask("agents/tek/sessions/1/prompt", "say")
	r.Transcript("agents/tek/sessions/1/transcript", 1)

	r.Agent("idle", `{"sessions":{"idle":"1s","keep":"36500d"}}`)
	r.Ask("agents/idle/sessions/new", "soon over")
}

func (g *golden) ticks(r *daemon.Tree) {
	r.Agent("ned", `{"program":{"exec":`+quoted(notesProgram)+`},"triggers":{"watch":["goals/plan"]}}`)
	r.Write("agents/ned/ctl", "tick by hand")
	r.Until("ned", "logs/ticks", `"cause":"manual"`)
	r.Write("agents/ned/inbox/new", `{"id":"one","body":"first"}`)
	r.Until("ned", "logs/ticks", `"cause":"message"`)
	r.Make("agents/ned/goals", "plan", "a plan\n")
	r.Until("ned", "logs/ticks", `"cause":"watch"`)
	r.Write("agents/ned/ctl", "alarm +10ms at once")
	r.Until("ned", "logs/ticks", `"cause":"alarm"`)
	r.Ended("ned", 4)
	r.Write("agents/ned/ctl", "alarm 2099-01-01T00:00:00Z far away")
	r.Write("agents/ned/ctl", "alarm @every 876000h again and again")
	r.Write("agents/ned/ctl", "alarm 2098-01-01T00:00:00Z taken back")
	r.Write("agents/ned/ctl", "cancel 4")

	r.Agent("fay", `{"program":{"exec":"exit 3"},"tick":{"retries":0,"give_up":100}}`)
	r.Write("agents/fay/inbox/new", `{"id":"given-up","body":"x"}`)
	r.Until("fay", "status", `"deadletter":1`)
	r.Agent("gil", `{"program":{"exec":"exit 9"},"tick":{"retries":0,"give_up":1}}`)
	r.Write("agents/gil/inbox/new", `{"id":"given-up","body":"x"}`)
	r.Until("gil", "status", `"state":"failed"`)
	r.Write("agents/gil/inbox/new", `{"id":"waits","body":"x"}`)
	r.Agent("web", `{"program":{"http":{"url":"http://127.0.0.1:9/","headers":{"X-A":"b"}}},"triggers":{"messages":false}}`)
	r.Agent("wes", `{"program":{"exec":"true"}}`)
	r.Write("agents/wes/ctl", "hibernate")
}

func (g *golden) tokens(r *daemon.Tree) {
	g.token = r.Ask("ctl", "token ann r,/inbox:rw,/compute:rw never")
	r.Ask("ctl", "token box rw 2099-01-01T00:00:00Z")
	r.Ask("ctl", "token * r never")
	r.Ask("ctl", "socket ann")
	before := r.List("tokens")
	r.Ask("ctl", "token sam rw 7d")
	for id := range strings.FieldsSeq(r.List("tokens")) {
		if !strings.Contains(before, id) {
			r.Write("ctl", "revoke "+id)
		}
	}
}

// swept lets jobs that ended more than a minute ago go.
func (g *golden) swept(r *daemon.Tree) {
	at := "agents/sam/compute/"
	const policy = `{"keep_results":"%s","idempotency_ttl":"36500d","requests_per_minute":1000,"prices":{"*":{"input_microusd":1000000,"output_microusd":1000000}}}`
	r.Write(at+"policy", fmt.Sprintf(policy, "1s"))
	time.Sleep(time.Until(g.old))
	r.Read(at + "jobs/" + g.ask("sam", "sweeps", "") + "/result")
	daemon.Eventually(g.T, "old jobs have been swept", func() bool {
		_, err := r.TryRead(at + "jobs/4/status")
		return err != nil
	})
	r.Write(at+"policy", fmt.Sprintf(policy, forever))
}

func (g *golden) comeAndGo(r *daemon.Tree) {
	bundle := r.Read("bundles/fil.tar")
	g.imports(`{"name":"imp","new_identity":true}`, bundle)
	g.imports(`{"name":"clo","mode":"clone"}`, bundle)
	r.Write("ctl", "create pro support PEER=ann")
	r.Agent("zed", `{}`)
	r.Make("agents/zed/goals", "big", strings.Repeat("gone\n", 50_000))
	r.Write("agents/zed/ctl", "stop")
}

func (g *golden) imports(wish, bundle string) {
	g.Helper()
	if _, err := fsys.Converse(daemon.Within(g.T), g.r.Root, "bundles/new", []byte(wish+bundle)); err != nil {
		g.Fatal(err)
	}
}

// underWay begins what is under way when the daemon ends.
func (g *golden) underWay(r *daemon.Tree) {
	g.holds.Store(true)
	run := r.Ask("agents/dock/containers/new", `{"keep":true,"max_cost_microusd":2000,"workspace":"w","commands":["echo mine >own; echo up"]}`)
	g.look("agents/dock/containers/sessions/"+run+"/stdout", "up")
	at := "agents/dock/containers/sessions/" + run + "/"
	x := at + "exec/" + r.Ask(at+"exec/new", "echo begun; sleep 1000")
	g.look(x+"/stdout", "begun")
	r.Ask("agents/dock/containers/new", `{"commands":["echo queued"],"idempotency_key":"queued"}`)

	for i := range 3 {
		n := g.ask("ann", fmt.Sprint("hang at the end ", i), fmt.Sprintf(`,"idempotency_key":"runs%d"`, i))
		g.look("agents/ann/compute/jobs/"+n+"/output", "hang")
	}
	g.ask("ann", "queued", `,"idempotency_key":"queued"`)

	at = "agents/tom/sessions/"
	r.Ask(at+"new", "under way")
	r.Ask(at+"7/prompt", "hang at the end")
	g.look(at+"7/stream", "hang")
	r.Ask(at+"7/prompt", "waits behind it")

	r.Agent("gate", `{"program":{"exec":`+quoted(gatedProgram)+`}}`)
	r.Write("agents/gate/inbox/new", `{"id":"in-a-tick","body":"x"}`)
	daemon.Eventually(g.T, "the tick has begun", func() bool {
		_, err := os.Stat(filepath.Join(g.d.Dir, "begun"))
		return err == nil
	})
	r.Write("agents/gate/inbox/new", `{"id":"after-it","body":"x"}`)
	r.Remove("agents/zed")
	r.Write("agents/ned/ctl", "alarm +10s soon")
	r.Write("agents/fay/config", `{"program":{"exec":"exit 3"},"tick":{"retries":1,"backoff_ms":10000,"give_up":100}}`)
	r.Write("agents/fay/inbox/new", `{"id":"tried-again","body":"x"}`)
	r.Ended("fay", 2)
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
