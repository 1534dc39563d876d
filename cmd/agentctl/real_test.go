package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// asProgram makes this test binary be agentctl, for a process that is not the
// test's own.
const asProgram = "AGENTCTL_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	status := m.Run()
	if programs.dir != "" {
		os.RemoveAll(programs.dir)
	}
	os.Exit(status)
}

// programs are agentd and what it needs beside it, built once.
var programs struct {
	once sync.Once
	dir  string
	err  error
}

func buildPrograms(t *testing.T) (dir string) {
	t.Helper()
	programs.once.Do(func() {
		if programs.dir, programs.err = os.MkdirTemp("", "agentctl"); programs.err != nil {
			return
		}
		for _, name := range []string{"agentd", "a9"} {
			cmd := exec.Command("go", "build", "-o", programs.dir, "agent9/cmd/"+name)
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
			if out, err := cmd.CombinedOutput(); err != nil {
				programs.err = fmt.Errorf("go build %s: %v\n%s", name, err, out)
				return
			}
		}
	})
	if programs.err != nil {
		t.Fatal(programs.err)
	}
	return programs.dir
}

// realDaemon runs agentd, with sandboxes that are none, until the test ends.
func realDaemon(t *testing.T) console {
	t.Helper()
	dir, err := os.MkdirTemp("", "ctl") // whose path is short enough for sockets
	if err != nil {
		t.Fatal(err)
	}
	address := "unix:" + filepath.Join(dir, "sock")
	cmd := exec.Command(filepath.Join(buildPrograms(t), "agentd"), "--data", filepath.Join(dir, "data"),
		"--listen", address, "--compute", "echo=echo:", "--unsafe-host-containers")
	said := newScreen()
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		select {
		case <-ended:
		case <-time.After(limit):
			cmd.Process.Kill()
			t.Error("agentd does not end")
		}
		if t.Failed() {
			t.Logf("agentd said:\n%s", said.text())
		}
		os.RemoveAll(dir)
	})
	said.awaitPart(t, "compute provider") // the last that it says of its start
	return console{t: t, addr: address}
}

// text is what the screen shows.
func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.b)
}

// awaitPart waits until the screen shows all of parts.
func (s *screen) awaitPart(t *testing.T, parts ...string) {
	t.Helper()
	for end := time.After(limit); ; {
		got, missing := s.text(), ""
		for _, p := range parts {
			if !strings.Contains(got, p) {
				missing = p
			}
		}
		if missing == "" {
			return
		}
		select {
		case <-s.wrote:
		case <-end:
			t.Fatalf("the screen shows %q, and not %q", got, missing)
		}
	}
}

// says runs agentctl, which must succeed, and wants parts in what it prints.
func (c console) says(parts []string, args ...string) string {
	c.t.Helper()
	got := c.run(args...)
	if got.status != 0 {
		c.t.Errorf("agentctl %q: %+v", args, got)
	}
	for _, p := range parts {
		if !strings.Contains(got.out, p) {
			c.t.Errorf("agentctl %q prints\n%s\nand not %q", args, got.out, p)
		}
	}
	return got.out
}

// failsAs wants an exit status, and parts in what is said.
func (c console) failsAs(status int, part string, args ...string) {
	c.t.Helper()
	if got := c.run(args...); got.status != status || !strings.Contains(got.err, part) || strings.Count(got.err, "\n") != 1 {
		c.t.Errorf("agentctl %q: %+v, want status %d and %q on one line", args, got, status, part)
	}
}

// The life of an agent, by the commands about it alone.
func TestLife(t *testing.T) {
	c := realDaemon(t)
	c.ok("", "create", "alice", "bob")
	c.failsAs(10, "the agent has no program", "tick", "alice")
	c.ok("", "config", "alice", "program", `{"exec":"echo it ran; echo done > $AGENT9_NOWHERE/dev/null"}`)
	c.ok("", "config", "alice", "program.exec", `"true"`)
	c.ok("{\"exec\":\"true\"}\n", "config", "alice", "program", "--json")

	events, leave := c.process("events", "alice")
	c.ok("", "hibernate", "alice") // so that something is there once it follows
	for i := 0; i < 1000 && !strings.Contains(events.text(), "agent."); i++ {
		c.ok("", "wake", "alice")
		c.ok("", "hibernate", "alice")
	}
	c.ok("", "tick", "alice", "look", "again")
	events.awaitPart(t, "tick.began", "tick.ended")
	if n := leave(); n != exitInterrupted {
		t.Errorf("events ended with status %d", n)
	}
	c.failsAs(2, "one line", "tick", "alice", "two\nlines")
	c.says([]string{"ticks       1\n"}, "status", "alice")

	id := strings.TrimSpace(c.says(nil, "alarm", "alice", "TZ=Europe/Berlin 0 8 * * 1-5", "good", "morning"))
	c.says([]string{"ID  NEXT", id + "   20", "TZ=Europe/Berlin 0 8 * * 1-5  good morning"}, "alarm", "alice")
	if got := jsonOf(t, c.says(nil, "alarm", "alice", "--json")); got["id"] != id || got["text"] != "good morning" {
		t.Errorf("alarm --json: %v", got)
	}
	c.ok("", "alarm", "alice", "--cancel", id)
	c.ok("ID  NEXT  WHEN  TEXT\n", "alarm", "alice")
	c.failsAs(6, "no time from now", "alarm", "alice", "+soon")

	c.ok("", "wake", "alice")
	c.ok("", "stop", "alice", "bob")
	c.says([]string{"alice  stopped", "bob    stopped"}, "list")
	c.ok("", "start", "alice", "bob")
	c.failsAs(3, "no agent nobody", "stop", "nobody")
	c.says([]string{"  agent.stopped  by=operator\n"}, "events", "alice", "--all", "--stop", "--event", "agent.*")
	c.failsAs(2, "which?", "events", "--all")
}

func TestConfig(t *testing.T) {
	c := realDaemon(t)
	c.ok("", "create", "alice")
	c.ok("{}\n", "config", "alice")
	c.ok("", "config", "alice", "accept", `["bob", "team-*"]`)
	c.ok("", "config", "alice", "inbox.limit", "7")
	c.ok("", "config", "alice", "prompt", "be kind")
	c.ok("{\n  \"accept\": [\n    \"bob\",\n    \"team-*\"\n  ],\n  \"inbox\": {\n    \"limit\": 7\n  },\n  \"prompt\": \"be kind\"\n}\n", "config", "alice")
	c.ok("7\n", "config", "alice", "inbox.limit")
	c.ok("", "config", "alice", "--unset", "accept")
	c.failsAs(6, `unknown field "limt"`, "config", "alice", "inbox.limt", "7")
	c.failsAs(3, "there is no field nothing", "config", "alice", "nothing")
	c.failsAs(2, "no object", "config", "alice", "prompt.of", "7")
	const doc = "{\"inbox\":{\"limit\":7},\"prompt\":\"be kind\"}\n"
	c.ok(doc, "config", "alice", "--json")

	edit := func(script string) {
		file := filepath.Join(t.TempDir(), "editor")
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("VISUAL", file)
	}
	t.Setenv("TMPDIR", t.TempDir())
	edit(`sed -i.old 's/kind/brief/' "$1"; rm "$1.old"`)
	c.ok("", "config", "alice", "--edit")
	c.ok("\"be brief\"\n", "config", "alice", "prompt")
	edit("true")
	c.want(output{0, "", "agentctl: nothing was changed\n"}, "config", "alice", "--edit")
	edit("exit 3")
	c.failsAs(11, "nothing was changed", "config", "alice", "--edit")
	if left, _ := os.ReadDir(os.Getenv("TMPDIR")); len(left) != 0 {
		t.Errorf("drafts were left: %v", left)
	}
	edit(`printf '{"inbox":\n oops}' > "$1"`)
	c.failsAs(6, "line 2: invalid character 'o'", "config", "alice", "--edit")
	edit(`printf '{"acept": []}' > "$1"`)
	got := c.run("config", "alice", "--edit")
	_, draft, found := strings.Cut(strings.TrimSpace(got.err), "what you wrote is in ")
	if b, err := os.ReadFile(draft); !found || got.status != 6 || err != nil || string(b) != `{"acept": []}` {
		t.Errorf("an edit that is refused: %+v; its draft %s, %v", got, b, err)
	}
	edit(fmt.Sprintf(`printf '{"prompt": "mine"}' > "$1"; %s=1 %s --addr %s config alice prompt theirs`, asProgram, os.Args[0], c.addr))
	c.failsAs(10, "somebody else has changed it meanwhile; what you wrote is in ", "config", "alice", "--edit")
	c.ok("\"theirs\"\n", "config", "alice", "prompt")

	c.ok("", "config", "alice", "--file", "compute/policy", "max_concurrent", "4")
	c.ok("4\n", "config", "alice", "--file", "compute/policy", "max_concurrent")
}

func TestGoals(t *testing.T) {
	c := realDaemon(t)
	c.ok("", "create", "alice")
	c.ok("", "goals", "alice", "2030/may/today", "ship", "it")
	c.in = "one\ntwo\n"
	c.ok("", "goals", "alice", "long", "-")
	c.says([]string{"GOAL            SIZE  CHANGED", "2030/may/today  8     20", "  ship it\n", "long            8     20", "  one\n"}, "goals", "alice")
	c.ok("one\ntwo\n", "goals", "alice", "long")
	if lines := strings.Split(c.says(nil, "goals", "alice", "--json"), "\n"); len(lines) != 3 || jsonOf(t, lines[0])["goal"] != "2030/may/today" {
		t.Errorf("goals --json: %q", lines)
	}
	c.ok("", "goals", "alice", "--rm", "long")
	c.failsAs(3, "agents/alice/goals/long: No such file", "goals", "alice", "long")
	c.says([]string{"GOALS\n  2030/may/today  ship it\n", "npub", "LAST EVENTS\n", "goal.removed"}, "info", "alice")
	if got := jsonOf(t, c.says(nil, "info", "alice", "--json")); got["status"].(map[string]any)["name"] != "alice" || got["budget"] == nil {
		t.Errorf("info --json: %v", got)
	}
}

// Money: limits, the books, and what waits for a person.
func TestMoney(t *testing.T) {
	c := realDaemon(t)
	c.ok("", "create", "alice")
	c.ok("approval expires    1h0m0s   was none\napproval threshold  $0.0001  was none\nper day             $2.00    was $1.00\n", "budget", "alice", "--per-day", "$2", "--approval", "0.01c", "--approval-expires", "1h")
	c.says([]string{"day    $0.00  $2.00  $2.00  20", "approval  above $0.0001, within 1h0m0s\n", "kind=limits"}, "budget", "alice")
	c.ok("per day  none    was $2.00\ntotal    $0.005  was none\n", "budget", "alice", "--per-day", "none", "--total", "$0.005")
	var b struct{ Limits map[string]any }
	mustJSON(t, c.says(nil, "budget", "alice", "--json"), &b)
	if b.Limits["per_day_microusd"] != nil || b.Limits["total_microusd"] != 5000.0 || b.Limits["approval_expires_ms"] != 3600000.0 {
		t.Errorf("limits: %v", b.Limits)
	}
	c.failsAs(2, "is not an amount", "budget", "alice", "--total", "2 dollars")
	c.failsAs(2, "--per-day: the amount 2 has no unit; write '$2' (with the quotes, in a shell), 2usd, 2c or 2microusd", "budget", "alice", "--per-day", "2")
	c.failsAs(2, "a shell takes $2 for a variable", "ask", "alice", "--max-cost", "", "what $5 is to a shell")

	asked, _ := c.process("ask", "alice", "--max-cost", "500microusd", "may I?")
	asked.awaitPart(t, "agentctl: it waits for approval 1: agentctl approve alice 1\n")
	c.says([]string{"AGENT  ID  WHAT", "alice  1   compute job 1", "$0.0005"}, "approve")
	if got := jsonOf(t, c.says(nil, "approve", "--json")); got["agent"] != "alice" || got["max_microusd"] != 500.0 {
		t.Errorf("approve --json: %v", got)
	}
	c.says([]string{"WAITS FOR AGREEMENT\n  1  compute job 1, at most $0.0005: agentctl approve alice 1\n"}, "info", "alice")
	c.ok("", "approve", "alice", "1")
	asked.awaitPart(t, "may I?\n")
	c.failsAs(3, "no approval 1 waits", "approve", "alice", "1")

	job := strings.TrimSpace(c.says(nil, "ask", "alice", "-d", "--max-cost", "500microusd", "may I?"))
	c.ok("", "deny", "alice", "2", "--reason", "use the small one")
	if got := c.run("cat", job+"/status"); !strings.Contains(got.out, "use the small one") {
		t.Errorf("what was denied: %+v", got)
	}
	refused, _ := c.process("ask", "alice", "--max-cost", "500microusd", "may I?")
	refused.awaitPart(t, "waits for approval 3")
	c.ok("", "deny", "alice", "--all")
	refused.awaitPart(t, "agentctl: agents/alice/compute/jobs/3: failed: ")
	c.failsAs(9, "", "ask", "alice", "--max-cost", "$9", "may I?")
	c.ok("AGENT  ID  WHAT  AT MOST  PROVIDER  MODEL  BY  EXPIRES\n", "approve")
}

// The same status is the same failure, whatever the command was.
func TestExitStatus(t *testing.T) {
	c := realDaemon(t)
	c.ok("", "create", "alice")
	c.says(nil, "budget", "alice", "--total", "1microusd")
	c.ok("", "put", "agents/alice/goals/g")
	gone := console{t: t, addr: "unix:" + filepath.Join(t.TempDir(), "sock")}
	stranger := console{t: t, addr: c.addr, env: "a9_nobody"}
	for _, row := range []struct {
		status int
		c      console
		args   []string
	}{
		{0, c, []string{"list"}},
		{2, c, []string{"frobnicate"}},
		{3, c, []string{"cat", "nowhere"}},
		{3, c, []string{"status", "nobody"}},
		{4, c, []string{"create", "alice"}},
		{4, c, []string{"mkdir", "agents/alice/goals/g"}},
		{5, stranger, []string{"ls"}},
		{6, c, []string{"create", "no spaces"}},
		{6, c, []string{"config", "alice", "nonsense", "1"}},
		{8, c, []string{"ls", "agents/alice/goals/g/h"}},
		{8, c, []string{"cp", "alice:goals", t.TempDir()}},
		{9, c, []string{"ask", "alice", "--max-cost", "5microusd", "why?"}},
		{10, c, []string{"delete", "alice"}},
		{15, gone, []string{"list"}},
		{7, c, []string{"run", "alice", "exit 7"}},
	} {
		if got := row.c.run(row.args...); got.status != row.status {
			t.Errorf("agentctl %q: %+v, want status %d", row.args, got, row.status)
		}
	}
}

func mustJSON(t *testing.T, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
}

// process runs agentctl as a process of its own, until the returned function
// interrupts it, which returns the exit status.
func (c console) process(args ...string) (s *screen, interrupt func() int) {
	c.t.Helper()
	s = newScreen()
	cmd := exec.Command(os.Args[0], append([]string{"--addr", c.addr}, args...)...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "AGENT9_TOKEN=")
	cmd.Stdout, cmd.Stderr = s, s
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		cmd.Wait()
		close(done)
	}()
	c.t.Cleanup(func() {
		cmd.Process.Kill()
		<-done
	})
	return s, func() int {
		c.t.Helper()
		cmd.Process.Signal(os.Interrupt)
		select {
		case <-done:
		case <-time.After(limit):
			c.t.Fatal("an interrupted command goes on")
		}
		return cmd.ProcessState.ExitCode()
	}
}

// What follows a stream ends with who reads it, not with the next event.
func TestUnreadEnds(t *testing.T) {
	c := realDaemon(t)
	c.says(nil, "create", "alice")
	for _, args := range [][]string{{"events"}, {"events", "alice"}, {"cat", "events"}, {"logs", "alice", "--errors", "-f"}} {
		cmd := exec.Command(os.Args[0], append([]string{"--addr", c.addr}, args...)...)
		cmd.Env = append(os.Environ(), asProgram+"=1")
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		pipe.Close()
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			cmd.Process.Kill()
			t.Errorf("%v goes on", args)
		}
	}
}
