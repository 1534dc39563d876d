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

	"agent9/fsys"
)

// A golden is a daemon with two servers of models, a driver of sandboxes that
// needs no rights, and a9 in the path of its agents' programs.
type golden struct {
	*testing.T
	d     *daemon
	r     *tree
	token string       // of ann
	old   time.Time    // when the jobs of sam may be swept
	holds *atomic.Bool // requests that begin with "hang" get no answer
}

// gateName is a pipe that the program of gate waits at, if it is there.
const gateName = "gate"

func newGolden(t *testing.T) *golden {
	helperFor(t)
	g := &golden{T: t, holds: &atomic.Bool{}}
	t.Setenv("M_API_KEY", "secret") // with a key it bills
	t.Setenv("N_API_KEY", "secret")
	var args []string
	for _, id := range []string{"m", "n"} {
		server := httptest.NewServer(goldenModel{id, g.holds})
		t.Cleanup(server.Close)
		args = append(args, "--compute", id+"=openai:"+server.URL)
	}
	g.d = newDaemon(t, append(args, "--unsafe-host-containers")...)
	path := "PATH=" + filepath.Dir(os.Getenv("AGENT9_HELPER")) + ":" + os.Getenv("PATH")
	g.d.with = func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, path, "HOME="+g.d.dir) }
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
	text, _ := (&speaker{came: map[string]int{}}).ask(r)
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
	h := g.r.open(path, fsys.Read)
	defer h.Close()
	for all := []byte{}; !strings.Contains(string(all), words); {
		b := make([]byte, 4096)
		n, err := fsys.ReadAt(within(g.T), h, b, int64(len(all)))
		if all = append(all, b[:n]...); err != nil || n == 0 {
			g.Fatalf("%s: %v after %q", path, err, all)
		}
	}
}

// is waits until a file has text.
func (g *golden) is(path, text string) {
	g.Helper()
	eventually(g.T, path+" has "+text, func() bool {
		s, err := g.r.tryRead(path)
		return err == nil && strings.Contains(s, text)
	})
}

func (g *golden) begin() {
	g.Helper()
	g.d.start()
	g.r = g.d.root()
}

// A deed makes agents, and does to them what users do.
type deed struct {
	name string
	do   func(g *golden, r *tree)
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
	if err := syscall.Mkfifo(filepath.Join(g.d.dir, gateName), 0o600); err != nil {
		g.Fatal(err)
	}
	g.begin()
	for _, d := range before {
		d.do(g, g.r)
	}
	g.d.kill()
	g.begin()
	for _, d := range after {
		g.Log(d.name)
		d.do(g, g.r)
	}
}

func (g *golden) accounts(r *tree) {
	for _, name := range []string{"org", "team", "crew", "gone"} {
		r.mkdir("accounts", name)
	}
	r.remove("accounts/gone")
	r.write("accounts/org/limits", `{"total_microusd":900000000}`)
	r.write("accounts/team/limits", `{"parent":"org","total_microusd":800000000,"approval_threshold_microusd":5000}`)
	r.write("accounts/crew/limits", `{"parent":"team"}`)
	for _, p := range []string{"default", "support"} {
		r.mkdir("profiles", p)
		for _, dir := range []string{"budget", "compute", "goals"} {
			r.mkdir("profiles/"+p, dir)
		}
		// Nothing depends on the day.
		r.make("profiles/"+p+"/budget", "limits", `{"total_microusd":700000000}`)
		r.make("profiles/"+p+"/compute", "policy", `{"keep_results":"`+forever+`","idempotency_ttl":"`+forever+`","default_provider":"m","allow_providers":["m","echo"],"prices":{"m":{"input_microusd":1000000,"output_microusd":1000000}}}`)
	}
	r.make("profiles/support", "README", "For those who help.\n")
	r.make("profiles/support/goals", "help", "{{NAME}} helps {{PEER}}.\n")
}

// ask asks a model, and returns the number of the job.
func (g *golden) ask(agent, text, more string) string {
	g.Helper()
	return g.r.ask("agents/"+agent+"/compute/new", fmt.Sprintf(`{"provider":"m","model":"m","max_tokens":100%s,"messages":[{"role":"user","content":%q}]}`, more, text))
}

func (g *golden) cut(r *tree) {
	r.mkdir("agents", "ann")
	n := g.ask("ann", "hang and be cut off", `,"idempotency_key":"cut"`)
	g.look("agents/ann/compute/jobs/"+n+"/output", "hang")
	r.mkdir("agents", "cat")
	r.write("agents/cat/config", `{"sessions":{"idle":"36500d","keep":"36500d"}}`)
	r.ask("agents/cat/sessions/new", "cut short")
	r.ask("agents/cat/sessions/1/prompt", "hang at first")
	g.look("agents/cat/sessions/1/stream", "hang")
	g.holds.Store(false) // from its next start on it gets an answer
}

func (g *golden) sweeps(r *tree) {
	r.mkdir("agents", "sam")
	for i := range 6 {
		n := g.ask("sam", fmt.Sprint("old ", i), fmt.Sprintf(`,"idempotency_key":"old%d"`, i))
		r.read("agents/sam/compute/jobs/" + n + "/result")
	}
	g.old = time.Now().Add(61 * time.Second)
}

func (g *golden) files(r *tree) {
	r.mkdir("agents", "fil")
	at := "agents/fil/"
	r.write(at+"config", `{"accept":["ann","team-*"],"prompt":"Be kind.","mounts":{"/identity":"sign-only","/tools":"read-only"},
		"secrets":{"github":{"uses":["git"],"hosts":["github.com"]},"key":{"uses":["tools"]}},
		"tools":{"none":{"command":["/no/such/server"],"env":{"API_KEY":{"secret":"key"}},"price_microusd":3}},
		"triggers":{"messages":false}}`)
	r.make(at+"secrets", "github", canary)
	r.make(at+"secrets", "key", canary+"-too")
	r.make(at+"secrets", "gone", canary+"-gone")
	r.remove(at + "secrets/gone")
	r.mkdir(at+"goals", "learn")
	r.mkdir(at+"goals/learn", "empty")
	r.make(at+"goals", "small", "Ship it.\n")
	r.make(at+"goals", "nothing", "")
	r.make(at+"goals/learn", "large", strings.Repeat("a golden line\n", 30_000))
	r.make(at+"goals/learn", "bytes", string([]byte{0, 1, 255, '\n'}))
	r.make(at+"state", "seen", "17\n")
	r.make(at+"state", "large", strings.Repeat("a golden state\n", 20_000))
	r.make(at+"skills", "review.md", "---\nname: review\ndescription: How we review.\n---\nRead all of it.\n")
	r.make(at+"skills", "draft.md", "no header\n")
	r.make(at+"skills", "gone.md", "no header\n")
	r.remove(at + "skills/gone.md")
	r.write(at+"logs/write", "a line <of> its own")
	r.tryWrite(at+"config", `{"nonsense":1}`)
	r.ask(at+"identity/sign", "m")
}

func (g *golden) messages(r *tree) {
	r.agent("ina", `{"inbox":{"limit":6},"accept":["ann","gate"]}`)
	at := "agents/ina/"
	for i := range 7 { // one goes to deadletter
		r.write(at+"inbox/new", fmt.Sprintf(`{"id":"m%d","type":"note","reply_to":"x","body":{"n":%d}}`, i, i))
	}
	r.tryWrite(at+"inbox/new", "plain")
	has(g.T, "deadletter", r.list(at+"deadletter"), "m6")
	r.read(at + "inbox/next")
	r.remove(at + "inbox/m1")
	r.remove(at + "inbox/m2")
	r.write(at+"inbox/ctl", "untake m2")
	r.remove(at + "inbox/taken/m1")
	r.write("agents/ann/outbox/new", `{"to":"ina","id":"from-ann","body":"hello"}`)
	r.write("agents/ann/outbox/new", `{"to":"ina","id":"from-ann","body":"hello"}`)
	r.tryWrite("agents/sam/outbox/new", `{"to":"ina","body":"is not taken"}`)
	r.agent("old", `{"inbox":{"limit":2,"overflow":"drop-oldest"},"deadletter":{"limit":3,"overflow":"drop-oldest"}}`)
	for i := range 4 {
		r.write("agents/old/inbox/new", fmt.Sprintf(`{"id":"d%d","body":"%d"}`, i, i))
	}
}

// approvals returns the id of what waits for a job of a service.
func (g *golden) approval(agent, service, job string) string {
	g.Helper()
	for id := range strings.FieldsSeq(g.r.list("agents/" + agent + "/approvals")) {
		text := g.r.read("agents/" + agent + "/approvals/" + id)
		if strings.Contains(text, `"service":"`+service+`","job":`+job+`,`) {
			return "agents/" + agent + "/approvals/" + id
		}
	}
	g.Fatalf("nothing waits for %s %s", service, job)
	return ""
}

// dear is what needs an approval of ann.
const goldenDear = `,"max_cost_microusd":3000`

func (g *golden) jobs(r *tree) {
	at := "agents/ann/"
	result := func(n string) { r.read(at + "compute/jobs/" + n + "/result") }
	r.write(at+"budget/limits", `{"parent":"crew","per_tick_microusd":500000000,"total_microusd":600000000,"approval_threshold_microusd":2000,"approval_expires_ms":31536000000}`)
	r.write(at+"compute/policy", `{"keep_results":"36500d","idempotency_ttl":"36500d","default_provider":"m","max_concurrent":3,"max_queued":5,"requests_per_minute":1000,"fallback":[{"provider":"n"}],"prices":{"*":{"input_microusd":1000000,"output_microusd":1000000}}}`)
	result(r.ask(at+"compute/new", `{"provider":"echo","messages":[{"role":"user","content":"for nothing"}],"max_cost_microusd":500}`))
	result(g.ask("ann", "done and paid", `,"idempotency_key":"paid"`))
	result(g.ask("ann", "refuse this", ""))
	result(r.ask(at+"compute/new", `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"flaky the first time"}]}`))
	gone := g.ask("ann", "removed", `,"idempotency_key":"gone"`)
	result(gone)
	(&patient{t: g.T, r: r}).remove(at + "compute/jobs/" + gone)
	g.holds.Store(true)
	n := g.ask("ann", "hang until cancelled", "")
	g.look(at+"compute/jobs/"+n+"/output", "hang")
	r.write(at+"compute/jobs/"+n+"/ctl", "cancel")
	result(n)
	r.mkdir(at+"compute/jobs", "draft")
	r.mkdir(at+"compute/jobs", "submitted")
	r.write(at+"compute/jobs/submitted/request", `{"provider":"m","model":"m","max_tokens":100,"messages":[{"role":"user","content":"was a draft"}]}`)
	result("submitted")

	for _, word := range []string{"approve", "deny too dear"} {
		n := g.ask("ann", word, goldenDear)
		r.write(g.approval("ann", "compute", n), word)
		result(n)
	}
	n = g.ask("ann", "withdrawn", goldenDear)
	r.write(at+"compute/jobs/"+n+"/ctl", "cancel")
	result(n)
	r.mkdir("agents", "exp")
	r.write("agents/exp/budget/limits", `{"total_microusd":1000000,"approval_threshold_microusd":0,"approval_expires_ms":1}`)
	r.read("agents/exp/compute/jobs/" + g.ask("exp", "expires", "") + "/result")
	g.ask("ann", "waits", goldenDear+`,"idempotency_key":"waits"`)
	g.ask("ann", "waits too", goldenDear)

	r.agent("day", `{}`)
	r.write("agents/day/budget/limits", `{"per_day_microusd":5000000}`)
	r.read("agents/day/compute/jobs/" + g.ask("day", "on a day", "") + "/result")
}

func (g *golden) sandboxes(r *tree) {
	r.mkdir("agents", "box")
	at := "agents/box/"
	r.write(at+"budget/limits", `{"parent":"crew","total_microusd":600000000,"approval_threshold_microusd":3000,"approval_expires_ms":31536000000}`)
	const rules = `{"price_per_session_microusd":100,"price_per_second_microusd":1,"stop_grace_s":1,"keep_sessions":"36500d","idempotency_ttl":"36500d"%s}`
	r.write(at+"containers/policy", fmt.Sprintf(rules, ""))
	run := func(request string) string { return r.ask(at+"containers/new", request) }
	result := func(n string) { r.read(at + "containers/sessions/" + n + "/result") }
	result(run(`{"workspace":"w1","idempotency_key":"first","files":{"in/a":"given\n"},"env":{"X":"y"},"commands":["cat in/a; echo hello >file; echo err >&2","echo two $X"]}`))
	result(run(`{"commands":["echo before; exit 3","echo never"]}`))
	result(run(`{"limits":{"time_s":1},"commands":["echo begun; sleep 1000"]}`))
	n := run(`{"keep":true,"max_cost_microusd":2000,"commands":["echo kept"]}`)
	g.look(at+"containers/sessions/"+n+"/stdout", "kept")
	r.write(at+"containers/sessions/"+n+"/ctl", "stop")
	result(n)
	gone := run("echo removed")
	result(gone)
	(&patient{t: g.T, r: r}).remove(at + "containers/sessions/" + gone)
	n = run(`{"max_cost_microusd":4000,"commands":["echo denied"]}`)
	r.write(g.approval("box", "containers", n), "deny too dear")
	result(n)
	run(`{"max_cost_microusd":4000,"idempotency_key":"asks","commands":["echo approved; cat env.json >/dev/null"]}`)

	// One that is kept, with execs.
	n = run(`{"keep":true,"max_cost_microusd":2000,"workspace":"w2","commands":["echo mine >own; echo up"]}`)
	at += "containers/sessions/" + n + "/"
	g.look(at+"stdout", "up")
	x := at + "exec/" + r.ask(at+"exec/new", "echo in a box; cat own")
	r.read(x + "/result")
	x = at + "exec/" + r.ask(at+"exec/new", "exit 7")
	r.read(x + "/result")
	x = at + "exec/" + r.ask(at+"exec/new", "echo begun; sleep 1000")
	g.look(x+"/stdout", "begun")
	r.write(x+"/ctl", "kill")
	r.read(x + "/result")
	x = at + "exec/" + r.ask(at+"exec/new", `{"command":"cat","stdin":"given\n"}`)
	r.read(x + "/result")
	r.write(at+"ctl", "snapshot w3")

	r.mkdir("agents", "dock")
	r.write("agents/dock/containers/policy", fmt.Sprintf(rules, `,"max_concurrent":1`))
}

func (g *golden) conversations(r *tree) {
	const config = `{"sessions":{"idle":"36500d","keep":"36500d","profiles":{"terse":{"prompt":"Be brief."}}}}`
	r.agent("tom", config)
	at := "agents/tom/sessions/"
	say := func(n, text string) string {
		p := r.ask(at+n+"/prompt", text)
		var number int
		fmt.Sscan(p, &number)
		return p
	}
	g.holds.Store(false)
	r.ask(at+"new", `{"title":"two answers","profile":"terse"}`)
	say("1", "first words")
	say("1", `{"content":[{"type":"text","text":"second words"}]}`)
	r.transcript(at+"1/transcript", 1, 2)
	r.ask(at+"new", "ended")
	say("2", "a word")
	r.transcript(at+"2/transcript", 1)
	r.write(at+"2/ctl", "end")
	r.ask(at+"new", "paused")
	r.write(at+"3/ctl", "pause")
	say("3", "waits for resume")
	say("3", "cancelled before")
	r.write(at+"3/ctl", "cancel 2")
	r.ask(at+"new", "failed")
	say("4", "refuse this")
	r.transcript(at+"4/transcript", 1)
	g.holds.Store(true)
	r.ask(at+"new", "cancelled")
	say("5", "hang until cancelled")
	g.look(at+"5/stream", "hang")
	r.write(at+"5/ctl", "cancel")
	r.transcript(at+"5/transcript", 1)
	r.ask(at+"new", "removed")
	(&patient{t: g.T, r: r}).remove(at + "6")

	r.agent("tia", config) // whose every word needs an approval
	r.write("agents/tia/budget/limits", `{"total_microusd":1000000,"approval_threshold_microusd":0,"approval_expires_ms":31536000000}`)
	r.ask("agents/tia/sessions/new", "asks")
	r.ask("agents/tia/sessions/1/prompt", "may I")
	g.is("agents/tia/status", `"approvals":1`)

	r.agent("tim", config) // is stopped
	r.ask("agents/tim/sessions/new", "stopped")
	r.ask("agents/tim/sessions/1/prompt", "hang until stopped")
	g.look("agents/tim/sessions/1/stream", "hang")
	r.ask("agents/tim/sessions/1/prompt", "after the start")
	r.write("agents/tim/ctl", "stop")
	r.transcript("agents/tim/sessions/1/transcript", 1)
	r.write("agents/tim/inbox/new", `{"id":"waits","body":"for the start"}`)

	r.agent("tek", `{"program":{"exec":"cat >/dev/null; echo an answer of a program"},"sessions":{"idle":"36500d","keep":"36500d"}}`)
	r.ask("agents/tek/sessions/new", "a program")
	r.ask("agents/tek/sessions/1/prompt", "say")
	r.transcript("agents/tek/sessions/1/transcript", 1)

	r.agent("idle", `{"sessions":{"idle":"1s","keep":"36500d"}}`)
	r.ask("agents/idle/sessions/new", "soon over")
}

func (g *golden) ticks(r *tree) {
	r.agent("ned", `{"program":{"exec":`+quoted(notesProgram)+`},"triggers":{"watch":["goals/plan"]}}`)
	r.write("agents/ned/ctl", "tick by hand")
	r.until("ned", "logs/ticks", `"cause":"manual"`)
	r.write("agents/ned/inbox/new", `{"id":"one","body":"first"}`)
	r.until("ned", "logs/ticks", `"cause":"message"`)
	r.make("agents/ned/goals", "plan", "a plan\n")
	r.until("ned", "logs/ticks", `"cause":"watch"`)
	r.write("agents/ned/ctl", "alarm +10ms at once")
	r.until("ned", "logs/ticks", `"cause":"alarm"`)
	r.ended("ned", 4)
	r.write("agents/ned/ctl", "alarm 2099-01-01T00:00:00Z far away")
	r.write("agents/ned/ctl", "alarm @every 876000h again and again")
	r.write("agents/ned/ctl", "alarm 2098-01-01T00:00:00Z taken back")
	r.write("agents/ned/ctl", "cancel 4")

	r.agent("fay", `{"program":{"exec":"exit 3"},"tick":{"retries":0,"give_up":100}}`)
	r.write("agents/fay/inbox/new", `{"id":"given-up","body":"x"}`)
	r.until("fay", "status", `"deadletter":1`)
	r.agent("gil", `{"program":{"exec":"exit 9"},"tick":{"retries":0,"give_up":1}}`)
	r.write("agents/gil/inbox/new", `{"id":"given-up","body":"x"}`)
	r.until("gil", "status", `"state":"failed"`)
	r.write("agents/gil/inbox/new", `{"id":"waits","body":"x"}`)
	r.agent("web", `{"program":{"http":{"url":"http://127.0.0.1:9/","headers":{"X-A":"b"}}},"triggers":{"messages":false}}`)
	r.agent("wes", `{"program":{"exec":"true"}}`)
	r.write("agents/wes/ctl", "hibernate")
}

func (g *golden) tokens(r *tree) {
	g.token = r.ask("ctl", "token ann r,/inbox:rw,/compute:rw never")
	r.ask("ctl", "token box rw 2099-01-01T00:00:00Z")
	r.ask("ctl", "token * r never")
	r.ask("ctl", "socket ann")
	before := r.list("tokens")
	r.ask("ctl", "token sam rw 7d")
	for id := range strings.FieldsSeq(r.list("tokens")) {
		if !strings.Contains(before, id) {
			r.write("ctl", "revoke "+id)
		}
	}
}

// swept lets jobs that ended more than a minute ago go.
func (g *golden) swept(r *tree) {
	at := "agents/sam/compute/"
	const policy = `{"keep_results":"%s","idempotency_ttl":"36500d","requests_per_minute":1000,"prices":{"*":{"input_microusd":1000000,"output_microusd":1000000}}}`
	r.write(at+"policy", fmt.Sprintf(policy, "1s"))
	time.Sleep(time.Until(g.old))
	r.read(at + "jobs/" + g.ask("sam", "sweeps", "") + "/result")
	eventually(g.T, "old jobs have been swept", func() bool {
		_, err := r.tryRead(at + "jobs/4/status")
		return err != nil
	})
	r.write(at+"policy", fmt.Sprintf(policy, forever))
}

func (g *golden) comeAndGo(r *tree) {
	bundle := r.read("bundles/fil.tar")
	g.imports(`{"name":"imp","new_identity":true}`, bundle)
	g.imports(`{"name":"clo","mode":"clone"}`, bundle)
	r.write("ctl", "create pro support PEER=ann")
	r.agent("zed", `{}`)
	r.make("agents/zed/goals", "big", strings.Repeat("gone\n", 50_000))
	r.write("agents/zed/ctl", "stop")
}

func (g *golden) imports(wish, bundle string) {
	g.Helper()
	if _, err := fsys.Converse(within(g.T), g.r.root, "bundles/new", []byte(wish+bundle)); err != nil {
		g.Fatal(err)
	}
}

// underWay begins what is under way when the daemon ends.
func (g *golden) underWay(r *tree) {
	g.holds.Store(true)
	run := r.ask("agents/dock/containers/new", `{"keep":true,"max_cost_microusd":2000,"workspace":"w","commands":["echo mine >own; echo up"]}`)
	g.look("agents/dock/containers/sessions/"+run+"/stdout", "up")
	at := "agents/dock/containers/sessions/" + run + "/"
	x := at + "exec/" + r.ask(at+"exec/new", "echo begun; sleep 1000")
	g.look(x+"/stdout", "begun")
	r.ask("agents/dock/containers/new", `{"commands":["echo queued"],"idempotency_key":"queued"}`)

	for i := range 3 {
		n := g.ask("ann", fmt.Sprint("hang at the end ", i), fmt.Sprintf(`,"idempotency_key":"runs%d"`, i))
		g.look("agents/ann/compute/jobs/"+n+"/output", "hang")
	}
	g.ask("ann", "queued", `,"idempotency_key":"queued"`)

	at = "agents/tom/sessions/"
	r.ask(at+"new", "under way")
	r.ask(at+"7/prompt", "hang at the end")
	g.look(at+"7/stream", "hang")
	r.ask(at+"7/prompt", "waits behind it")

	r.agent("gate", `{"program":{"exec":`+quoted(gatedProgram)+`}}`)
	r.write("agents/gate/inbox/new", `{"id":"in-a-tick","body":"x"}`)
	eventually(g.T, "the tick has begun", func() bool {
		_, err := os.Stat(filepath.Join(g.d.dir, "begun"))
		return err == nil
	})
	r.write("agents/gate/inbox/new", `{"id":"after-it","body":"x"}`)
	r.remove("agents/zed")
	r.write("agents/ned/ctl", "alarm +10s soon")
	r.write("agents/fay/config", `{"program":{"exec":"exit 3"},"tick":{"retries":1,"backoff_ms":10000,"give_up":100}}`)
	r.write("agents/fay/inbox/new", `{"id":"tried-again","body":"x"}`)
	r.ended("fay", 2)
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
