package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/fsys/ninep"
)

// An issuer signs certificates.
type issuer struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{t: t}
	pair := i.issue("an issuer")
	i.cert, i.key = pair.Leaf, pair.PrivateKey.(*ecdsa.PrivateKey)
	return i
}

// issue returns a certificate for name; the first one is the issuer's own.
func (i *issuer) issue(name string) tls.Certificate {
	i.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		i.t.Fatal(err)
	}
	leaf := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	parent, signer := i.cert, i.key
	if parent == nil {
		leaf.IsCA, leaf.BasicConstraintsValid, leaf.KeyUsage = true, true, x509.KeyUsageCertSign
		parent, signer = leaf, key
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, parent, &key.PublicKey, signer)
	if err != nil {
		i.t.Fatal(err)
	}
	if leaf, err = x509.ParseCertificate(der); err != nil {
		i.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func (i *issuer) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(i.cert)
	return p
}

// files writes a certificate and its key where agentd can read them.
func files(t *testing.T, dir, name string, pair tls.Certificate) (cert, key string) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key")
	for path, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]},
		key:  {Type: "PRIVATE KEY", Bytes: der},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	us, strangers := newIssuer(t), newIssuer(t)
	cert, key := files(t, dir, "server", us.issue("the server"))
	ca, _ := files(t, dir, "ca", tls.Certificate{Certificate: [][]byte{us.cert.Raw}, PrivateKey: us.key})
	_, r, address := overTCP(t, "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", ca,
		"--listen", "tcp:0.0.0.0:0") // which needs TLS
	as := func(certs ...tls.Certificate) ninep.DialOption {
		return ninep.DialTLS(&tls.Config{RootCAs: us.pool(), Certificates: certs})
	}

	_, err := ninep.Dial(within(t), "tcp", address, ninep.DialVersion("9P2000"))
	refused(t, "9P without TLS", err, fsys.Unavailable)
	_, err = ninep.Dial(within(t), "tcp", address, ninep.DialTLS(&tls.Config{RootCAs: strangers.pool()}))
	refused(t, "a client that does not know the server", err, fsys.Unavailable, "certificate")

	_, err = attach(t, "tcp", address, "", as())
	refused(t, "no token and no certificate", err, fsys.Permission, "a token is needed")
	tr, err := attach(t, "tcp", address, r.ask("ctl", "token bob"), as())
	if err != nil {
		t.Fatalf("a token: %v", err)
	}
	has(t, "status", tr.read("status"), `"name":"bob"`)

	alice, err := attach(t, "tcp", address, "", as(us.issue("alice")))
	if err != nil {
		t.Fatalf("alice's certificate: %v", err)
	}
	has(t, "status", alice.read("status"), `"name":"alice"`)
	alice.write("inbox/new", "by certificate")
	has(t, "the message", alice.read("inbox/next"), `"from":"alice"`)
	refused(t, "config", alice.tryWrite("config", "{}"), fsys.Permission)
	_, err = attach(t, "tcp", address, "/agents/bob", as(us.issue("alice")))
	refused(t, "bob's tree with alice's certificate", err, fsys.NotExist)
	sub, err := attach(t, "tcp", address, "/goals", as(us.issue("alice")))
	if err != nil {
		t.Fatalf("a path of alice's tree: %v", err)
	}
	sub.make("", "g", "x")

	for _, name := range []string{"carol", "", "operator", "alice/", "../agents/alice"} {
		_, err := attach(t, "tcp", address, "", as(us.issue(name)))
		refused(t, "a certificate for "+name, err, fsys.Permission, "a token is needed")
	}
	// The server may tell in the handshake or after it.
	c, err := ninep.Dial(within(t), "tcp", address, as(strangers.issue("alice")))
	if err == nil {
		_, err = c.Attach(within(t), "", "")
		c.Close()
	}
	if err == nil {
		t.Error("a certificate of a stranger lets in")
	}

	// With the agent goes what its certificate opened.
	p := alice.begin(alice.open("inbox/next", fsys.Read))
	r.write("agents/alice/ctl", "stop")
	r.remove("agents/alice")
	p.ends(t)
	_, err = alice.tryRead("status")
	refused(t, "the tree of an agent that is gone", err, fsys.NotExist)
	_, err = attach(t, "tcp", address, "", as(us.issue("alice")))
	refused(t, "its certificate", err, fsys.Permission)
}

func TestBadCertificates(t *testing.T) {
	d := newDaemon(t)
	cert, key := files(t, d.dir, "server", newIssuer(t).issue("x"))
	_, otherKey := files(t, d.dir, "other", newIssuer(t).issue("x"))
	missing := filepath.Join(d.dir, "missing")
	for _, c := range []struct {
		args, words []string
	}{
		{[]string{"--tls-cert", missing, "--tls-key", key}, []string{"--tls-cert and --tls-key: ", missing}},
		{[]string{"--tls-cert", cert, "--tls-key", otherKey}, []string{"--tls-cert and --tls-key: ", "does not match"}},
		{[]string{"--tls-cert", cert, "--tls-key", key, "--tls-client-ca", missing}, []string{"--tls-client-ca: ", missing}},
		{[]string{"--tls-cert", cert, "--tls-key", key, "--tls-client-ca", key}, []string{"--tls-client-ca: no certificate in " + key}},
	} {
		d.refuses(1, c.args, c.words...)
	}
	if _, err := os.Stat(d.data()); err == nil {
		t.Error("a daemon that was not started has made its data directory")
	}
}
