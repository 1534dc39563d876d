package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"agent9/fsys"
)

// readUntil reads a stream until it has text, and returns what it has had.
func (tr *tree) readUntil(path, text string) string {
	tr.t.Helper()
	h := tr.open(path, fsys.Read)
	var all []byte
	for !bytes.Contains(all, []byte(text)) {
		b := make([]byte, 4096)
		n, err := fsys.ReadAt(within(tr.t), h, b, int64(len(all)))
		if all = append(all, b[:n]...); err != nil || n == 0 {
			tr.t.Fatalf("%s ended (%v) without %q: %s", path, err, text, all)
		}
	}
	return string(all)
}

// What runs in a sandbox that came with a token may no more than the token, and
// nothing when that has ended, and so may what it begins; nobody gets more by way
// of another's sandbox.
func TestASandboxMayNoMoreThanItsToken(t *testing.T) {
	helperFor(t)
	d := startDaemon(t, "--compute", "e=echo:", "--containers", "main=bwrap:")
	r := d.rootWith(t, "alice")
	alice := d.at("/agents/alice")
	if h := alice.read("containers/providers/main/health"); !strings.Contains(h, `"ok":true`) {
		t.Skip(h)
	}
	alice.make("goals", "plan", "THE PLAN")
	alice.mkdir("skills", "deploy")
	alice.make("skills/deploy", "SKILL.md", "---\nname: deploy\ndescription: THE SKILL\n---\n")
	request := func(script string) string {
		b, err := json.Marshal(map[string]any{"keep": true, "commands": []string{script}})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	own := d.at(r.ask("ctl", "token alice r,/containers:rw,/goals:-,/skills:-,/compute:-"))
	tokenID := r.list("tokens")
	const script = `exec 2>&1
a9 cat goals/plan; cat skills/deploy/SKILL.md; echo pwn | a9 write goals/pwn; echo hi | a9 call inbox/new; echo x | a9 call compute/new
a9 cat status
echo 'exec 2>&1; a9 cat goals/plan; echo pwn | a9 write goals/pwn; a9 cat status; echo the end' | a9 call containers/new
echo ready
a9 cat events >/dev/null
echo the read ended
echo true | a9 call containers/new; a9 cat status
echo the end`
	first := "containers/sessions/" + own.ask("containers/new", request(script))
	got := own.readUntil(first+"/stdout", "ready\n")
	has(t, "what the token shows", got, `"name":"alice"`)
	got += own.readUntil("containers/sessions/2/stdout", "the end\n")
	// An exec of the operator's widens nothing, and one of the token's own is well.
	for _, by := range []*tree{alice, own} {
		x := first + "/exec/" + by.ask(first+"/exec/new", "exec 2>&1; a9 cat goals/plan; a9 cat status; echo the end")
		got += by.readUntil(x+"/stdout", "the end\n")
	}
	if strings.Contains(got, "THE") {
		t.Errorf("what the token hides is seen: %s", got)
	}
	equal(t, "the goals", alice.list("goals"), "plan")
	equal(t, "the inbox", alice.list("inbox"), inboxFiles)
	equal(t, "the jobs", alice.list("compute/jobs"), "")
	// Nor is a token served by a sandbox that may more.
	wide := "containers/sessions/" + alice.ask("containers/new", `{"keep":true}`)
	x := wide + "/exec/" + alice.ask(wide+"/exec/new", "a9 cat goals/plan; echo; cat")
	equal(t, "the agent's own", alice.readUntil(x+"/stdout", "PLAN\n"), "THE PLAN\n")
	_, err := fsys.Converse(within(t), own.root, wide+"/exec/new", []byte("a9 cat goals/plan"))
	refused(t, "an exec in another's session", err, fsys.Permission)
	refused(t, "the input of another's", own.tryWrite(x+"/stdin", "a9 cat goals/plan\n"), fsys.Permission)

	before := alice.list("containers/sessions")
	r.remove("tokens/" + tokenID)
	got = alice.readUntil(first+"/stdout", "the end\n")
	_, got, _ = strings.Cut(got, "the read ended\n")
	equal(t, "refusals after the end", strings.Count(got, "the token was revoked or has expired"), 2)
	x = first + "/exec/" + alice.ask(first+"/exec/new", "exec 2>&1; a9 cat status; echo the end")
	has(t, "an exec after the end", alice.readUntil(x+"/stdout", "the end\n"), "the token was revoked or has expired")
	equal(t, "the sessions", alice.list("containers/sessions"), before)
}

// The same holds for a token that opens the tree of the host: what it may do with
// agents is what its sandboxes may do in theirs.
func TestASandboxOfAHostToken(t *testing.T) {
	helperFor(t)
	d := startDaemon(t, "--compute", "e=echo:", "--containers", "main=bwrap:")
	r := d.rootWith(t, "alice")
	alice := d.at("/agents/alice")
	if h := alice.read("containers/providers/main/health"); !strings.Contains(h, `"ok":true`) {
		t.Skip(h)
	}
	own := d.at(r.ask("ctl", "token * r,/agents:rw,/ctl:-"))
	tokenID := r.list("tokens")
	session := "containers/sessions/" + own.ask("agents/alice/containers/new", `{"keep":true,"commands":["exec 2>&1; echo hi | a9 call compute/new; echo ready; a9 cat events >/dev/null; echo the read ended; a9 cat status; echo hi | a9 call compute/new; echo the end"]}`)
	alice.readUntil(session+"/stdout", "ready\n")
	equal(t, "the jobs", alice.list("compute/jobs"), "1")
	wide := "containers/sessions/" + alice.ask("containers/new", `{"keep":true}`)
	_, err := fsys.Converse(within(t), own.root, "agents/alice/"+wide+"/exec/new", []byte("a9 cat status"))
	refused(t, "an exec in what was begun without the token", err, fsys.Permission)
	r.remove("tokens/" + tokenID)
	_, got, _ := strings.Cut(alice.readUntil(session+"/stdout", "the end\n"), "the read ended\n")
	equal(t, "refusals after the end", strings.Count(got, "the token was revoked or has expired"), 2)
	equal(t, "the jobs after the end", alice.list("compute/jobs"), "1")
}

// A token makes no token that may more than it, nor one that outlives it.
func TestATokenMakesNoMore(t *testing.T) {
	d := startDaemon(t)
	r := d.rootWith(t, "alice")
	make := func(by *tree, what string) (*tree, error) {
		reply, err := fsys.Converse(within(t), by.root, "ctl", []byte("token "+what))
		if err != nil {
			return nil, err
		}
		return d.at(strings.TrimSpace(string(reply))), nil
	}
	control, err := make(r, "* r,/ctl:rw,/agents:r,/tokens:- 1h")
	if err != nil {
		t.Fatal(err)
	}
	for _, more := range []string{"* rw", "* r", "* r,/ctl:rw", "* r,/agents:rw,/tokens:-", "alice rw", "alice r,/inbox:rw", "* -,/backup:rw"} {
		_, err := make(control, more)
		refused(t, "token "+more, err, fsys.Permission)
	}
	for _, verb := range []string{"create carol", "socket alice"} {
		refused(t, verb, control.tryWrite("ctl", verb), fsys.Permission)
	}
	var made []*tree
	for _, less := range []string{"* r,/tokens:-,/ctl:rw 90d", "* -,/metrics:r never", "alice r never"} {
		got, err := make(control, less)
		if err != nil {
			t.Fatalf("token %s: %v", less, err)
		}
		made = append(made, got)
	}
	again, err := make(made[0], "alice /goals:r")
	if err != nil {
		t.Fatal(err)
	}
	var id string
	for _, name := range strings.Fields(r.list("tokens")) {
		g := r.read("tokens/" + name)
		if strings.Contains(g, `"never"`) {
			t.Errorf("a token outlives what it was made with: %s", g)
		}
		if !strings.Contains(g, `"from"`) {
			id = name
		}
	}
	r.remove("tokens/" + id)
	equal(t, "the tokens that are left", r.list("tokens"), "")
	for _, got := range append(made, again, control) {
		_, err := fsys.List(within(t), got.root)
		refused(t, "a look with what was made", err, fsys.Permission)
	}
}

// Who may not see agents does not see them another way, nor says what they are.
func TestWhatShowsAgentsNeedsTheRightToThem(t *testing.T) {
	d := startDaemon(t)
	r := d.rootWith(t, "alice")
	r.make("agents/alice/goals", "secret", "the goal")
	for rights, want := range map[string]string{
		"rw,/agents:-":                         "README accounts ctl metrics tokens version",
		"-,/bundles:rw,/create:rw,/events:r":   "",
		"-,/backup:r,/profiles:rw,/metrics:r":  "metrics",
		"r,/bundles:rw,/create:rw,/profiles:w": "README accounts agents backup bundles create ctl events metrics tokens version",
	} {
		own := d.at(r.ask("ctl", "token * "+rights))
		equal(t, rights, sortedWords(own.list("")), want)
	}
	own := d.at(r.ask("ctl", "token * r,/bundles:rw"))
	_, err := fsys.Converse(within(t), own.root, "bundles/alice.tar", []byte(`{"passphrase":"correct horse"}`))
	refused(t, "a bundle with keys", err, fsys.Permission)
}

func sortedWords(s string) string {
	words := strings.Fields(s)
	slices.Sort(words)
	return strings.Join(words, " ")
}

// A prompt is a job: a token that may begin none has no prompt answered.
func TestAPromptNeedsTheRightToAJob(t *testing.T) {
	_, d := withSpeaker(t)
	r, alice := d.root(), d.at("/agents/alice")
	session := "sessions/" + alice.ask("sessions/new", "talk")
	for _, rights := range []string{"rw,/compute:-", "rw,/compute:r", "/sessions:rw"} {
		own := d.at(r.ask("ctl", "token alice "+rights))
		_, err := fsys.Converse(within(t), own.root, session+"/prompt", []byte("hello"))
		refused(t, rights, err, fsys.Permission)
		equal(t, rights+": the jobs", alice.list("compute/jobs"), "")
		equal(t, rights+": the queue", alice.read(session+"/queue"), "")
	}
	own := d.at(r.ask("ctl", "token alice /sessions:rw,/compute:w"))
	equal(t, "a prompt", own.ask(session+"/prompt", "hello"), "1")
	own.transcript(session+"/transcript", 1)
}
