//go:build unix

package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/creack/pty"
	"github.com/urfave/cli/v2"

	"agent9/fsys"
	"agent9/fsys/ninep"
)

// evil is a name that a terminal would obey: colours, a title, a link, C1
// controls, text that runs backwards, a line that is written over; evilText has
// bytes that are not UTF-8 besides.
const (
	evil     = "owned\x1b[31m\x1b]0;t\a\x1b]8;;x:y\x1b\\\u009b2J\u009d0;c\u009c\u202eabc\u2066\x7f\b\rZ\u0085\nforged"
	evilText = evil + "\x9b31m\xff\x90q\n"
)

// evilTree is the operator's tree of a daemon all of whose agents, models and
// people are hostile.
func evilTree(events fsys.Node) fsys.Node {
	dir := func(entries ...any) fsys.Node {
		var list []fsys.Entry
		for i := 0; i < len(entries); i += 2 {
			e := fsys.Entry{Name: entries[i].(string)}
			switch v := entries[i+1].(type) {
			case fsys.Node:
				e.Node = v
			case string:
				e.Node = fsys.Const(v)
			default:
				b, _ := json.Marshal(v)
				e.Node = fsys.Const(string(b) + "\n")
			}
			list = append(list, e)
		}
		return fsys.NewTable(list...)
	}
	type m = map[string]any
	refuses := func(context.Context, []string) ([]byte, error) { return nil, fsys.E(fsys.Busy, evil) }
	ctl := func() fsys.Node {
		return &fsys.Ctl{Do: refuses, Text: text("# alarm 1" + evilText + "\tx" + evil + "\t" + evil + "\t" + evil + "\n# alarm 1\t2\t3\t" + strings.ReplaceAll(evilText, "\n", "") + "\n")}
	}
	call := func(reply string) fsys.Node {
		return &fsys.Call{Do: func(context.Context, []byte) ([]byte, error) { return []byte(reply + "\n"), nil }}
	}
	stream := func(lines ...any) fsys.Node {
		log := &fsys.Memory{}
		for _, line := range lines {
			if s, ok := line.(string); ok {
				log.Append([]byte(s))
				continue
			}
			b, _ := json.Marshal(line)
			log.Append(append(b, '\n'))
		}
		tape := fsys.NewTape(log)
		tape.End()
		return tape
	}
	happened := m{"event": evil, "time": evil, "agent": evil, "title": evil, evil: evil, "x_microusd": 5}
	past := func() fsys.Node { return stream(happened, evilText) }
	if events == nil {
		events = past()
	}
	failed := m{"state": "failed" + evil, "error": m{"code": evil, "reason": evil}, "approval": evil, "provider": evil, "model": evil, "created": evil}
	result := m{"exit_code": nil, "error": m{"code": evil, "reason": evil}}
	work := func() fsys.Node {
		return dir("status", failed, "result", result, "output", stream(evilText), "stdout", stream(evilText), "stderr", stream(evilText), "ctl", ctl(),
			"exec", dir("new", call("1"+evil)))
	}
	budget := m{"held_microusd": 1, "holds": 1, "left_microusd": -1, "overdrawn": true, "parent": evil, "day": m{"resets": evil}}
	alice := dir(
		"status", m{"name": evil, "state": evil, "reason": evil, "pubkey": evil, "created": evil, "ticks": m{"count": 1, "failed": 1, "running": evil},
			"queues": m{"approvals": 1, "jobs": 2, "alarms": 1}, "budget": m{}},
		"ctl", ctl(), "config", m{"program": evil, evil: evil}, "identity", dir("npub", evilText),
		"inbox", dir("new", call(evil), "ctl", ctl(), "taken", dir("m", evilText)), "goals", dir(evil, evilText, "g", evilText),
		"logs", dir("recent", past(), "errors", past(), "trajectory", past(), "trace", past()),
		"budget", dir("limits", m{"per_day_microusd": 1, "approval_threshold_microusd": 1}, "usage", budget, "ledger", past()),
		"approvals", dir(evil, m{"id": evil, "what": evil, "provider": evil, "model": evil, "by": evil, "expires": evil}),
		"skills", dir(evil, evilText),
		"compute", dir("new", call("17"), "usage", m{"jobs": m{evil: 1}}, "jobs", dir("17", work())),
		"containers", dir("new", call("3"), "usage", m{"sessions": m{evil: 1}}, "sessions", dir("3", work())),
		"sessions", dir("new", call("4"), "4", dir("status", m{"session": 4, "state": evil, "title": evil, "active": evil}, "prompt", call(evil), "ctl", ctl(),
			"stream", stream(evilText), "transcript", stream(
				m{"role": "user", "prompt": 1, "author": evil, "text": evilText}, m{"role": "assistant", "prompt": 1, "to": len(evilText), "outcome": "failed", "reason": evil},
				m{"event": evil, "author": evil, "reason": evil}))),
	)
	return dir("agents", dir("alice", alice, evil, dir("status", m{"name": evil})), "README", evilText, "events", events, "ctl", call(evil),
		"tokens", dir(evil, m{"agent": evil, "rights": evil, "expires": evil}), "create", call(evil), "backup", evilText,
		"bundles", dir("new", call(`{"name":`+string(fsys.Line(evil))+`,"was_pubkey":"x"}`), "alice.tar", evilText))
}

// hostileRuns are the command lines of each command that are tried. Those after
// "quiet" show nothing of the tree: they are refused before, or say nothing.
var hostileRuns = map[string][][]string{
	"untake":     {{"untake", "alice"}, {"untake", "alice", evil}},
	"create":     {{"create", evil}, {"quiet", "create", "x", "--profile", "p"}},
	"delete":     {{"delete", evil}},
	"list":       {{"list"}},
	"info":       {{"info", "alice"}, {"info", evil}},
	"status":     {{"status", "alice"}, {"status", "no" + evil}},
	"config":     {{"config", "alice"}, {"config", "alice", "program"}, {"config", "alice", evil}},
	"goals":      {{"goals", "alice"}, {"goals", "alice", "g"}, {"goals", "alice", evil + "x"}},
	"export":     {{"quiet", "export", "alice"}},
	"import":     {{"import"}},
	"backup":     {{"quiet", "backup"}},
	"hibernate":  {{"hibernate", "alice"}},
	"wake":       {{"wake", "alice"}},
	"stop":       {{"stop", "alice"}},
	"start":      {{"start", "alice"}},
	"send":       {{"send", "alice", "hi"}},
	"ask":        {{"ask", "alice", "hi"}},
	"chat":       {{"chat", "alice", "--list"}, {"quiet", "chat", "alice", "4", "--all"}, {"quiet", "chat", "alice"}},
	"tick":       {{"tick", "alice"}},
	"alarm":      {{"alarm", "alice"}, {"alarm", "alice", "+5m"}},
	"run":        {{"run", "alice", "ls"}, {"run", "--keep", "alice", "ls"}, {"quiet", "run", "-d", "alice", "ls"}},
	"top":        {{"top", "--once"}},
	"events":     {{"events"}, {"events", "alice", "--all", "--stop"}},
	"logs":       {{"logs", "alice"}, {"logs", "alice", "--errors"}, {"logs", "alice", "-f"}},
	"budget":     {{"budget", "alice"}, {"budget", "alice", "-f"}, {"quiet", "budget", "alice", "--parent", evil}},
	"approve":    {{"approve"}, {"approve", "alice", evil}},
	"deny":       {{"deny"}, {"deny", "alice", "--all"}},
	"ls":         {{"ls", "agents"}, {"ls", "-l", "agents", "agents/" + evil}},
	"cat":        {{"cat", "README"}, {"cat", "x" + evil}},
	"put":        {{"put", "bundles/new", "main.go"}, {"put", "x" + evil}},
	"cp":         {{"cp", "-r", "alice:" + evil, os.DevNull}},
	"mkdir":      {{"mkdir", "agents/" + evil}},
	"rm":         {{"rm", "agents/" + evil}},
	"mount":      {{"mount", "/" + evil}},
	"umount":     {{"umount", "/" + evil}},
	"check":      {{"quiet", "check"}, {"check", "x" + evil}},
	"token":      {{"token", "--list"}, {"token", "alice"}},
	"mcp":        {{"mcp", evil + "x"}},
	"completion": {{"quiet", "completion", "bash"}, {"quiet", "completion", evil}},
	// shell makes the terminal that of the sandbox, as its help says.
	"shell": {{"shell", "alice", "3"}},
}

// onTerminal runs agentctl with its output on a terminal, and its input if
// typed, and returns what came there.
func (c console) onTerminal(input bool, env []string, args ...string) string {
	c.t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		c.t.Skip("no terminal here: ", err)
	}
	defer master.Close()
	cmd := exec.CommandContext(c.t.Context(), os.Args[0], append([]string{"--addr", c.addr}, args...)...)
	cmd.Env = append(append(os.Environ(), asProgram+"=1", "AGENT9_TOKEN=", "TERM=xterm"), env...)
	cmd.Stdout, cmd.Stderr = slave, slave
	if input {
		cmd.Stdin = slave
	}
	shown := make(chan string)
	go func() {
		b, _ := io.ReadAll(master) // until no process has the terminal open
		shown <- string(b)
	}()
	err = cmd.Start()
	slave.Close()
	if err != nil {
		c.t.Fatal(err)
	}
	text := <-shown
	cmd.Wait()
	return strings.ReplaceAll(text, "\r\x1b[K", "") // how progress goes away
}

// obeyedIn returns what a terminal would obey in text, or "".
func obeyedIn(text string) string {
	if !utf8.ValidString(text) {
		return "bytes that are not UTF-8"
	}
	for i, r := range strings.ReplaceAll(text, "\r\n", "\n") {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return string(r) + " at " + text[max(0, i-20):i]
		}
	}
	return ""
}

// Whatever agents, models and people call and write things, no command hands a
// terminal a sequence that it would obey.
func TestTerminalIsNotCommanded(t *testing.T) {
	going := fsys.NewTape(&fsys.Memory{})
	c := console{t: t, addr: serveOn(t, &ninep.Server{Attach: func(_ context.Context, _ ninep.Peer, _, aname string) (ninep.Grant, error) {
		if strings.HasPrefix(aname, "going") {
			return ninep.Grant{Root: evilTree(going), Caller: fsys.Operator}, nil
		}
		return ninep.Grant{Root: evilTree(nil), Caller: fsys.Operator}, nil
	}})}
	for _, cmd := range commands() {
		runs := hostileRuns[cmd.Name]
		if len(runs) == 0 {
			t.Errorf("%s is not tried: add it to hostileRuns", cmd.Name)
		}
		json := slices.ContainsFunc(cmd.Flags, func(f cli.Flag) bool { return f.Names()[0] == "json" })
		for _, args := range runs {
			quiet := args[0] == "quiet"
			if quiet {
				args = args[1:]
			}
			variants := [][]string{args}
			if json {
				variants = append(variants, append([]string{args[0], "--json"}, args[1:]...))
			}
			for _, args := range variants {
				got := c.onTerminal(false, nil, args...)
				if what := obeyedIn(got); what != "" {
					t.Errorf("agentctl %q: %q comes out:\n%q", args, what, got)
				}
				if !quiet && !strings.Contains(got, "owned") {
					t.Errorf("agentctl %q shows nothing of the hostile tree, so this proves nothing: %q", args, got)
				}
			}
		}
	}
	for _, word := range []string{"", "agents/"} {
		if got := c.onTerminal(false, []string{wordVariable + "=" + word}, "cat", completionFlag); obeyedIn(got) != "" || !strings.Contains(got, "agents/") {
			t.Errorf("completion of %q: %q", word, got)
		}
	}
	if got := c.onTerminal(true, nil, "chat", "alice", "4", "--all"); obeyedIn(got) != "" || !strings.Contains(got, "owned") {
		t.Errorf("chat at a terminal: %q", got)
	}
	if got := c.onTerminal(false, nil, "cat", "--raw", "README"); !strings.Contains(got, "\x1b[31m") {
		t.Errorf("cat --raw: %q", got)
	}
	if got := c.run("cat", "README"); got.out != evilText {
		t.Errorf("cat to no terminal: %q", got.out)
	}
	live := c.open(24, 100, []string{"AGENT9_TOKEN=going"}, "top")
	live.awaitPart(t, "q quit", "owned")
	live.types("q")
	live.ends(0)
	for _, sequence := range []string{"\x1b[31m\x1b]0", "\x1b]", "\u009b", "\u202e", "\a", "\x7f"} {
		if strings.Contains(live.text(), sequence) {
			t.Errorf("top shows %q: %q", sequence, live.text())
		}
	}
}
