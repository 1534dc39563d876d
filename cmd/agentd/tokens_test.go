package main

import (
	"strings"
	"testing"

	"agent9/fsys"
	"agent9/fsys/ninep"
)

// overTCP starts a daemon that listens on TCP too, with the agents alice and
// bob, and returns its address.
func overTCP(t *testing.T, args ...string) (d *daemon, r *tree, address string) {
	t.Helper()
	d = startDaemon(t, append([]string{"--listen", "tcp:127.0.0.1:0"}, args...)...)
	_, rest, ok := strings.Cut(d.text(), "listening on tcp:")
	if !ok {
		t.Fatalf("no address in\n%s", d.text())
	}
	address, _, _ = strings.Cut(rest, "\n")
	r = d.root()
	r.mkdir("agents", "alice")
	r.mkdir("agents", "bob")
	return d, r, address
}

func TestRights(t *testing.T) {
	_, r, address := overTCP(t)
	bearer := func(rights string) *tree {
		t.Helper()
		tr, err := attach(t, "tcp", address, r.ask("ctl", "token alice "+rights))
		if err != nil {
			t.Fatalf("a token with %s: %v", rights, err)
		}
		return tr
	}
	alice := &tree{t, r.client, r.root}
	alice.make("agents/alice/goals", "g", "text")

	rw := bearer("rw")
	has(t, "status", rw.read("status"), `"name":"alice"`)
	rw.write("goals/g", "changed")
	rw.write("inbox/new", "x")
	has(t, "the message", rw.read("inbox/next"), `"from":"alice"`)
	refused(t, "config with rw", rw.tryWrite("config", "{}"), fsys.Permission, "read-only for you")

	ro := bearer("r")
	equal(t, "a goal", ro.read("goals/g"), "changed")
	for _, path := range []string{"goals/g", "inbox/new", "ctl", "outbox/new", "compute/new", "logs/write"} {
		refused(t, path+" with r", ro.tryWrite(path, "x"), fsys.Permission, "read-only for you")
	}
	refused(t, "a new goal with r", ro.tryMake("goals", "h", "x"), fsys.Permission, "read-only for you")
	refused(t, "removing with r", ro.tryRemove("goals/g"), fsys.Permission, "read-only for you")
	has(t, "logs/errors", r.tail("agents/alice/logs/errors"), `"path":"/goals/g","op":"remove","code":"forbidden","reason":"this is read-only for you","by":"alice"`)

	wo := bearer("w,/goals:rw")
	wo.write("inbox/new", "posted")
	_, err := wo.tryRead("inbox/head")
	refused(t, "inbox/head with w", err, fsys.Permission, "you may not read here")
	equal(t, "a goal with /goals:rw", wo.read("goals/g"), "changed")

	part := bearer("r,/goals:rw,/identity:-")
	part.write("goals/g", "again")
	_, err = part.tryRead("identity/pubkey")
	refused(t, "identity with -", err, fsys.NotExist)
	equal(t, "identity is listed", strings.Contains(part.list(""), "identity"), false)
	refused(t, "inbox/new", part.tryWrite("inbox/new", "x"), fsys.Permission)

	for _, rights := range []string{"x", "rwx", "r,goals:rw", "-", "r,/goals:q", "rw,/identity/sign:-", "r,/nowhere:rw"} {
		_, err := fsys.Converse(within(t), r.root, "ctl", []byte("token alice "+rights))
		refused(t, "a token with "+rights, err, fsys.Invalid)
	}
	_, err = fsys.Converse(within(t), r.root, "ctl", []byte("token carol"))
	refused(t, "a token for nobody", err, fsys.NotExist)
	for _, expiry := range []string{"-1h", "0s", "yesterday", "2001-01-01T00:00:00Z"} {
		_, err := fsys.Converse(within(t), r.root, "ctl", []byte("token alice rw "+expiry))
		refused(t, "a token until "+expiry, err, fsys.Invalid, "expiry")
	}
}

// A token shows one agent's tree and nothing beside or above it.
func TestTokenStaysInside(t *testing.T) {
	d, r, address := overTCP(t)
	token := r.ask("ctl", "token alice")
	tr, err := attach(t, "tcp", address, token)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"bob", "agents/bob/status", "agents", "tokens", "metrics", "version", "/agents/bob"} {
		_, err := tr.tryRead(path)
		refused(t, path, err, fsys.NotExist)
	}
	if sub, err := attach(t, "tcp", address, token+"/goals"); err != nil {
		t.Errorf("a path after the token: %v", err)
	} else {
		sub.make("", "made", "x")
		equal(t, "goals", tr.list("goals"), "made")
	}
	for _, after := range []string{"/agents/bob", "/../bob", "/..", "//agents/bob", "/goals/../../bob"} {
		if _, err := attach(t, "tcp", address, token+after); fsys.CodeOf(err) != fsys.NotExist {
			t.Errorf("TOKEN%s: got %v, want NotExist", after, err)
		}
	}
	// `..` at the root stays there, also on the wire.
	w := rawDial(t, d)
	w.session(token)
	w.send(110, u32(1), u32(2), u16(4), str(".."), str(".."), str("agents"), str("bob"))
	if typ, body := w.receive(); typ != 111 || body[0] != 2 {
		t.Errorf("Twalk ../../agents/bob: got a message of type %d, % x; want the two steps up", typ, body)
	}
	w.send(110, u32(1), u32(3), u16(2), str(".."), str("status"))
	if typ, body := w.receive(); typ != 111 || body[0] != 2 {
		t.Errorf("Twalk ../status: got a message of type %d, % x", typ, body)
	}

	// Who has no token cannot tell whether an agent exists.
	var said []string
	for _, aname := range []string{"", "/", "/agents/alice", "/agents/nobody", "alice", "a9_", "a9_" + strings.Repeat("A", 43), token[:len(token)-1], token + "A", strings.ToUpper(token)} {
		_, err := attach(t, "tcp", address, aname)
		refused(t, "attach "+aname, err, fsys.Permission)
		if !strings.HasPrefix(aname, "a9_") {
			said = append(said, err.Error())
		}
	}
	for _, s := range said {
		equal(t, "the refusal", s, said[0])
	}
	has(t, "the refusal", said[0], "a token is needed as aname")
}

func TestRevokedAndExpired(t *testing.T) {
	_, r, address := overTCP(t)
	enter := func(token string) *tree {
		t.Helper()
		tr, err := attach(t, "tcp", address, token)
		if err != nil {
			t.Fatal(err)
		}
		return tr
	}
	for how, end := range map[string]func(id string){
		"rm":     func(id string) { r.remove("tokens/" + id) },
		"revoke": func(id string) { r.write("ctl", "revoke "+id) },
	} {
		token := r.ask("ctl", "token alice")
		id := r.list("tokens")
		has(t, "the token's file", r.read("tokens/"+id), `"agent":"alice"`, `"rights":"rw"`)
		if strings.Contains(r.read("tokens/"+id), token) {
			t.Error("the token's file holds the secret")
		}
		tr, other := enter(token), enter(r.ask("ctl", "token alice"))
		var waiting []*pending
		for _, path := range []string{"inbox/next", "logs/trace", "events"} {
			h := tr.open(path, fsys.Read)
			if path == "events" { // all there is, then it waits
				waiting = append(waiting, tr.beginAt(h, int64(len(tr.tail(path)))))
			} else {
				waiting = append(waiting, tr.begin(h))
			}
		}
		open := tr.open("goals", fsys.Read)
		goal, err := fsys.WalkPath(within(t), tr.root, "goals")
		if err != nil {
			t.Fatal(err)
		}
		otherWaits := other.begin(other.open("inbox/head", fsys.Read))
		for _, p := range waiting {
			p.waits(t)
		}
		end(id)
		for _, p := range waiting {
			p.ends(t)
			refused(t, how+": a read that waited", p.err, fsys.Permission, "revoked or has expired")
		}
		_, err = tr.tryRead("status")
		refused(t, how+": reading later", err, fsys.Permission)
		refused(t, how+": writing later", tr.tryWrite("inbox/new", "x"), fsys.Permission)
		_, err = goal.Stat(within(t))
		refused(t, how+": a file that was walked to", err, fsys.Permission)
		_, err = fsys.ReadAt(within(t), open, make([]byte, 10), 0)
		if err == nil {
			t.Error(how + ": an open directory can be read")
		}
		_, err = attach(t, "tcp", address, token)
		refused(t, how+": attaching again", err, fsys.Permission)
		refused(t, how+": again", r.tryRemove("tokens/"+id), fsys.NotExist)
		otherWaits.waits(t)
		equal(t, "files in inbox", r.list("agents/alice/inbox"), inboxFiles)
		other.write("inbox/new", "for those who wait")
		otherWaits.ends(t)
		other.read("inbox/next")
		r.remove("tokens/" + r.list("tokens"))
	}

	// An expiry ends what is attached, without anybody doing anything.
	tr := enter(r.ask("ctl", "token alice rw 1s"))
	p := tr.begin(tr.open("inbox/next", fsys.Read))
	p.ends(t)
	refused(t, "a read when the token expires", p.err, fsys.Permission, "revoked or has expired")
	_, err := tr.tryRead("status")
	refused(t, "a read after that", err, fsys.Permission)
	equal(t, "tokens", r.list("tokens"), "")
}

// One session of a token that ends takes nothing from another.
func TestTokenTwice(t *testing.T) {
	_, r, address := overTCP(t)
	token := r.ask("ctl", "token alice")
	one, err := attach(t, "tcp", address, token)
	if err != nil {
		t.Fatal(err)
	}
	two, err := attach(t, "tcp", address, token)
	if err != nil {
		t.Fatal(err)
	}
	again, err := two.client.Attach(within(t), "", token) // on the same connection
	if err != nil {
		t.Fatal(err)
	}
	p := two.begin(two.open("inbox/next", fsys.Read))
	one.client.Close()
	two.make("goals", "still", "here")
	p.waits(t)
	r.write("agents/alice/inbox/new", "woken")
	p.ends(t)
	has(t, "the message", p.text, "woken")
	r.remove("tokens/" + r.list("tokens"))
	_, err = fsys.ReadFile(within(t), again, "status")
	refused(t, "the second attach, revoked", err, fsys.Permission)
	_, err = two.tryRead("status")
	refused(t, "the first attach, revoked", err, fsys.Permission)
}

// Sessions that end leave nothing behind.
func TestNoWatcherIsLeft(t *testing.T) {
	_, r, address := overTCP(t)
	token := r.ask("ctl", "token alice")
	goroutines := func() int { return r.metric("agent9_goroutines") }
	before := goroutines()
	var clients []*ninep.Client
	for range 20 {
		tr, err := attach(t, "tcp", address, token)
		if err != nil {
			t.Fatal(err)
		}
		for range 5 { // attaches of one connection
			if _, err := tr.client.Attach(within(t), "", token); err != nil {
				t.Fatal(err)
			}
		}
		tr.begin(tr.open("inbox/next", fsys.Read))
		clients = append(clients, tr.client)
	}
	if n := goroutines(); n < before+20 {
		t.Errorf("%d goroutines, with 20 readers more than when there were %d", n, before)
	}
	for _, c := range clients {
		c.Close()
	}
	eventually(t, "no more goroutines than before", func() bool { return goroutines() <= before+3 })

	// Nor does an attach that is given up on a connection that goes on.
	tr, err := attach(t, "tcp", address, token)
	if err != nil {
		t.Fatal(err)
	}
	before = goroutines()
	w := rawDialTo(t, "tcp", address)
	w.session(token)
	for range 50 {
		w.send(104, u32(2), u32(1<<32-1), str("none"), str(token), u32(1<<32-1))
		if typ, _ := w.receive(); typ != 105 {
			t.Fatalf("Tattach: got a message of type %d", typ)
		}
		w.send(120, u32(2))
		if typ, _ := w.receive(); typ != 121 {
			t.Fatalf("Tclunk: got a message of type %d", typ)
		}
	}
	eventually(t, "no more goroutines than one connection has", func() bool { return goroutines() <= before+5 })
	has(t, "status", tr.read("status"), "alice")
}
