package main

import (
	"reflect"
	"strings"
	"testing"
)

// What a person who has not read the manual types means what he expects.
func TestCommandLines(t *testing.T) {
	app := newApp()
	for line, want := range map[string]string{
		"status alice --help":          "status --help",
		"run bob ls -la":               "run -- bob ls -la",
		"run --keep bob ls -la --json": "run --keep -- bob ls -la --json",
		"run bob --image x -- ls -la":  "run --image x -- bob ls -la",
		"run bob -d ls -h":             "run -d -- bob ls -h",
		"shell bob 3 sh -c x":          "shell -- bob 3 sh -c x",
		"shell bob ls -la":             "shell -- bob ls -la",
		"shell bob 3":                  "shell bob 3",
		"list --json":                  "list --json",
		"help run":                     "run --help",
		"help new":                     "new --help",
		"ask bob why --model m":        "ask --model m bob why",
	} {
		got := interspersed(app, strings.Fields("agentctl "+line))
		if !reflect.DeepEqual(got, strings.Fields("agentctl "+want)) {
			t.Errorf("agentctl %s is read as %q, want %q", line, got, want)
		}
	}
	c := console{t: t, addr: "unix:/nowhere/at/all"}
	for args, want := range map[string]string{
		"statsu alice":            `there is no command "statsu"; did you mean status?; see agentctl --help`,
		"lst":                     "did you mean list?",
		"new alice":               `there is no command "new"; did you mean create AGENT?`,
		"help new":                `there is no command "new"; did you mean create AGENT?`,
		"ps":                      "did you mean list?",
		"exec":                    "did you mean run AGENT COMMAND?",
		"list --wait 5":           `--wait: "5" is not a time with its unit, such as 5s`,
		"budget alice --ledger x": `--ledger: "x" is not a whole number`,
		"qqq":                     `there is no command "qqq"; see agentctl --help`,
	} {
		if got := c.run(strings.Fields(args)...); got.status != exitUsage || !strings.Contains(got.err, want) {
			t.Errorf("agentctl %s: %+v, want %q", args, got, want)
		}
	}
	if got := c.run("status", "alice", "--help"); got.status != 0 || !strings.Contains(got.out, "show how an agent is") {
		t.Errorf("status alice --help: %+v", got)
	}
}

// No guess stands for a command that there is, and each is for one.
func TestGuesses(t *testing.T) {
	app := newApp()
	for word, line := range guesses {
		if app.Command(word) != nil {
			t.Errorf("%s is a command", word)
		}
		if first := strings.Fields(line)[0]; app.Command(first) == nil && !strings.HasPrefix(line, "agent") && first != "echo" {
			t.Errorf("%s leads to %s, which is no command", word, line)
		}
	}
}

// An agent that does not exist is said to be none, whatever is asked of it, and
// which one may have been meant.
func TestNoSuchAgent(t *testing.T) {
	c := console{t: t, addr: daemon(t)}
	c.ok("", "create", "alice", "bob")
	for _, args := range [][]string{
		{"status", "alcie"}, {"send", "alcie", "hi"}, {"ask", "alcie", "hi"}, {"cat", "agents/alcie/status"}, {"ls", "agents/alcie"}, {"logs", "alcie"},
		{"budget", "alcie"}, {"stop", "alcie"}, {"run", "alcie", "ls"}, {"token", "alcie"}, {"chat", "alcie"}, {"config", "alcie"}, {"delete", "alcie"},
	} {
		if got := c.run(args...); got.status != 3 || !strings.Contains(got.err, "no agent alcie; did you mean alice?\n") {
			t.Errorf("agentctl %q: %+v", args, got)
		}
	}
	if got := c.run("status", "zzz"); got.status != 3 || !strings.HasSuffix(got.err, "no agent zzz\n") {
		t.Errorf("status zzz: %+v", got)
	}
}

// check changes nothing, and ends in time.
func TestCheckChangesNothing(t *testing.T) {
	c := console{t: t, addr: daemon(t)}
	c.ok("", "create", "alice")
	c.run("send", "alice", "hi")
	state := func() string {
		return c.run("events", "alice", "--all", "--stop", "--json").out + c.run("logs", "alice", "--errors", "--json").out + c.run("status", "alice").out
	}
	before := state()
	if got := c.run("check"); got.status != 0 {
		t.Errorf("check: %+v", got)
	}
	if after := state(); after != before {
		t.Errorf("check changed\n%sinto\n%s", before, after)
	}
	if got := c.run("check", "--time", "1ns"); got.status != 12 || !strings.Contains(got.err, "give more with --time") {
		t.Errorf("check --time 1ns: %+v", got)
	}
}

// What a person gets wrong is said in words that lead on.
func TestWrongCommandLines(t *testing.T) {
	c := console{t: t, addr: daemon(t)}
	c.ok("", "create", "alice")
	for _, w := range []struct {
		status int
		want   string
		args   []string
	}{
		{2, "--per-day has no amount; a shell takes $2 for a variable", []string{"budget", "alice", "--per-day"}},
		{2, "--per-day has no amount", []string{"budget", "--per-day", "alice"}},
		{2, "write '$.50' (with the quotes", []string{"budget", "alice", "--per-day", ".50"}},
		{2, `status: unexpected argument "bob"`, []string{"status", "alice", "bob"}},
		{2, "agentctl backup > agents.tar", []string{"backup", "agents.tar"}},
		{2, "not defined: --nope; see agentctl status --help", []string{"status", "alice", "--nope"}},
		{2, "goes after --", []string{"send", "alice", "-5 is cold"}},
		{2, `--time: "soon" is not a time of whole seconds`, []string{"run", "alice", "--time", "soon", "ls"}},
		{2, `--memory: "much" is not a size`, []string{"run", "alice", "--memory", "much", "ls"}},
		{2, "nothing came on standard input", []string{"send", "alice", "-"}},
		{3, "did you mean agents/alice?", []string{"ls", "alice"}},
		{3, "did you mean agents/alice?", []string{"check", "alice"}},
		{3, "did you mean agents/alice/status?", []string{"cat", "alice/status"}},
		{3, "no session 99; agentctl chat --list AGENT", []string{"chat", "alice", "99"}},
		{3, "no agent alcie; did you mean alice?", []string{"export", "alcie"}},
		{3, "no token with this id; agentctl token --list", []string{"token", "--revoke", "zzz"}},
		{3, "agentctl untake AGENT shows", []string{"untake", "alice", "zzz"}},
		{3, "no agent alcie; did you mean alice?", []string{"mount", t.TempDir(), "alcie"}},
		{3, "no approval 17 waits", []string{"approve", "alice", "17"}},
		{4, "there is an agent alice already", []string{"create", "alice"}},
		{12, "the time of 1ns was over", []string{"check", "--time", "1ns"}},
	} {
		if got := c.run(w.args...); got.status != w.status || !strings.Contains(got.err, w.want) || strings.Contains(got.err+got.out, "deadline") {
			t.Errorf("agentctl %q: %+v, want %d and %q", w.args, got, w.status, w.want)
		}
	}
	if got := c.run("ls", "-la", "agents"); got.status != 0 || !strings.Contains(got.out, "alice") {
		t.Errorf("ls -la: %+v", got)
	}
	if got := (console{t: t, addr: "unix:/nowhere"}).run("list", "--addr", c.addr); got.status != 0 || !strings.Contains(got.out, "alice") {
		t.Errorf("list --addr: %+v", got)
	}
}
