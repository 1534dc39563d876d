package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

// limit is how long a test waits for what must happen.
const limit = 20 * time.Second

// A console is where agentctl runs in a test.
type console struct {
	t    *testing.T
	addr string
	in   string
	env  string // token
}

type output struct {
	status   int
	out, err string
}

func (c console) run(args ...string) output {
	c.t.Helper()
	var out, errOut bytes.Buffer
	all := append([]string{"agentctl", "--addr", c.addr, "--token", c.env}, args...)
	status := run(c.t.Context(), all, strings.NewReader(c.in), &out, &errOut)
	return output{status, out.String(), errOut.String()}
}

// want runs agentctl and compares what it says.
func (c console) want(want output, args ...string) {
	c.t.Helper()
	if got := c.run(args...); got != want {
		c.t.Errorf("agentctl %q:\ngot  %+v\nwant %+v", args, got, want)
	}
}

func (c console) ok(out string, args ...string) {
	c.t.Helper()
	c.want(output{0, out, ""}, args...)
}

func (c console) fails(message string, args ...string) {
	c.t.Helper()
	c.want(output{1, "", "agentctl: " + message + "\n"}, args...)
}

func TestAgents(t *testing.T) {
	h := newHost(t)
	c := console{t: t, addr: h.serve()}
	c.ok("", "create", "alice", "bob")
	c.want(output{1, "", "agentctl: alice: File exists\nagentctl: a/b: a name cannot contain / or NUL\n"}, "create", "alice", "a/b", "carol")
	c.ok("NAME   STATE   INBOX  JOBS  SPENT  LEFT\n"+
		"alice  active  2      3     $1.50  $0.995\n"+
		"bob    active  2      3     $1.50  $0.995\n"+
		"carol  active  2      3     $1.50  $0.995\n", "list")
	c.ok(`name        alice
state       active
public key  ab12
created     2030-01-02T03:04:05.000Z
inbox       2 waiting, 1 in deadletter
jobs        3 queued or running
spent       $1.50, of it $0.005 today; $0.00 held
left        $0.995
`, "status", "alice")
	if got := c.run("status", "agents/alice", "--json"); jsonOf(t, got.out)["name"] != "alice" {
		t.Errorf("status --json: %+v", got)
	}
	if got := c.run("list", "--json"); strings.Count(got.out, "\n") != 3 {
		t.Errorf("list --json: %+v", got)
	}
	c.fails("bob: the agent runs; stop it first", "delete", "bob")
	c.ok("", "delete", "--stop", "bob")
	c.fails("bob: No such file or directory", "delete", "bob")
	c.fails("agents/bob/status: No such file or directory", "status", "bob")
	c.ok("alice\ncarol\n", "ls", "/agents")
}

func TestSend(t *testing.T) {
	h := newHost(t, "alice")
	c := console{t: t, addr: h.serve()}
	for _, row := range []struct {
		in   string
		args []string
		want string
	}{
		{"", []string{"hello"}, `{"body":"hello"}`},
		{"", []string{"two", "words"}, `{"body":"two words"}`},
		{"", []string{"[urgent] <b>"}, `{"body":"[urgent] <b>"}`},
		{"", []string{"--", "-v"}, `{"body":"-v"}`},
		{"from\nstdin\n", []string{"-"}, `{"body":"from\nstdin"}`},
		{"", []string{`{"type":"t","body":{"a":1}}`}, `{"body":{"a":1},"type":"t"}`},
		{"", []string{"hi", "--type", "ci", "--id=7", "--reply-to", "6"}, `{"body":"hi","id":"7","reply_to":"6","type":"ci"}`},
	} {
		c.in = row.in
		c.ok("m1\n", append([]string{"send", "alice"}, row.args...)...)
		sent := h.seen(&h.sent)
		if got := sent[len(sent)-1]; !reflect.DeepEqual(jsonOf(t, got), jsonOf(t, row.want)) {
			t.Errorf("send %q sent %s, want %s", row.args, got, row.want)
		}
	}
	c.fails("agents/alice/inbox/new: 5000 needed, 10 left", "send", "alice", "refuse me")
	c.fails("the text begins with { but is not a JSON object: unexpected end of JSON input", "send", "alice", `{"a":`)
	c.fails("agents/nobody/inbox/new: No such file or directory", "send", "nobody", "hi")
}

func TestAsk(t *testing.T) {
	h := newHost(t, "alice")
	c := console{t: t, addr: h.serve()}
	h.say("because of\nRayleigh", true)
	c.ok("because of\nRayleigh\n", "ask", "alice", "why is the sky blue?")
	c.ok("because of\nRayleigh\n", "ask", "alice", "--model", "m", "--max-cost", "$0.005", `{"messages":[],"n":1}`)
	c.ok("agents/alice/compute/jobs/17\n", "ask", "-d", "alice", "why?")
	for i, want := range []string{
		`{"messages":[{"role":"user","content":"why is the sky blue?"}]}`,
		`{"messages":[],"n":1,"model":"m","max_cost_microusd":5000}`,
	} {
		if got := h.seen(&h.asked)[i]; !reflect.DeepEqual(jsonOf(t, got), jsonOf(t, want)) {
			t.Errorf("asked %s, want %s", got, want)
		}
	}
	h.mu.Lock()
	h.state = "failed"
	h.mu.Unlock()
	c.want(output{1, "because of\nRayleigh\n", "agentctl: agents/alice/compute/jobs/17: failed: the model fell over\n"}, "ask", "alice", "why?")
	c.want(output{2, "", "agentctl: \"1c\" is not an amount; write micro-dollars such as 5000, or dollars such as $0.005\n"},
		"ask", "alice", "why?", "--max-cost", "1c")
}

// A screen shows what was written so far to whoever waits for it.
type screen struct {
	mu    sync.Mutex
	b     []byte
	wrote chan struct{}
}

func newScreen() *screen { return &screen{wrote: make(chan struct{}, 1)} }

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	s.b = append(s.b, p...)
	s.mu.Unlock()
	select {
	case s.wrote <- struct{}{}:
	default:
	}
	return len(p), nil
}

// await waits until the screen shows exactly want.
func (s *screen) await(t *testing.T, want string) {
	t.Helper()
	for end := time.After(limit); ; {
		s.mu.Lock()
		got := string(s.b)
		s.mu.Unlock()
		if got == want {
			return
		}
		select {
		case <-s.wrote:
		case <-end:
			t.Fatalf("the screen shows %q, want %q", got, want)
		}
	}
}

// start runs agentctl until the returned function interrupts it, which
// returns the exit status.
func (c console) start(args ...string) (s *screen, interrupt func() int) {
	ctx, cancel := context.WithCancel(c.t.Context())
	s = newScreen()
	status := make(chan int, 1)
	go func() {
		status <- run(ctx, append([]string{"agentctl", "--addr", c.addr}, args...), strings.NewReader(c.in), s, s)
	}()
	return s, func() int {
		c.t.Helper()
		cancel()
		select {
		case n := <-status:
			return n
		case <-time.After(limit):
			c.t.Fatal("an interrupted command goes on")
			return 0
		}
	}
}

// Nobody types anything, and the prompt comes back all the same.
func TestInterruptedInput(t *testing.T) {
	h := newHost(t, "alice")
	c := console{t: t, addr: h.serve()}
	typed, keyboard := io.Pipe()
	defer keyboard.Close()
	ctx, cancel := context.WithCancel(t.Context())
	status := make(chan int, 1)
	go func() {
		status <- run(ctx, []string{"agentctl", "--addr", c.addr, "put", "agents/alice/inbox/new"}, typed, io.Discard, io.Discard)
	}()
	if _, err := keyboard.Write([]byte("hello")); err != nil { // it is waited for
		t.Fatal(err)
	}
	cancel()
	select {
	case n := <-status:
		if n != 130 {
			t.Errorf("exit status %d, want 130", n)
		}
	case <-time.After(limit):
		t.Fatal("an interrupted command goes on")
	}
}

// What comes is shown as it comes, and an interrupt ends the wait and the job.
func TestInterrupt(t *testing.T) {
	h := newHost(t, "alice")
	c := console{t: t, addr: h.serve()}
	s, interrupt := c.start("ask", "alice", "why?")
	h.say("be", false)
	s.await(t, "be")
	h.say("cause", false)
	s.await(t, "because")
	if n := interrupt(); n != 130 {
		t.Errorf("exit status %d, want 130", n)
	}
	if h.mu.Lock(); h.state != "cancelled" {
		t.Errorf("the job is %s, want cancelled", h.state)
	}
	h.mu.Unlock()

	for _, args := range [][]string{
		{"cat", "agents/alice/logs/trajectory"},
		{"logs", "-f", "alice"},
		{"logs", "alice", "--errors", "-f"},
	} {
		s, interrupt := c.start(args...)
		h.log("alice", `{"event":"x"}`)
		s.await(t, strings.Repeat("{\"event\":\"x\"}\n", len(h.agents["alice"].logged())))
		if n := interrupt(); n != 130 {
			t.Errorf("%q: exit status %d, want 130", args, n)
		}
	}
}

func (a *agent) logged() []string {
	b := make([]byte, a.log.Size())
	a.log.ReadAt(b, 0)
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

func TestLogs(t *testing.T) {
	h := newHost(t, "alice")
	c := console{t: t, addr: h.serve()}
	h.log("alice", "one")
	h.log("alice", "two")
	c.ok("{\"event\":\"recent\"}\n", "logs", "alice")
	c.ok("one\ntwo\n", "logs", "--all", "alice")
	c.ok("one\ntwo\n", "logs", "alice", "--errors")

	var last string
	for i := range 2000 {
		last = fmt.Sprintf("line %d of many", i)
		h.log("alice", last)
	}
	s, interrupt := c.start("logs", "-f", "alice")
	defer interrupt()
	for end := time.After(limit); ; {
		s.mu.Lock()
		shown := string(s.b)
		s.mu.Unlock()
		if strings.HasSuffix(shown, last+"\n") {
			first, _, _ := strings.Cut(shown, "\n")
			if len(shown) > lastEvents || !strings.HasPrefix(first, "line ") || !strings.HasSuffix(first, " of many") {
				t.Errorf("-f begins with %q and shows %d bytes", first, len(shown))
			}
			return
		}
		select {
		case <-s.wrote:
		case <-end:
			t.Fatal("-f does not show the last line")
		}
	}
}

func TestFiles(t *testing.T) {
	h := newHost(t, "alice")
	c := console{t: t, addr: h.serve()}
	const goals = "agents/alice/goals/"
	c.ok("README\nagents\nctl\ntokens\n", "ls")
	c.ok("agents/alice/status\n", "ls", "agents/alice/status")
	c.in = "first\n"
	c.ok("", "put", goals+"one")
	c.in = "second\n"
	c.ok("", "put", "--append", goals+"one", "-")
	c.ok("first\nsecond\n", "cat", goals+"one")
	c.ok("second\n", "cat", "--offset", "6", goals+"one")
	c.in = "short\n"
	c.ok("", "put", "/"+goals+"one")
	c.ok("short\nshort\n", "cat", goals+"one", goals+"one")
	file := filepath.Join(t.TempDir(), "big")
	big := strings.Repeat("0123456789", 300_000)
	if err := os.WriteFile(file, []byte(big), 0o600); err != nil {
		t.Fatal(err)
	}
	c.ok("", "put", goals+"big", file)
	c.ok(big, "cat", goals+"big")
	if got := c.run("ls", "-l", goals); got.status != 0 || !strings.Contains(got.out, " 3000000 ") || !strings.HasPrefix(got.out, "-rw-") {
		t.Errorf("ls -l: %+v", got)
	}
	if got := c.run("ls", "-l", "agents/alice"); !strings.Contains(got.out, "mrw-rw-rw-") || !strings.Contains(got.out, "drwx") {
		t.Errorf("ls -l: %+v", got)
	}
	c.fails("nowhere: No such file or directory", "cat", "nowhere")
	c.want(output{1, "short\n", "agentctl: x: No such file or directory\n"}, "cat", "x", goals+"one")
	c.fails("agents: Is a directory", "cat", "agents")
	c.fails("agents/alice/status: this file is read-only", "put", "agents/alice/status")
	c.fails("agents/new: no file can be made in this directory", "put", "agents/new")

	c.ok("", "mkdir", goals+"d")
	c.fails(goals+"d: File exists", "mkdir", goals+"d")
	c.ok("", "mkdir", "-p", goals+"d/e/f", goals+"d")
	c.fails(goals+"one/x: Not a directory", "mkdir", goals+"one/x")
	c.fails(goals+"d: Directory not empty", "rm", goals+"d")
	c.ok("", "rm", "-r", goals+"d")
	c.ok("", "rm", goals+"big", goals+"one")
	c.fails(goals+"one: No such file or directory", "rm", goals+"one")
	c.ok("", "rm", "-f", goals+"one")
	c.ok("", "ls", goals)
}

func TestPutMessage(t *testing.T) {
	h := newHost(t, "alice")
	c := console{t: t, addr: h.serve()}
	c.in = "plain text\n"
	c.ok("m1\n", "put", "agents/alice/inbox/new")
	if got := h.seen(&h.sent)[0]; got != "plain text" {
		t.Errorf("sent %q", got)
	}
	c.in = "stop\n"
	c.ok("", "put", "agents/alice/ctl")
	c.in = "dance\n"
	c.fails("agents/alice/ctl: unknown command dance", "put", "agents/alice/ctl")
}

func TestToken(t *testing.T) {
	h := newHost(t, "alice", "bob")
	c := console{t: t, addr: h.serve()}
	c.ok("a9_secret\n", "token", "alice", "r,/inbox:rw", "7d")
	if got := h.seen(&h.told)[0]; got != "token alice r,/inbox:rw 7d" {
		t.Errorf("ctl was told %q", got)
	}
	c.ok("t1  {\"agent\":\"alice\"}\n", "token", "--list")
	c.ok("", "token", "--revoke", "t1")
	c.ok("", "token", "--list")
	c.fails("t1: No such file or directory", "token", "--revoke", "t1")
	c.want(output{2, "", "agentctl: \"r w\" cannot be an argument of token\n"}, "token", "alice", "r w")
}

// With a token the root is the agent's own tree.
func TestOwnTree(t *testing.T) {
	h := newHost(t, "alice", "bob")
	c := console{t: t, addr: h.serve(), env: "a9_secret"}
	for _, args := range [][]string{{"send", "hi"}, {"send", ".", "hi"}, {"send", "alice", "hi"}} {
		c.ok("m1\n", args...)
	}
	for _, got := range h.seen(&h.sent) {
		if got != `{"body":"hi"}` {
			t.Errorf("sent %s", got)
		}
	}
	c.ok("{\"event\":\"recent\"}\n", "logs")
	c.ok("NAME   STATE   INBOX  JOBS  SPENT  LEFT\nalice  active  2      3     $1.50  $0.995\n", "list")
	c.fails("bob: only the agent alice can be seen here", "status", "bob")
	c.fails("this is one agent's tree; agents are made and deleted on the operator's socket", "create", "eve")
	c.ok("status\nctl\ninbox\ngoals\nlogs\ncompute\n", "ls")

	c.env = "a9_wrong"
	c.fails(c.addr+": the token is not known", "ls")
	c.env = ""
	c.want(output{2, "", "agentctl: which agent? agentctl list shows them\n"}, "status")
}

func TestNotUnderstood(t *testing.T) {
	c := console{t: t, addr: "unix:/nowhere/at/all"}
	for _, args := range [][]string{
		{"frobnicate"}, {"ls", "--frob"}, {"put"}, {"put", "a", "b", "c"}, {"mount"}, {"list", "x"},
		{"create"}, {"send"}, {"completion", "fish"},
	} {
		if got := c.run(args...); got.status != 2 || got.out != "" || strings.Count(got.err, "\n") != 1 {
			t.Errorf("agentctl %q: %+v, want one line and status 2", args, got)
		}
	}
	c.fails("unix:/nowhere/at/all: no daemon there; start it with agentd, or give its address with --addr", "ls")
	if got := c.run("--help"); got.status != 0 || !strings.Contains(got.out, "COMMANDS") {
		t.Errorf("--help: %+v", got)
	}
}

func TestCheck(t *testing.T) {
	h := newHost(t, "alice")
	c := console{t: t, addr: h.serve()}
	c.ok("", "check", "agents/alice")
	c.want(output{1, "/README: does not end in a newline\n", ""}, "check")
}

func TestCompletion(t *testing.T) {
	h := newHost(t, "alice", "albert", "bob")
	c := console{t: t, addr: h.serve()}
	for _, row := range []struct {
		word, want string
		args       []string
	}{
		{"al", "alice\nalbert\n", []string{"send"}},
		{"", "alice\nalbert\nbob\n", []string{"status"}},
		{"al", "", []string{"send", "bob"}},
		{"agents/alice/s", "agents/alice/status\n", []string{"cat"}},
		{"ag", "agents/\n", []string{"ls", "-l"}},
		{"/agents/b", "/agents/bob/\n", []string{"ls"}},
		{"", "bash\nzsh\n", []string{"completion"}},
		{"--m", "--model\n--max-cost\n", []string{"ask", "alice"}},
		{"-", "--json\n--help\n", []string{"list"}},
		{"--tls-c", "--tls-ca\n--tls-cert\n", nil},
		{"al", "alice\nalbert\n", []string{"send", "--no-such-flag"}},
	} {
		t.Setenv(wordVariable, row.word)
		if got := c.run(append(row.args, completionFlag)...); got.out != row.want {
			t.Errorf("completion of %q after %q: %q, want %q", row.word, row.args, got.out, row.want)
		}
	}
}

func TestDollars(t *testing.T) {
	for micros, want := range map[int64]string{0: "$0.00", 5: "$0.000005", 1500000: "$1.50", -250000: "-$0.25"} {
		if got := dollars(micros); got != want {
			t.Errorf("dollars(%d) = %s, want %s", micros, got, want)
		}
	}
	for text, want := range map[string]int64{"5000": 5000, "$0.005": 5000, "$1": 1000000, "$.5": 500000, "$2.000001": 2000001} {
		if got, err := microUSD(text); err != nil || got != want {
			t.Errorf("microUSD(%s) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "$", "$.", "-1", "1.5", "$-1", "$1.0000001", "$99999999999999999999"} {
		if got, err := microUSD(text); err == nil {
			t.Errorf("microUSD(%q) = %d, want an error", text, got)
		}
	}
}
