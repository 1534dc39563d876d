package http

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"

	"agent9/conformance/daemon"
	"agent9/fsys"
	"agent9/fsys/ninep"
)

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	us, strangers := daemon.NewIssuer(t), daemon.NewIssuer(t)
	cert, key := daemon.Files(t, dir, "server", us.Issue("the server"))
	ca, _ := daemon.Files(t, dir, "ca", tls.Certificate{Certificate: [][]byte{us.Cert.Raw}, PrivateKey: us.Key})
	_, r, address := daemon.OverTCP(t, "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", ca,
		"--listen", "tcp:0.0.0.0:0") // which needs TLS
	as := func(certs ...tls.Certificate) ninep.DialOption {
		return ninep.DialTLS(&tls.Config{RootCAs: us.Pool(), Certificates: certs})
	}

	_, err := ninep.Dial(daemon.Within(t), "tcp", address, ninep.DialVersion("9P2000"))
	daemon.Refused(t, "9P without TLS", err, fsys.Unavailable)
	_, err = ninep.Dial(daemon.Within(t), "tcp", address, ninep.DialTLS(&tls.Config{RootCAs: strangers.Pool()}))
	daemon.Refused(t, "a client that does not know the server", err, fsys.Unavailable, "certificate")

	_, err = daemon.Attach(t, "tcp", address, "", as())
	daemon.Refused(t, "no token and no certificate", err, fsys.Permission, "a token is needed")
	tr, err := daemon.Attach(t, "tcp", address, r.Ask("ctl", "token bob"), as())
	if err != nil {
		t.Fatalf("a token: %v", err)
	}
	daemon.Has(t, "status", tr.Read("status"), `"name":"bob"`)

	alice, err := daemon.Attach(t, "tcp", address, "", as(us.Issue("alice")))
	if err != nil {
		t.Fatalf("alice's certificate: %v", err)
	}
	daemon.Has(t, "status", alice.Read("status"), `"name":"alice"`)
	alice.Write("inbox/new", "by certificate")
	daemon.Has(t, "the message", alice.Read("inbox/next"), `"from":"alice"`)
	daemon.Refused(t, "config", alice.TryWrite("config", "{}"), fsys.Permission)
	_, err = daemon.Attach(t, "tcp", address, "/agents/bob", as(us.Issue("alice")))
	daemon.Refused(t, "bob's tree with alice's certificate", err, fsys.NotExist)
	sub, err := daemon.Attach(t, "tcp", address, "/goals", as(us.Issue("alice")))
	if err != nil {
		t.Fatalf("a path of alice's tree: %v", err)
	}
	sub.Make("", "g", "x")

	for _, name := range []string{"carol", "", "operator", "alice/", "../agents/alice"} {
		_, err := daemon.Attach(t, "tcp", address, "", as(us.Issue(name)))
		daemon.Refused(t, "a certificate for "+name, err, fsys.Permission, "a token is needed")
	}
	// The server may tell in the handshake or after it.
	c, err := ninep.Dial(daemon.Within(t), "tcp", address, as(strangers.Issue("alice")))
	if err == nil {
		_, err = c.Attach(daemon.Within(t), "", "")
		c.Close()
	}
	if err == nil {
		t.Error("a certificate of a stranger lets in")
	}

	// With the agent goes what its certificate opened.
	p := alice.Begin(alice.Open("inbox/next", fsys.Read))
	r.Write("agents/alice/ctl", "stop")
	r.Remove("agents/alice")
	p.Ends(t)
	_, err = alice.TryRead("status")
	daemon.Refused(t, "the tree of an agent that is gone", err, fsys.NotExist)
	_, err = daemon.Attach(t, "tcp", address, "", as(us.Issue("alice")))
	daemon.Refused(t, "its certificate", err, fsys.Permission)
}

func TestBadCertificates(t *testing.T) {
	d := daemon.New(t)
	cert, key := daemon.Files(t, d.Dir, "server", daemon.NewIssuer(t).Issue("x"))
	_, otherKey := daemon.Files(t, d.Dir, "other", daemon.NewIssuer(t).Issue("x"))
	missing := filepath.Join(d.Dir, "missing")
	for _, c := range []struct {
		args, words []string
	}{
		{[]string{"--tls-cert", missing, "--tls-key", key}, []string{"--tls-cert and --tls-key: ", missing}},
		{[]string{"--tls-cert", cert, "--tls-key", otherKey}, []string{"--tls-cert and --tls-key: ", "does not match"}},
		{[]string{"--tls-cert", cert, "--tls-key", key, "--tls-client-ca", missing}, []string{"--tls-client-ca: ", missing}},
		{[]string{"--tls-cert", cert, "--tls-key", key, "--tls-client-ca", key}, []string{"--tls-client-ca: no certificate in " + key}},
	} {
		d.Refuses(1, c.args, c.words...)
	}
	if _, err := os.Stat(d.Data()); err == nil {
		t.Error("a daemon that was not started has made its data directory")
	}
}
