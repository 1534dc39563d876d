package main

import (
	"reflect"
	"strings"
	"testing"
)

func TestAgents(t *testing.T) {
	h := newHost(t)
	c := console{t: t, addr: h.serve()}
	c.ok("", "create", "alice", "bob")
	c.want(output{4, "", "agentctl: there is an agent alice already\nagentctl: a/b: a name cannot contain / or NUL\n"}, "create", "alice", "a/b", "carol")
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
	c.fails("the text begins with {, which is JSON, and it is not: unexpected end of JSON input; a text begins with another character", "send", "alice", `{"a":`)
	c.fails("agents/nobody/inbox/new: No such file or directory", "send", "nobody", "hi")
	c.want(output{2, "", "agentctl: send: after the agent the text is missing; see agentctl send --help\n"}, "send", "alice")
	c.fails("agents/nobody: No such file or directory", "mcp", "nobody")
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
	c.want(output{13, "because of\nRayleigh\n", "agentctl: agents/alice/compute/jobs/17: failed: the model fell over\n"}, "ask", "alice", "why?")
	c.want(output{2, "", "agentctl: --max-cost: the amount 1 has no unit; write '$1' (with the quotes, in a shell), 1usd, 1c or 1microusd\n"},
		"ask", "alice", "why?", "--max-cost", "1")
}

func TestToken(t *testing.T) {
	h := newHost(t, "alice", "bob")
	c := console{t: t, addr: h.serve()}
	c.ok("a9_secret\n", "token", "alice", "r,/inbox:rw", "7d")
	if got := h.seen(&h.told)[0]; got != "token alice r,/inbox:rw 7d" {
		t.Errorf("ctl was told %q", got)
	}
	c.ok("{\"id\":\"t1\",\"agent\":\"alice\"}\n", "token", "--list", "--json")
	c.ok("ID  AGENT  RIGHTS  EXPIRES  CREATED\nt1  alice  -       -        -\n", "token", "--list")
	c.ok("", "token", "--revoke", "t1")
	c.ok("", "token", "--list", "--json")
	c.fails("t1: there is no token with this id; agentctl token --list shows them", "token", "--revoke", "t1")
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
	c.ok("{\"event\":\"recent\"}\n", "logs", "--json")
	c.ok("recent\n", "logs")
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
	c.fails("unix:/nowhere/at/all: no daemon there; start it with agentd --background, or give its address with --addr", "ls")
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
