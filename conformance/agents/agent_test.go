package agents

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agent9/conformance/daemon"
	"agent9/fsys"
)

func TestRemovingAnAgent(t *testing.T) {
	d, r, alice := daemon.OneAgent(t)
	err := r.TryRemove("agents/alice")
	daemon.Refused(t, "rmdir of a running agent", err, fsys.Busy, "stop the agent first: echo stop > agents/alice/ctl, or agentctl stop alice")
	daemon.Has(t, "status", alice.Read("status"), `"state":"active"`)

	pubkey := alice.Read("identity/pubkey")
	alice.Make("goals", "secret", "of the first alice")
	alice.Write("inbox/new", "for the first alice")
	alice.Write("config", `{"accept": []}`)
	token := r.Ask("ctl", "token alice")
	socket := r.Ask("ctl", "socket alice")

	// Who waits in the agent's tree is told that it ended.
	bearer := d.At(token)
	own, err := daemon.Attach(t, "unix", socket, "")
	if err != nil {
		t.Fatal(err)
	}
	alice.Read("inbox/next")
	var waiting []*daemon.Pending
	for _, tr := range []*daemon.Tree{alice, bearer, own} {
		for _, path := range []string{"inbox/next", "inbox/head", "logs/trace"} {
			waiting = append(waiting, tr.Begin(tr.Open(path, fsys.Read)))
		}
	}
	for _, p := range waiting {
		p.Waits(t)
	}
	kept := alice.Open("goals/secret", fsys.Read|fsys.Write)

	alice.Write("ctl", "stop")
	r.Remove("agents/alice")
	for _, p := range waiting {
		p.Ends(t)
	}

	daemon.Equal(t, "agents", r.List("agents"), "")
	daemon.Equal(t, "tokens", r.List("tokens"), "")
	if _, err := os.Lstat(socket); err == nil {
		t.Error("the agent's socket is still there")
	}
	_, err = daemon.Attach(t, "unix", d.Sock(), token)
	daemon.Refused(t, "its token", err, fsys.Permission)
	_, err = bearer.TryRead("status")
	daemon.Refused(t, "who had attached with its token", err, fsys.Permission)
	select {
	case <-own.Client.Done():
	case <-daemon.Within(t).Done():
		t.Error("who is at the agent's own socket was not hung up on")
	}
	_, err = alice.TryRead("status")
	daemon.Refused(t, "the operator's old tree", err, fsys.NotExist)
	daemon.Refused(t, "the operator's old tree", alice.TryWrite("inbox/new", "x"), fsys.NotExist)
	if _, err := fsys.WriteAt(daemon.Within(t), kept, []byte("late"), 0); err == nil {
		t.Error("a file of an agent that was removed could be written")
	}

	r.Mkdir("agents", "alice")
	again := d.At("/agents/alice")
	if again.Read("identity/pubkey") == pubkey {
		t.Error("the new agent has the old one's key")
	}
	daemon.Equal(t, "goals", again.List("goals"), "")
	daemon.Equal(t, "inbox", again.List("inbox"), daemon.InboxFiles)
	daemon.Equal(t, "config", again.Read("config"), "{}\n")
	if strings.Contains(again.Tail("logs/trajectory"), "inbox.received") {
		t.Error("the new agent has the old one's log")
	}
	_, err = daemon.Attach(t, "unix", d.Sock(), token)
	daemon.Refused(t, "the old token", err, fsys.Permission)
	_, err = alice.TryRead("status")
	daemon.Refused(t, "the old tree, when there is a new agent", err, fsys.NotExist)

	// On disk nothing is left of either, once the daemon has been restarted.
	again.Write("ctl", "stop")
	r.Remove("agents/alice")
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		d.Signal(sig)
		<-d.Exited
		d.Start()
	}
	d.Signal(syscall.SIGTERM)
	d.Ends(daemon.Bound)
	for _, part := range []string{"agents/", "data/", "trash/", "tokens/token/", "tokens/agent/", "tokens/expiry/"} {
		if left := daemon.Stored(t, d, part); len(left) > 0 {
			t.Errorf("in %s there is left: %v", part, left)
		}
	}
}

func TestQids(t *testing.T) {
	d, r, _ := daemon.OneAgent(t)
	qids := func() (all [3]string) {
		for i, path := range []string{"/agents/alice", "/agents/alice/goals/x", "/agents/alice/status"} {
			w := daemon.RawDial(t, d)
			w.Session("")
			names := strings.Split(strings.Trim(path, "/"), "/")
			parts := [][]byte{daemon.U32(1), daemon.U32(2), daemon.U16(uint16(len(names)))}
			for _, n := range names {
				parts = append(parts, daemon.Str(n))
			}
			w.Send(110, parts...)
			typ, body := w.Receive()
			if typ != 111 || int(body[0]) != len(names) {
				t.Fatalf("Twalk %s: got type %d, % x", path, typ, body)
			}
			all[i] = string(body[len(body)-8:])
		}
		return all
	}
	r.Make("agents/alice/goals", "x", "1")
	first := qids()
	daemon.Equal(t, "qids of the same files", qids(), first)
	r.Remove("agents/alice/goals/x")
	r.Make("agents/alice/goals", "x", "2")
	second := qids()
	daemon.Equal(t, "qid of the agent", second[0], first[0])
	if second[1] == first[1] {
		t.Error("another file has the qid of the one that was removed")
	}
	r.Write("agents/alice/ctl", "stop")
	r.Remove("agents/alice")
	r.Mkdir("agents", "alice")
	r.Make("agents/alice/goals", "x", "3")
	for i, q := range qids() {
		if q == second[i] {
			t.Errorf("file %d of the new agent has the qid of the old one's", i)
		}
	}
}

func TestOwnSocket(t *testing.T) {
	d, r, _ := daemon.OneAgent(t)
	r.Mkdir("agents", "bob")
	_, err := fsys.Converse(daemon.Within(t), r.Root, "ctl", []byte("socket carol"))
	daemon.Refused(t, "socket of nobody", err, fsys.NotExist)
	path := r.Ask("ctl", "socket alice")
	daemon.Equal(t, "asked again", r.Ask("ctl", "socket alice"), path)
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	daemon.Equal(t, "mode", info.Mode().Perm(), 0o600)

	alice, err := daemon.Attach(t, "unix", path, "")
	if err != nil {
		t.Fatal(err)
	}
	daemon.Has(t, "status", alice.Read("status"), `"name":"alice"`)
	for _, aname := range []string{"/agents/bob", "/agents", "/..", "/../bob", "/tokens"} {
		_, err := daemon.Attach(t, "unix", path, aname)
		daemon.Refused(t, aname, err, fsys.NotExist)
	}
	for _, up := range []string{"agents", "tokens", "metrics"} {
		_, err := alice.TryRead(up)
		daemon.Refused(t, up, err, fsys.NotExist)
	}
	for _, p := range []string{"config", "budget/limits"} {
		alice.Read(p)
		daemon.Refused(t, p, alice.TryWrite(p, `{}`), fsys.Permission, "read-only for you")
		daemon.Has(t, "logs/errors", daemon.LastLine(alice.Tail("logs/errors")), `"path":"/`+p+`"`, `"code":"forbidden"`, `"by":"alice"`)
	}
	alice.Write("inbox/new", "to myself")
	daemon.Has(t, "the message", alice.Read("inbox/next"), `"from":"alice"`, `"body":"to myself"`)
	r.Write("agents/alice/inbox/new", "from above")
	daemon.Has(t, "the message", alice.Read("inbox/next"), `"from":"operator"`)

	// It is there again when it was asked for again.
	d.Kill()
	d.Start()
	r = d.Root()
	daemon.Equal(t, "after a restart", r.Ask("ctl", "socket alice"), path)
	if alice, err = daemon.Attach(t, "unix", path, ""); err != nil {
		t.Fatal(err)
	}
	daemon.Has(t, "status", alice.Read("status"), `"name":"alice"`)

	// A socket that was left by a daemon that died goes with its agent too.
	d.Kill()
	d.Start()
	r = d.Root()
	r.Write("agents/alice/ctl", "stop")
	r.Remove("agents/alice")
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket of a removed agent is still there")
	}
	names, err := filepath.Glob(filepath.Join(d.Data(), "sockets", "*"))
	if err != nil || len(names) > 0 {
		t.Errorf("sockets: %v, %v", names, err)
	}
}

func TestOutbox(t *testing.T) {
	d, r, alice := daemon.OneAgent(t)
	r.Mkdir("agents", "bob")
	bob := d.At("/agents/bob")
	path := r.Ask("ctl", "socket alice")
	own, err := daemon.Attach(t, "unix", path, "")
	if err != nil {
		t.Fatal(err)
	}
	id := own.Ask("outbox/new", `{"to": "bob", "body": {"n": 1}}`)
	daemon.Has(t, "bob's inbox", bob.Read("inbox/next"), `"id":"`+id+`"`, `"from":"alice"`, `"body":{"n":1}`)
	daemon.Has(t, "sent", own.Tail("outbox/sent"), `"to":"bob"`, id)

	bob.Write("config", `{"accept": ["team-*"]}`)
	for _, c := range []struct {
		request, reason string
		code            fsys.Code
	}{
		{`{"to": "bob", "body": 1}`, "bob does not accept messages from alice", fsys.Permission},
		{`{"to": "carol", "body": 1}`, "there is no agent carol", fsys.NotExist},
		{`{"to": "../bob", "body": 1}`, "there is no agent ../bob", fsys.NotExist},
		{`{"body": 1}`, "the message has no to", fsys.Invalid},
		{`hello bob`, `say to whom: {"to": AGENT, "body": ...}`, fsys.Invalid},
	} {
		_, err := fsys.Converse(daemon.Within(t), own.Root, "outbox/new", []byte(c.request))
		daemon.Refused(t, c.request, err, c.code, c.reason)
		if c.code != fsys.NotExist { // what does not exist is no refusal
			daemon.Has(t, "logs/errors", daemon.LastLine(alice.Tail("logs/errors")), `"path":"/outbox/new"`, `"by":"alice"`, strings.ReplaceAll(c.reason, `"`, `\"`))
		}
	}
	daemon.Equal(t, "bob's inbox", bob.List("inbox"), daemon.InboxFiles)
	daemon.Equal(t, "lines in sent", strings.Count(own.Tail("outbox/sent"), "\n"), 1)
	bob.Write("inbox/new", "the operator is always taken")

	bob.Write("config", `{"accept": ["ali*"], "inbox": {"limit": 1, "overflow": "refuse"}}`)
	_, err = fsys.Converse(daemon.Within(t), own.Root, "outbox/new", []byte(`{"to": "bob", "body": 2}`))
	daemon.Refused(t, "a full inbox", err, fsys.Busy, "the inbox is full")
	daemon.Equal(t, "lines in sent", strings.Count(own.Tail("outbox/sent"), "\n"), 1)
	bob.Read("inbox/next")
	own.Write("outbox/new", `{"to": "bob", "body": 2}`)
	daemon.Has(t, "bob's inbox", bob.Read("inbox/next"), `"body":2`)

	// Nothing is accepted for an agent that is gone.
	bob.Write("ctl", "stop")
	r.Remove("agents/bob")
	_, err = fsys.Converse(daemon.Within(t), own.Root, "outbox/new", []byte(`{"to": "bob", "body": 3}`))
	daemon.Refused(t, "to one who was removed", err, fsys.NotExist, "there is no agent bob")
}

func TestMountsInConfig(t *testing.T) {
	_, r, alice := daemon.OneAgent(t)
	own, err := daemon.Attach(t, "unix", r.Ask("ctl", "socket alice"), "")
	if err != nil {
		t.Fatal(err)
	}
	walked := func(path string) fsys.Node {
		t.Helper()
		n, err := fsys.WalkPath(daemon.Within(t), own.Root, path)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	sign, encrypt, verify := walked("identity/sign"), walked("identity/encrypt"), walked("identity/verify")
	try := func(n fsys.Node, request string) error {
		_, err := fsys.Converse(daemon.Within(t), n, "", []byte(request))
		return err
	}
	pubkey := strings.TrimSpace(own.Read("identity/pubkey"))
	sealed := `{"recipient":"` + pubkey + `","message":"m"}`
	check := `{"pubkey":"` + pubkey + `","signature":"` + strings.Repeat("0", 128) + `","message":"m"}`

	alice.Write("config", `{"mounts": {"/identity": "sign-only"}}`)
	daemon.Has(t, "mounts", own.Read("mounts"), "/identity\tidentity\tsign-only\n")
	if err := try(sign, "x"); err != nil {
		t.Errorf("sign at sign-only: %v", err)
	}
	if err := try(verify, check); err != nil {
		t.Errorf("verify at sign-only: %v", err)
	}

	alice.Write("config", `{"mounts": {"/identity": "read-only", "/goals": "read-only", "/inbox": "read-only"}}`)
	daemon.Refused(t, "sign at read-only", try(sign, "x"), fsys.Permission, "this is read-only for you")
	daemon.Has(t, "logs/errors", daemon.LastLine(alice.Tail("logs/errors")), `"path":"/identity/sign"`, `"op":"open"`, `"reason":"this is read-only for you"`, `"by":"alice"`)
	if err := try(verify, check); err != nil {
		t.Errorf("verify at read-only: %v", err)
	}
	daemon.Refused(t, "a goal at read-only", own.TryMake("goals", "g", "x"), fsys.Permission, "this is read-only for you")
	daemon.Has(t, "logs/errors", daemon.LastLine(alice.Tail("logs/errors")), `"path":"/goals/g"`, `"op":"create"`)
	daemon.Refused(t, "a message at read-only", own.TryWrite("inbox/new", "x"), fsys.Permission, "this is read-only for you")
	alice.Make("goals", "g", "the operator's")
	daemon.Equal(t, "a goal", own.Read("goals/g"), "the operator's")
	daemon.Refused(t, "removing at read-only", own.TryRemove("goals/g"), fsys.Permission, "this is read-only for you")

	alice.Write("config", `{"mounts": {"/identity": "disabled"}}`)
	for what, n := range map[string]fsys.Node{"sign": sign, "encrypt": encrypt, "verify": verify} {
		daemon.Refused(t, what+" when disabled", try(n, sealed), fsys.NotExist)
	}
	if strings.Contains(own.List(""), "identity") {
		t.Error("a disabled mount is listed")
	}
	if strings.Contains(own.Read("mounts"), "/identity") {
		t.Error("a disabled mount is in mounts")
	}
	if signature := alice.Ask("identity/sign", "x"); len(signature) != 128 {
		t.Errorf("the operator's sign: got %q", signature)
	}

	alice.Write("config", `{}`)
	for what, err := range map[string]error{"sign": try(sign, "x"), "encrypt": try(encrypt, sealed), "a message": own.TryWrite("inbox/new", "x")} {
		if err != nil {
			t.Errorf("%s when all is allowed again: %v", what, err)
		}
	}
}

// A message that is taken away is a change: what may only be read is not
// taken.
func TestReadOnlyTakesNothing(t *testing.T) {
	d, r, alice := daemon.OneAgent(t)
	id := alice.Ask("inbox/new", "precious")
	reader := d.At(r.Ask("ctl", "token alice r"))
	_, err := reader.TryRead("inbox/next")
	daemon.Refused(t, "inbox/next", err, fsys.Permission, "read-only for you")
	daemon.Has(t, "inbox/head", reader.Read("inbox/head"), id)
	daemon.Has(t, "the message", reader.Read("inbox/"+id), "precious")
	daemon.Has(t, "inbox", alice.List("inbox"), id)
}
