package isolation

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"agent9/conformance/daemon"
	"agent9/fsys"
)

// readUntil reads a stream until it has text, and returns what it has had.
func readUntil(tr *daemon.Tree, path, text string) string {
	tr.T.Helper()
	h := tr.Open(path, fsys.Read)
	var all []byte
	for !bytes.Contains(all, []byte(text)) {
		b := make([]byte, 4096)
		n, err := fsys.ReadAt(daemon.Within(tr.T), h, b, int64(len(all)))
		if all = append(all, b[:n]...); err != nil || n == 0 {
			tr.T.Fatalf("%s ended (%v) without %q: %s", path, err, text, all)
		}
	}
	return string(all)
}

// What runs in a sandbox that came with a token may no more than the token, and
// nothing when that has ended, and so may what it begins; nobody gets more by way
// of another's sandbox.
func TestASandboxMayNoMoreThanItsToken(t *testing.T) {
	daemon.HelperFor(t)
	d := daemon.Start(t, "--compute", "e=echo:", "--containers", "main=bwrap:")
	r := d.RootWith(t, "alice")
	alice := d.At("/agents/alice")
	if h := alice.Read("containers/providers/main/health"); !strings.Contains(h, `"ok":true`) {
		t.Skip(h)
	}
	alice.Make("goals", "plan", "THE PLAN")
	alice.Mkdir("skills", "deploy")
	alice.Make("skills/deploy", "SKILL.md", "---\nname: deploy\ndescription: THE SKILL\n---\n")
	request := func(script string) string {
		b, err := json.Marshal(map[string]any{"keep": true, "commands": []string{script}})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	own := d.At(r.Ask("ctl", "token alice r,/containers:rw,/goals:-,/skills:-,/compute:-"))
	tokenID := r.List("tokens")
	const script = `exec 2>&1
a9 cat goals/plan; cat skills/deploy/SKILL.md; echo pwn | a9 write goals/pwn; echo hi | a9 call inbox/new; echo x | a9 call compute/new
a9 cat status
echo 'exec 2>&1; a9 cat goals/plan; echo pwn | a9 write goals/pwn; a9 cat status; echo the end' | a9 call containers/new
echo ready
a9 cat events >/dev/null
echo the read ended
echo true | a9 call containers/new; a9 cat status
echo the end`
	first := "containers/sessions/" + own.Ask("containers/new", request(script))
	got := readUntil(own, first+"/stdout", "ready\n")
	daemon.Has(t, "what the token shows", got, `"name":"alice"`)
	got += readUntil(own, "containers/sessions/2/stdout", "the end\n")
	// An exec of the operator's widens nothing, and one of the token's own is well.
	for _, by := range []*daemon.Tree{alice, own} {
		x := first + "/exec/" + by.Ask(first+"/exec/new", "exec 2>&1; a9 cat goals/plan; a9 cat status; echo the end")
		got += readUntil(by, x+"/stdout", "the end\n")
	}
	if strings.Contains(got, "THE") {
		t.Errorf("what the token hides is seen: %s", got)
	}
	daemon.Equal(t, "the goals", alice.List("goals"), "plan")
	daemon.Equal(t, "the inbox", alice.List("inbox"), daemon.InboxFiles)
	daemon.Equal(t, "the jobs", alice.List("compute/jobs"), "")
	// Nor is a token served by a sandbox that may more.
	wide := "containers/sessions/" + alice.Ask("containers/new", `{"keep":true}`)
	x := wide + "/exec/" + alice.Ask(wide+"/exec/new", "a9 cat goals/plan; echo; cat")
	daemon.Equal(t, "the agent's own", readUntil(alice, x+"/stdout", "PLAN\n"), "THE PLAN\n")
	_, err := fsys.Converse(daemon.Within(t), own.Root, wide+"/exec/new", []byte("a9 cat goals/plan"))
	daemon.Refused(t, "an exec in another's session", err, fsys.Permission)
	daemon.Refused(t, "the input of another's", own.TryWrite(x+"/stdin", "a9 cat goals/plan\n"), fsys.Permission)

	before := alice.List("containers/sessions")
	r.Remove("tokens/" + tokenID)
	got = readUntil(alice, first+"/stdout", "the end\n")
	_, got, _ = strings.Cut(got, "the read ended\n")
	daemon.Equal(t, "refusals after the end", strings.Count(got, "the token was revoked or has expired"), 2)
	x = first + "/exec/" + alice.Ask(first+"/exec/new", "exec 2>&1; a9 cat status; echo the end")
	daemon.Has(t, "an exec after the end", readUntil(alice, x+"/stdout", "the end\n"), "the token was revoked or has expired")
	daemon.Equal(t, "the sessions", alice.List("containers/sessions"), before)
}

// The same holds for a token that opens the tree of the host: what it may do with
// agents is what its sandboxes may do in theirs.
func TestASandboxOfAHostToken(t *testing.T) {
	daemon.HelperFor(t)
	d := daemon.Start(t, "--compute", "e=echo:", "--containers", "main=bwrap:")
	r := d.RootWith(t, "alice")
	alice := d.At("/agents/alice")
	if h := alice.Read("containers/providers/main/health"); !strings.Contains(h, `"ok":true`) {
		t.Skip(h)
	}
	own := d.At(r.Ask("ctl", "token * r,/agents:rw,/ctl:-"))
	tokenID := r.List("tokens")
	session := "containers/sessions/" + own.Ask("agents/alice/containers/new", `{"keep":true,"commands":["exec 2>&1; echo hi | a9 call compute/new; echo ready; a9 cat events >/dev/null; echo the read ended; a9 cat status; echo hi | a9 call compute/new; echo the end"]}`)
	readUntil(alice, session+"/stdout", "ready\n")
	daemon.Equal(t, "the jobs", alice.List("compute/jobs"), "1")
	wide := "containers/sessions/" + alice.Ask("containers/new", `{"keep":true}`)
	_, err := fsys.Converse(daemon.Within(t), own.Root, "agents/alice/"+wide+"/exec/new", []byte("a9 cat status"))
	daemon.Refused(t, "an exec in what was begun without the token", err, fsys.Permission)
	r.Remove("tokens/" + tokenID)
	_, got, _ := strings.Cut(readUntil(alice, session+"/stdout", "the end\n"), "the read ended\n")
	daemon.Equal(t, "refusals after the end", strings.Count(got, "the token was revoked or has expired"), 2)
	daemon.Equal(t, "the jobs after the end", alice.List("compute/jobs"), "1")
}

// A token makes no token that may more than it, nor one that outlives it.
func TestATokenMakesNoMore(t *testing.T) {
	d := daemon.Start(t)
	r := d.RootWith(t, "alice")
	make := func(by *daemon.Tree, what string) (*daemon.Tree, error) {
		reply, err := fsys.Converse(daemon.Within(t), by.Root, "ctl", []byte("token "+what))
		if err != nil {
			return nil, err
		}
		return d.At(strings.TrimSpace(string(reply))), nil
	}
	control, err := make(r, "* r,/ctl:rw,/agents:r,/tokens:- 1h")
	if err != nil {
		t.Fatal(err)
	}
	for _, more := range []string{"* rw", "* r", "* r,/ctl:rw", "* r,/agents:rw,/tokens:-", "alice rw", "alice r,/inbox:rw", "* -,/backup:rw"} {
		_, err := make(control, more)
		daemon.Refused(t, "token "+more, err, fsys.Permission)
	}
	for _, verb := range []string{"create carol", "socket alice"} {
		daemon.Refused(t, verb, control.TryWrite("ctl", verb), fsys.Permission)
	}
	var made []*daemon.Tree
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
	for _, name := range strings.Fields(r.List("tokens")) {
		g := r.Read("tokens/" + name)
		if strings.Contains(g, `"never"`) {
			t.Errorf("a token outlives what it was made with: %s", g)
		}
		if !strings.Contains(g, `"from"`) {
			id = name
		}
	}
	r.Remove("tokens/" + id)
	daemon.Equal(t, "the tokens that are left", r.List("tokens"), "")
	for _, got := range append(made, again, control) {
		_, err := fsys.List(daemon.Within(t), got.Root)
		daemon.Refused(t, "a look with what was made", err, fsys.Permission)
	}
}

// Who may not see agents does not see them another way, nor says what they are.
func TestWhatShowsAgentsNeedsTheRightToThem(t *testing.T) {
	d := daemon.Start(t)
	r := d.RootWith(t, "alice")
	r.Make("agents/alice/goals", "secret", "the goal")
	for rights, want := range map[string]string{
		"rw,/agents:-":                         "README accounts ctl metrics tokens version",
		"-,/bundles:rw,/create:rw,/events:r":   "",
		"-,/backup:r,/profiles:rw,/metrics:r":  "metrics",
		"r,/bundles:rw,/create:rw,/profiles:w": "README accounts agents backup bundles create ctl events metrics tokens version",
	} {
		own := d.At(r.Ask("ctl", "token * "+rights))
		daemon.Equal(t, rights, sortedWords(own.List("")), want)
	}
	own := d.At(r.Ask("ctl", "token * r,/bundles:rw"))
	_, err := fsys.Converse(daemon.Within(t), own.Root, "bundles/alice.tar", []byte(`{"passphrase":"correct horse"}`))
	daemon.Refused(t, "a bundle with keys", err, fsys.Permission)
}

func sortedWords(s string) string {
	words := strings.Fields(s)
	slices.Sort(words)
	return strings.Join(words, " ")
}

// A prompt is a job: a token that may begin none has no prompt answered.
func TestAPromptNeedsTheRightToAJob(t *testing.T) {
	_, d := daemon.WithSpeaker(t)
	r, alice := d.Root(), d.At("/agents/alice")
	session := "sessions/" + alice.Ask("sessions/new", "talk")
	for _, rights := range []string{"rw,/compute:-", "rw,/compute:r", "/sessions:rw"} {
		own := d.At(r.Ask("ctl", "token alice "+rights))
		_, err := fsys.Converse(daemon.Within(t), own.Root, session+"/prompt", []byte("hello"))
		daemon.Refused(t, rights, err, fsys.Permission)
		daemon.Equal(t, rights+": the jobs", alice.List("compute/jobs"), "")
		daemon.Equal(t, rights+": the queue", alice.Read(session+"/queue"), "")
	}
	own := d.At(r.Ask("ctl", "token alice /sessions:rw,/compute:w"))
	daemon.Equal(t, "a prompt", own.Ask(session+"/prompt", "hello"), "1")
	own.Transcript(session+"/transcript", 1)
}
