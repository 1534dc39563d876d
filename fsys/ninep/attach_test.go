package ninep

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"testing"
	"time"

	"agent9/fsys"
)

func TestAname(t *testing.T) {
	for aname, want := range map[string]struct {
		path string
		o    options
		bad  bool
	}{
		"":                            {},
		"/agents/alice":               {path: "/agents/alice"},
		"a9_xyz?wait=5s":              {path: "a9_xyz", o: options{wait: 5 * time.Second}},
		"/?errors=exact&stream=plain": {path: "/", o: options{errors: exactErrors, reader: plainReader}},
		"?errors=full":                {o: options{errors: fullErrors}},
		"?errors=auto&":               {},
		"?":                           {},
		"?wait=0s":                    {o: options{wait: noWait}},
		"?wait=5":                     {bad: true},
		"?wait=-1s":                   {bad: true},
		"?wait":                       {bad: true},
		"?errors=none":                {bad: true},
		"?stream=on":                  {bad: true},
		"?colour=blue":                {bad: true},
	} {
		path, o, err := parseAname(aname)
		if want.bad {
			if fsys.CodeOf(err) != fsys.Invalid {
				t.Errorf("%q: %v", aname, err)
			}
		} else if path != want.path || o != want.o || err != nil {
			t.Errorf("%q: %q %+v %v", aname, path, o, err)
		}
	}
}

func TestAttach(t *testing.T) {
	type seen struct {
		peer         Peer
		uname, aname string
	}
	got := make(chan seen, 1)
	s := &Server{Attach: func(ctx context.Context, p Peer, uname, aname string) (Grant, error) {
		got <- seen{p, uname, aname}
		if aname == "/secret" {
			return Grant{}, fsys.E(fsys.Permission, "not for you")
		}
		return Grant{Root: fsys.Text(func(ctx context.Context) ([]byte, error) {
			return []byte(fsys.CallerOf(ctx)), nil
		}), Caller: fsys.Caller("caller of " + aname)}, nil
	}}
	addr := serve(t, s)
	w := dial(t, addr)
	w.version(plan9, 8192)
	w.must(message{Type: tattach, Fid: 1, Afid: noFid, Uname: "rob", Aname: "/x?errors=full"})
	if g := await(t, got, "Attach"); g.uname != "rob" || g.aname != "/x" || g.peer.UID != os.Getuid() {
		t.Errorf("Attach was told %+v", g)
	}
	m := w.rpc(message{Type: tattach, Fid: 2, Afid: noFid, Aname: "/secret"})
	if m.Type != rerror || m.Ename != "permission denied: not for you" {
		t.Errorf("refused: %v %q", m.Type, m.Ename)
	}
	await(t, got, "Attach")
	m = w.rpc(message{Type: tattach, Fid: 2, Afid: noFid, Aname: "?colour=blue"})
	if m.Type != rerror || m.Ename != "Invalid argument: an aname has no option colour; its options are: wait, errors, stream, list" {
		t.Errorf("unknown option: %v %q", m.Type, m.Ename)
	}
	w.must(message{Type: tattach, Fid: 2, Afid: noFid, Aname: "/y"}) // beside the first
	await(t, got, "Attach")
	for fid, want := range map[uint32]string{1: "caller of /x", 2: "caller of /y"} {
		w.must(message{Type: topen, Fid: fid})
		if got := w.read(fid, 0, 100); got != want {
			t.Errorf("fid %d: the service saw %q, want %q", fid, got, want)
		}
	}
	q1 := w.must(message{Type: tstat, Fid: 1}).Stat.Qid
	q2 := w.must(message{Type: tstat, Fid: 2}).Stat.Qid
	if q1.Path == q2.Path {
		t.Error("two trees share the qid of their root")
	}
}

// errors= changes what an error says, and nothing else.
func TestErrorOption(t *testing.T) {
	refuse := &fsys.Call{Admit: func(context.Context) error { return fsys.E(fsys.Exhausted, "no such budget") }}
	_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "f", Node: refuse}))
	for aname, want := range map[string]string{
		"":              "permission denied: budget exceeded: no such budget",
		"?errors=auto":  "permission denied: budget exceeded: no such budget",
		"?errors=exact": "Disk quota exceeded",
		"?errors=full":  "permission denied: budget exceeded: no such budget",
	} {
		w := connect(t, addr, plan9, aname)
		w.walk(0, 1, "f")
		if m := w.rpc(openMessage(plan9, 1, fsys.Write)); m.Ename != want {
			t.Errorf("%q: %q, want %q", aname, m.Ename, want)
		}
	}
}

func TestRevoke(t *testing.T) {
	sp := newSpy(fsys.Stream)
	revoked := make(chan struct{})
	s := &Server{Attach: func(_ context.Context, _ Peer, _, aname string) (Grant, error) {
		g := Grant{Root: fsys.NewTable(fsys.Entry{Name: "s", Node: sp})}
		if aname == "token" {
			g.Done = revoked
		}
		return g, nil
	}}
	w := connect(t, serve(t, s), linux, "token")
	w.must(message{Type: tattach, Fid: 9, Afid: noFid})
	w.open(1, fsys.Read, "s")
	w.walk(0, 2, "s")
	w.send(message{Type: tread, Fid: 1, Count: 1})
	await(t, sp.began, "the read")
	close(revoked)
	if m := w.recv(); fsys.CodeOf(m.error()) != fsys.Permission || m.error() == nil {
		t.Errorf("the read under way: %v %s", m.Type, m.failure())
	}
	w.fails(message{Type: tread, Fid: 1, Count: 1}, fsys.Permission)
	w.fails(message{Type: tlopen, Fid: 2}, fsys.Permission)
	w.fails(message{Type: twalk, Fid: 0, NewFid: 3}, fsys.Permission)
	w.fails(message{Type: tremove, Fid: 2}, fsys.Permission)
	w.clunk(1)
	if len(sp.synced) > 0 || len(sp.closed) != 1 {
		t.Errorf("%d synced, %d closed: what was written must not act any more", len(sp.synced), len(sp.closed))
	}
	w.walk(9, 3, "s") // another attach of the same connection
	w.must(message{Type: tlopen, Fid: 3})
}

// The end of a grant reaches a fid that was still being made when the only
// other one was clunked.
func TestRevokeAfterTheRootIsGone(t *testing.T) {
	gate := &gated{Node: fsys.Const("x"), began: make(chan struct{}), go_: make(chan struct{}), closed: make(chan struct{}, 1)}
	revoked := make(chan struct{})
	s := &Server{Attach: func(context.Context, Peer, string, string) (Grant, error) {
		return Grant{Root: gatedDir{gate}, Done: revoked}, nil
	}}
	w := connect(t, serve(t, s), linux, "")
	walk := w.send(message{Type: twalk, Fid: 0, NewFid: 1, Names: []string{"slow"}})
	await(t, gate.began, "the walk")
	w.clunk(0)
	gate.go_ <- struct{}{}
	if m := w.recv(); m.Tag != walk || m.Type != rwalk {
		t.Fatalf("the walk: %v %s", m.Type, m.failure())
	}
	w.must(message{Type: tgetattr, Fid: 1})
	close(revoked)
	w.fails(message{Type: tgetattr, Fid: 1}, fsys.Permission)
}

// When the end of a grant has returned to who ended it, nothing of the tree is
// told any more: not what is asked then, and not what was being read.
func TestRevokeIsAtOnce(t *testing.T) {
	for range 100 {
		revoked := make(chan struct{})
		s := &Server{Attach: func(context.Context, Peer, string, string) (Grant, error) {
			return Grant{Root: fsys.NewTable(fsys.Entry{Name: "f", Node: fsys.Const("text")}), Done: revoked}, nil
		}}
		w := connect(t, serve(t, s), linux, "")
		w.open(1, fsys.Read, "f")
		w.walk(0, 2, "f")
		close(revoked)
		w.fails(message{Type: tread, Fid: 1, Count: 1}, fsys.Permission)
		w.fails(message{Type: tgetattr, Fid: 2}, fsys.Permission)
		w.fails(message{Type: tlopen, Fid: 2}, fsys.Permission)
	}
}

// A read that a service answers although the grant has ended meanwhile is
// refused.
func TestRevokeHoldsBackWhatWasRead(t *testing.T) {
	began, goOn := make(chan struct{}), make(chan struct{})
	revoked := make(chan struct{})
	s := &Server{Attach: func(context.Context, Peer, string, string) (Grant, error) {
		return Grant{Root: fsys.NewTable(fsys.Entry{Name: "slow", Node: deaf{began, goOn}}), Done: revoked}, nil
	}}
	w := connect(t, serve(t, s), linux, "")
	w.open(1, fsys.Read, "slow")
	w.send(message{Type: tread, Fid: 1, Count: 1})
	await(t, began, "the read")
	close(revoked)
	close(goOn)
	if m := w.recv(); fsys.CodeOf(m.error()) != fsys.Permission || m.error() == nil {
		t.Errorf("the read under way: %v %s", m.Type, m.failure())
	}
}

// deaf is a file whose reads do not mind that they were cancelled.
type deaf struct{ began, goOn chan struct{} }

func (deaf) Stat(context.Context) (fsys.Info, error) {
	return fsys.Info{Kind: fsys.Stream, Perm: 0o444}, nil
}

func (d deaf) Open(context.Context, fsys.Flag) (fsys.Handle, error) { return d, nil }

func (deaf) Close() error { return nil }

func (d deaf) ReadAt(_ context.Context, p []byte, _ int64) (int, error) {
	close(d.began)
	<-d.goOn
	return copy(p, "x"), nil
}

// What an attach needs is gone with its last fid.
func TestAttachEnds(t *testing.T) {
	s := &Server{Attach: func(context.Context, Peer, string, string) (Grant, error) {
		return Grant{Root: fsys.NewTable(), Done: make(chan struct{})}, nil
	}}
	w := connect(t, serve(t, s), linux, "")
	before := settled(t)
	for fid := range uint32(50) {
		fid++
		w.must(message{Type: tattach, Fid: fid, Afid: noFid})
		w.fails(message{Type: twalk, Fid: fid, NewFid: 1000, Names: []string{"nothing"}}, fsys.NotExist)
		w.walk(fid, 1000)
		w.clunk(fid)
		w.clunk(1000)
	}
	settles(t, before+maxIdleWorkers)
}

func TestTLS(t *testing.T) {
	cert, pool := testCertificate(t)
	peers := make(chan Peer, 1)
	s := &Server{Attach: func(_ context.Context, p Peer, _, _ string) (Grant, error) {
		peers <- p
		return Grant{Root: fsys.NewTable()}, nil
	}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() {
		served <- s.Serve(tls.NewListener(l, &tls.Config{
			Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
		}))
	}()
	silent, err := net.Dial("tcp", l.Addr().String()) // must not keep the server from ending
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	c, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: pool, ServerName: "localhost", Certificates: []tls.Certificate{cert}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w := &wire{t: t, conn: c, in: newFrameReader(c)}
	w.version(linux, 8192)
	w.must(message{Type: tattach, Fid: 0, Afid: noFid})
	p := await(t, peers, "Attach")
	if p.TLS == nil || len(p.TLS.PeerCertificates) != 1 || p.UID != -1 {
		t.Errorf("peer %+v", p)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
