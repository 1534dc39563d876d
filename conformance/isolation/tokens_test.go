package isolation

import (
	"strings"
	"testing"

	"agent9/conformance/daemon"
	"agent9/fsys"
	"agent9/fsys/ninep"
)

func TestRights(t *testing.T) {
	_, r, address := daemon.OverTCP(t)
	bearer := func(rights string) *daemon.Tree {
		t.Helper()
		tr, err := daemon.Attach(t, "tcp", address, r.Ask("ctl", "token alice "+rights))
		if err != nil {
			t.Fatalf("a token with %s: %v", rights, err)
		}
		return tr
	}
	alice := &daemon.Tree{T: t, Client: r.Client, Root: r.Root}
	alice.Make("agents/alice/goals", "g", "text")

	rw := bearer("rw")
	daemon.Has(t, "status", rw.Read("status"), `"name":"alice"`)
	rw.Write("goals/g", "changed")
	rw.Write("inbox/new", "x")
	daemon.Has(t, "the message", rw.Read("inbox/next"), `"from":"alice"`)
	daemon.Refused(t, "config with rw", rw.TryWrite("config", "{}"), fsys.Permission, "read-only for you")

	ro := bearer("r")
	daemon.Equal(t, "a goal", ro.Read("goals/g"), "changed")
	for _, path := range []string{"goals/g", "inbox/new", "ctl", "outbox/new", "compute/new", "logs/write"} {
		daemon.Refused(t, path+" with r", ro.TryWrite(path, "x"), fsys.Permission, "read-only for you")
	}
	daemon.Refused(t, "a new goal with r", ro.TryMake("goals", "h", "x"), fsys.Permission, "read-only for you")
	daemon.Refused(t, "removing with r", ro.TryRemove("goals/g"), fsys.Permission, "read-only for you")
	daemon.Has(t, "logs/errors", r.Tail("agents/alice/logs/errors"), `"path":"/goals/g","op":"remove","code":"forbidden","reason":"this is read-only for you","by":"alice"`)

	wo := bearer("w,/goals:rw")
	wo.Write("inbox/new", "posted")
	_, err := wo.TryRead("inbox/head")
	daemon.Refused(t, "inbox/head with w", err, fsys.Permission, "you may not read here")
	daemon.Equal(t, "a goal with /goals:rw", wo.Read("goals/g"), "changed")

	part := bearer("r,/goals:rw,/identity:-")
	part.Write("goals/g", "again")
	_, err = part.TryRead("identity/pubkey")
	daemon.Refused(t, "identity with -", err, fsys.NotExist)
	daemon.Equal(t, "identity is listed", strings.Contains(part.List(""), "identity"), false)
	daemon.Refused(t, "inbox/new", part.TryWrite("inbox/new", "x"), fsys.Permission)

	for _, rights := range []string{"x", "rwx", "r,goals:rw", "-", "r,/goals:q", "rw,/identity/sign:-", "r,/nowhere:rw"} {
		_, err := fsys.Converse(daemon.Within(t), r.Root, "ctl", []byte("token alice "+rights))
		daemon.Refused(t, "a token with "+rights, err, fsys.Invalid)
	}
	_, err = fsys.Converse(daemon.Within(t), r.Root, "ctl", []byte("token carol"))
	daemon.Refused(t, "a token for nobody", err, fsys.NotExist)
	for _, expiry := range []string{"-1h", "0s", "yesterday", "2001-01-01T00:00:00Z"} {
		_, err := fsys.Converse(daemon.Within(t), r.Root, "ctl", []byte("token alice rw "+expiry))
		daemon.Refused(t, "a token until "+expiry, err, fsys.Invalid, "expiry")
	}
}

// A token shows one agent's tree and nothing beside or above it.
func TestTokenStaysInside(t *testing.T) {
	d, r, address := daemon.OverTCP(t)
	token := r.Ask("ctl", "token alice")
	tr, err := daemon.Attach(t, "tcp", address, token)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"bob", "agents/bob/status", "agents", "tokens", "metrics", "version", "/agents/bob"} {
		_, err := tr.TryRead(path)
		daemon.Refused(t, path, err, fsys.NotExist)
	}
	if sub, err := daemon.Attach(t, "tcp", address, token+"/goals"); err != nil {
		t.Errorf("a path after the token: %v", err)
	} else {
		sub.Make("", "made", "x")
		daemon.Equal(t, "goals", tr.List("goals"), "made")
	}
	for _, after := range []string{"/agents/bob", "/../bob", "/..", "//agents/bob", "/goals/../../bob"} {
		if _, err := daemon.Attach(t, "tcp", address, token+after); fsys.CodeOf(err) != fsys.NotExist {
			t.Errorf("TOKEN%s: got %v, want NotExist", after, err)
		}
	}
	// `..` at the root stays there, also on the wire.
	w := daemon.RawDial(t, d)
	w.Session(token)
	w.Send(110, daemon.U32(1), daemon.U32(2), daemon.U16(4), daemon.Str(".."), daemon.Str(".."), daemon.Str("agents"), daemon.Str("bob"))
	if typ, body := w.Receive(); typ != 111 || body[0] != 2 {
		t.Errorf("Twalk ../../agents/bob: got a message of type %d, % x; want the two steps up", typ, body)
	}
	w.Send(110, daemon.U32(1), daemon.U32(3), daemon.U16(2), daemon.Str(".."), daemon.Str("status"))
	if typ, body := w.Receive(); typ != 111 || body[0] != 2 {
		t.Errorf("Twalk ../status: got a message of type %d, % x", typ, body)
	}

	// Who has no token cannot tell whether an agent exists.
	var said []string
	for _, aname := range []string{"", "/", "/agents/alice", "/agents/nobody", "alice", "a9_", "a9_" + strings.Repeat("A", 43), token[:len(token)-1], token + "A", strings.ToUpper(token)} {
		_, err := daemon.Attach(t, "tcp", address, aname)
		daemon.Refused(t, "attach "+aname, err, fsys.Permission)
		if !strings.HasPrefix(aname, "a9_") {
			said = append(said, err.Error())
		}
	}
	for _, s := range said {
		daemon.Equal(t, "the refusal", s, said[0])
	}
	daemon.Has(t, "the refusal", said[0], "a token is needed as aname")
}

func TestRevokedAndExpired(t *testing.T) {
	_, r, address := daemon.OverTCP(t)
	enter := func(token string) *daemon.Tree {
		t.Helper()
		tr, err := daemon.Attach(t, "tcp", address, token)
		if err != nil {
			t.Fatal(err)
		}
		return tr
	}
	for how, end := range map[string]func(id string){
		"rm":     func(id string) { r.Remove("tokens/" + id) },
		"revoke": func(id string) { r.Write("ctl", "revoke "+id) },
	} {
		token := r.Ask("ctl", "token alice")
		id := r.List("tokens")
		daemon.Has(t, "the token's file", r.Read("tokens/"+id), `"agent":"alice"`, `"rights":"rw"`)
		if strings.Contains(r.Read("tokens/"+id), token) {
			t.Error("the token's file holds the secret")
		}
		tr, other := enter(token), enter(r.Ask("ctl", "token alice"))
		var waiting []*daemon.Pending
		for _, path := range []string{"inbox/next", "logs/trace", "events"} {
			h := tr.Open(path, fsys.Read)
			if path == "events" { // all there is, then it waits
				waiting = append(waiting, tr.BeginAt(h, int64(len(tr.Tail(path)))))
			} else {
				waiting = append(waiting, tr.Begin(h))
			}
		}
		open := tr.Open("goals", fsys.Read)
		goal, err := fsys.WalkPath(daemon.Within(t), tr.Root, "goals")
		if err != nil {
			t.Fatal(err)
		}
		otherWaits := other.Begin(other.Open("inbox/head", fsys.Read))
		for _, p := range waiting {
			p.Waits(t)
		}
		end(id)
		for _, p := range waiting {
			p.Ends(t)
			daemon.Refused(t, how+": a read that waited", p.Err, fsys.Permission, "revoked or has expired")
		}
		_, err = tr.TryRead("status")
		daemon.Refused(t, how+": reading later", err, fsys.Permission)
		daemon.Refused(t, how+": writing later", tr.TryWrite("inbox/new", "x"), fsys.Permission)
		_, err = goal.Stat(daemon.Within(t))
		daemon.Refused(t, how+": a file that was walked to", err, fsys.Permission)
		_, err = fsys.ReadAt(daemon.Within(t), open, make([]byte, 10), 0)
		if err == nil {
			t.Error(how + ": an open directory can be read")
		}
		_, err = daemon.Attach(t, "tcp", address, token)
		daemon.Refused(t, how+": attaching again", err, fsys.Permission)
		daemon.Refused(t, how+": again", r.TryRemove("tokens/"+id), fsys.NotExist)
		otherWaits.Waits(t)
		daemon.Equal(t, "files in inbox", r.List("agents/alice/inbox"), daemon.InboxFiles)
		other.Write("inbox/new", "for those who wait")
		otherWaits.Ends(t)
		other.Read("inbox/next")
		r.Remove("tokens/" + r.List("tokens"))
	}

	// An expiry ends what is attached, without anybody doing anything.
	tr := enter(r.Ask("ctl", "token alice rw 1s"))
	p := tr.Begin(tr.Open("inbox/next", fsys.Read))
	p.Ends(t)
	daemon.Refused(t, "a read when the token expires", p.Err, fsys.Permission, "revoked or has expired")
	_, err := tr.TryRead("status")
	daemon.Refused(t, "a read after that", err, fsys.Permission)
	daemon.Equal(t, "tokens", r.List("tokens"), "")
}

// One session of a token that ends takes nothing from another.
func TestTokenTwice(t *testing.T) {
	_, r, address := daemon.OverTCP(t)
	token := r.Ask("ctl", "token alice")
	one, err := daemon.Attach(t, "tcp", address, token)
	if err != nil {
		t.Fatal(err)
	}
	two, err := daemon.Attach(t, "tcp", address, token)
	if err != nil {
		t.Fatal(err)
	}
	again, err := two.Client.Attach(daemon.Within(t), "", token) // on the same connection
	if err != nil {
		t.Fatal(err)
	}
	p := two.Begin(two.Open("inbox/next", fsys.Read))
	one.Client.Close()
	two.Make("goals", "still", "here")
	p.Waits(t)
	r.Write("agents/alice/inbox/new", "woken")
	p.Ends(t)
	daemon.Has(t, "the message", p.Text, "woken")
	r.Remove("tokens/" + r.List("tokens"))
	_, err = fsys.ReadFile(daemon.Within(t), again, "status")
	daemon.Refused(t, "the second attach, revoked", err, fsys.Permission)
	_, err = two.TryRead("status")
	daemon.Refused(t, "the first attach, revoked", err, fsys.Permission)
}

// Sessions that end leave nothing behind.
func TestNoWatcherIsLeft(t *testing.T) {
	_, r, address := daemon.OverTCP(t)
	token := r.Ask("ctl", "token alice")
	goroutines := func() int { return r.Metric("agent9_goroutines") }
	before := goroutines()
	var clients []*ninep.Client
	for range 20 {
		tr, err := daemon.Attach(t, "tcp", address, token)
		if err != nil {
			t.Fatal(err)
		}
		for range 5 { // attaches of one connection
			if _, err := tr.Client.Attach(daemon.Within(t), "", token); err != nil {
				t.Fatal(err)
			}
		}
		tr.Begin(tr.Open("inbox/next", fsys.Read))
		clients = append(clients, tr.Client)
	}
	if n := goroutines(); n < before+20 {
		t.Errorf("%d goroutines, with 20 readers more than when there were %d", n, before)
	}
	for _, c := range clients {
		c.Close()
	}
	daemon.Eventually(t, "no more goroutines than before", func() bool { return goroutines() <= before+3 })

	// Nor does an attach that is given up on a connection that goes on.
	tr, err := daemon.Attach(t, "tcp", address, token)
	if err != nil {
		t.Fatal(err)
	}
	before = goroutines()
	w := daemon.RawDialTo(t, "tcp", address)
	w.Session(token)
	for range 50 {
		w.Send(104, daemon.U32(2), daemon.U32(1<<32-1), daemon.Str("none"), daemon.Str(token), daemon.U32(1<<32-1))
		if typ, _ := w.Receive(); typ != 105 {
			t.Fatalf("Tattach: got a message of type %d", typ)
		}
		w.Send(120, daemon.U32(2))
		if typ, _ := w.Receive(); typ != 121 {
			t.Fatalf("Tclunk: got a message of type %d", typ)
		}
	}
	daemon.Eventually(t, "no more goroutines than one connection has", func() bool { return goroutines() <= before+5 })
	daemon.Has(t, "status", tr.Read("status"), "alice")
}
