package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agent9/fsys"
	"agent9/services/host"
	"agent9/store"
	"agent9/store/bolt"
)

func TestRemovingAnAgent(t *testing.T) {
	d, r, alice := oneAgent(t)
	err := r.tryRemove("agents/alice")
	refused(t, "rmdir of a running agent", err, fsys.Busy, "stop the agent first: echo stop > agents/alice/ctl, or agentctl stop alice")
	has(t, "status", alice.read("status"), `"state":"active"`)

	pubkey := alice.read("identity/pubkey")
	alice.make("goals", "secret", "of the first alice")
	alice.write("inbox/new", "for the first alice")
	alice.write("config", `{"accept": []}`)
	token := r.ask("ctl", "token alice")
	socket := r.ask("ctl", "socket alice")

	// Who waits in the agent's tree is told that it ended.
	bearer := d.at(token)
	own, err := attach(t, "unix", socket, "")
	if err != nil {
		t.Fatal(err)
	}
	alice.read("inbox/next")
	var waiting []*pending
	for _, tr := range []*tree{alice, bearer, own} {
		for _, path := range []string{"inbox/next", "inbox/head", "logs/trace"} {
			waiting = append(waiting, tr.begin(tr.open(path, fsys.Read)))
		}
	}
	for _, p := range waiting {
		p.waits(t)
	}
	kept := alice.open("goals/secret", fsys.Read|fsys.Write)

	alice.write("ctl", "stop")
	r.remove("agents/alice")
	for _, p := range waiting {
		p.ends(t)
	}

	equal(t, "agents", r.list("agents"), "")
	equal(t, "tokens", r.list("tokens"), "")
	if _, err := os.Lstat(socket); err == nil {
		t.Error("the agent's socket is still there")
	}
	_, err = attach(t, "unix", d.sock(), token)
	refused(t, "its token", err, fsys.Permission)
	_, err = bearer.tryRead("status")
	refused(t, "who had attached with its token", err, fsys.Permission)
	select {
	case <-own.client.Done():
	case <-within(t).Done():
		t.Error("who is at the agent's own socket was not hung up on")
	}
	_, err = alice.tryRead("status")
	refused(t, "the operator's old tree", err, fsys.NotExist)
	refused(t, "the operator's old tree", alice.tryWrite("inbox/new", "x"), fsys.NotExist)
	if _, err := fsys.WriteAt(within(t), kept, []byte("late"), 0); err == nil {
		t.Error("a file of an agent that was removed could be written")
	}

	r.mkdir("agents", "alice")
	again := d.at("/agents/alice")
	if again.read("identity/pubkey") == pubkey {
		t.Error("the new agent has the old one's key")
	}
	equal(t, "goals", again.list("goals"), "")
	equal(t, "inbox", again.list("inbox"), inboxFiles)
	equal(t, "config", again.read("config"), "{}\n")
	if strings.Contains(again.tail("logs/trajectory"), "inbox.received") {
		t.Error("the new agent has the old one's log")
	}
	_, err = attach(t, "unix", d.sock(), token)
	refused(t, "the old token", err, fsys.Permission)
	_, err = alice.tryRead("status")
	refused(t, "the old tree, when there is a new agent", err, fsys.NotExist)

	// On disk nothing is left of either, once the daemon has been restarted.
	again.write("ctl", "stop")
	r.remove("agents/alice")
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		d.signal(sig)
		<-d.exited
		d.start()
	}
	d.signal(syscall.SIGTERM)
	d.ends(bound)
	for _, part := range []string{"agents/", "data/", "trash/", "tokens/token/", "tokens/agent/", "tokens/expiry/"} {
		if left := stored(t, d, part); len(left) > 0 {
			t.Errorf("in %s there is left: %v", part, left)
		}
	}
}

// stored returns the keys that begin with prefix in the database of a daemon
// that does not run.
func stored(t *testing.T, d *daemon, prefix string) (keys []string) {
	t.Helper()
	db, err := bolt.OpenWith(filepath.Join(d.data(), host.DatabaseName), bolt.Options{Steps: host.Steps(), Where: host.Where})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for pair, err := range store.All(within(t), db, prefix) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, pair.Key)
	}
	return keys
}

func TestQids(t *testing.T) {
	d, r, _ := oneAgent(t)
	qids := func() (all [3]string) {
		for i, path := range []string{"/agents/alice", "/agents/alice/goals/x", "/agents/alice/status"} {
			w := rawDial(t, d)
			w.session("")
			names := strings.Split(strings.Trim(path, "/"), "/")
			parts := [][]byte{u32(1), u32(2), u16(uint16(len(names)))}
			for _, n := range names {
				parts = append(parts, str(n))
			}
			w.send(110, parts...)
			typ, body := w.receive()
			if typ != 111 || int(body[0]) != len(names) {
				t.Fatalf("Twalk %s: got type %d, % x", path, typ, body)
			}
			all[i] = string(body[len(body)-8:])
		}
		return all
	}
	r.make("agents/alice/goals", "x", "1")
	first := qids()
	equal(t, "qids of the same files", qids(), first)
	r.remove("agents/alice/goals/x")
	r.make("agents/alice/goals", "x", "2")
	second := qids()
	equal(t, "qid of the agent", second[0], first[0])
	if second[1] == first[1] {
		t.Error("another file has the qid of the one that was removed")
	}
	r.write("agents/alice/ctl", "stop")
	r.remove("agents/alice")
	r.mkdir("agents", "alice")
	r.make("agents/alice/goals", "x", "3")
	for i, q := range qids() {
		if q == second[i] {
			t.Errorf("file %d of the new agent has the qid of the old one's", i)
		}
	}
}

func TestOwnSocket(t *testing.T) {
	d, r, _ := oneAgent(t)
	r.mkdir("agents", "bob")
	_, err := fsys.Converse(within(t), r.root, "ctl", []byte("socket carol"))
	refused(t, "socket of nobody", err, fsys.NotExist)
	path := r.ask("ctl", "socket alice")
	equal(t, "asked again", r.ask("ctl", "socket alice"), path)
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "mode", info.Mode().Perm(), 0o600)

	alice, err := attach(t, "unix", path, "")
	if err != nil {
		t.Fatal(err)
	}
	has(t, "status", alice.read("status"), `"name":"alice"`)
	for _, aname := range []string{"/agents/bob", "/agents", "/..", "/../bob", "/tokens"} {
		_, err := attach(t, "unix", path, aname)
		refused(t, aname, err, fsys.NotExist)
	}
	for _, up := range []string{"agents", "tokens", "metrics"} {
		_, err := alice.tryRead(up)
		refused(t, up, err, fsys.NotExist)
	}
	for _, p := range []string{"config", "budget/limits"} {
		alice.read(p)
		refused(t, p, alice.tryWrite(p, `{}`), fsys.Permission, "read-only for you")
		has(t, "logs/errors", lastLine(alice.tail("logs/errors")), `"path":"/`+p+`"`, `"code":"forbidden"`, `"by":"alice"`)
	}
	alice.write("inbox/new", "to myself")
	has(t, "the message", alice.read("inbox/next"), `"from":"alice"`, `"body":"to myself"`)
	r.write("agents/alice/inbox/new", "from above")
	has(t, "the message", alice.read("inbox/next"), `"from":"operator"`)

	// It is there again when it was asked for again.
	d.kill()
	d.start()
	r = d.root()
	equal(t, "after a restart", r.ask("ctl", "socket alice"), path)
	if alice, err = attach(t, "unix", path, ""); err != nil {
		t.Fatal(err)
	}
	has(t, "status", alice.read("status"), `"name":"alice"`)

	// A socket that was left by a daemon that died goes with its agent too.
	d.kill()
	d.start()
	r = d.root()
	r.write("agents/alice/ctl", "stop")
	r.remove("agents/alice")
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket of a removed agent is still there")
	}
	names, err := filepath.Glob(filepath.Join(d.data(), "sockets", "*"))
	if err != nil || len(names) > 0 {
		t.Errorf("sockets: %v, %v", names, err)
	}
}

func TestOutbox(t *testing.T) {
	d, r, alice := oneAgent(t)
	r.mkdir("agents", "bob")
	bob := d.at("/agents/bob")
	path := r.ask("ctl", "socket alice")
	own, err := attach(t, "unix", path, "")
	if err != nil {
		t.Fatal(err)
	}
	id := own.ask("outbox/new", `{"to": "bob", "body": {"n": 1}}`)
	has(t, "bob's inbox", bob.read("inbox/next"), `"id":"`+id+`"`, `"from":"alice"`, `"body":{"n":1}`)
	has(t, "sent", own.tail("outbox/sent"), `"to":"bob"`, id)

	bob.write("config", `{"accept": ["team-*"]}`)
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
		_, err := fsys.Converse(within(t), own.root, "outbox/new", []byte(c.request))
		refused(t, c.request, err, c.code, c.reason)
		if c.code != fsys.NotExist { // what does not exist is no refusal
			has(t, "logs/errors", lastLine(alice.tail("logs/errors")), `"path":"/outbox/new"`, `"by":"alice"`, strings.ReplaceAll(c.reason, `"`, `\"`))
		}
	}
	equal(t, "bob's inbox", bob.list("inbox"), inboxFiles)
	equal(t, "lines in sent", strings.Count(own.tail("outbox/sent"), "\n"), 1)
	bob.write("inbox/new", "the operator is always taken")

	bob.write("config", `{"accept": ["ali*"], "inbox": {"limit": 1, "overflow": "refuse"}}`)
	_, err = fsys.Converse(within(t), own.root, "outbox/new", []byte(`{"to": "bob", "body": 2}`))
	refused(t, "a full inbox", err, fsys.Busy, "the inbox is full")
	equal(t, "lines in sent", strings.Count(own.tail("outbox/sent"), "\n"), 1)
	bob.read("inbox/next")
	own.write("outbox/new", `{"to": "bob", "body": 2}`)
	has(t, "bob's inbox", bob.read("inbox/next"), `"body":2`)

	// Nothing is accepted for an agent that is gone.
	bob.write("ctl", "stop")
	r.remove("agents/bob")
	_, err = fsys.Converse(within(t), own.root, "outbox/new", []byte(`{"to": "bob", "body": 3}`))
	refused(t, "to one who was removed", err, fsys.NotExist, "there is no agent bob")
}

func TestMountsInConfig(t *testing.T) {
	_, r, alice := oneAgent(t)
	own, err := attach(t, "unix", r.ask("ctl", "socket alice"), "")
	if err != nil {
		t.Fatal(err)
	}
	walked := func(path string) fsys.Node {
		t.Helper()
		n, err := fsys.WalkPath(within(t), own.root, path)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	sign, encrypt, verify := walked("identity/sign"), walked("identity/encrypt"), walked("identity/verify")
	try := func(n fsys.Node, request string) error {
		_, err := fsys.Converse(within(t), n, "", []byte(request))
		return err
	}
	pubkey := strings.TrimSpace(own.read("identity/pubkey"))
	sealed := `{"recipient":"` + pubkey + `","message":"m"}`
	check := `{"pubkey":"` + pubkey + `","signature":"` + strings.Repeat("0", 128) + `","message":"m"}`

	alice.write("config", `{"mounts": {"/identity": "sign-only"}}`)
	has(t, "mounts", own.read("mounts"), "/identity\tidentity\tsign-only\n")
	if err := try(sign, "x"); err != nil {
		t.Errorf("sign at sign-only: %v", err)
	}
	if err := try(verify, check); err != nil {
		t.Errorf("verify at sign-only: %v", err)
	}

	alice.write("config", `{"mounts": {"/identity": "read-only", "/goals": "read-only", "/inbox": "read-only"}}`)
	refused(t, "sign at read-only", try(sign, "x"), fsys.Permission, "this is read-only for you")
	has(t, "logs/errors", lastLine(alice.tail("logs/errors")), `"path":"/identity/sign"`, `"op":"open"`, `"reason":"this is read-only for you"`, `"by":"alice"`)
	if err := try(verify, check); err != nil {
		t.Errorf("verify at read-only: %v", err)
	}
	refused(t, "a goal at read-only", own.tryMake("goals", "g", "x"), fsys.Permission, "this is read-only for you")
	has(t, "logs/errors", lastLine(alice.tail("logs/errors")), `"path":"/goals/g"`, `"op":"create"`)
	refused(t, "a message at read-only", own.tryWrite("inbox/new", "x"), fsys.Permission, "this is read-only for you")
	alice.make("goals", "g", "the operator's")
	equal(t, "a goal", own.read("goals/g"), "the operator's")
	refused(t, "removing at read-only", own.tryRemove("goals/g"), fsys.Permission, "this is read-only for you")

	alice.write("config", `{"mounts": {"/identity": "disabled"}}`)
	for what, n := range map[string]fsys.Node{"sign": sign, "encrypt": encrypt, "verify": verify} {
		refused(t, what+" when disabled", try(n, sealed), fsys.NotExist)
	}
	if strings.Contains(own.list(""), "identity") {
		t.Error("a disabled mount is listed")
	}
	if strings.Contains(own.read("mounts"), "/identity") {
		t.Error("a disabled mount is in mounts")
	}
	if signature := alice.ask("identity/sign", "x"); len(signature) != 128 {
		t.Errorf("the operator's sign: got %q", signature)
	}

	alice.write("config", `{}`)
	for what, err := range map[string]error{"sign": try(sign, "x"), "encrypt": try(encrypt, sealed), "a message": own.tryWrite("inbox/new", "x")} {
		if err != nil {
			t.Errorf("%s when all is allowed again: %v", what, err)
		}
	}
}

// A message that is taken away is a change: what may only be read is not
// taken.
func TestReadOnlyTakesNothing(t *testing.T) {
	d, r, alice := oneAgent(t)
	id := alice.ask("inbox/new", "precious")
	reader := d.at(r.ask("ctl", "token alice r"))
	_, err := reader.tryRead("inbox/next")
	refused(t, "inbox/next", err, fsys.Permission, "read-only for you")
	has(t, "inbox/head", reader.read("inbox/head"), id)
	has(t, "the message", reader.read("inbox/"+id), "precious")
	has(t, "inbox", alice.list("inbox"), id)
}
