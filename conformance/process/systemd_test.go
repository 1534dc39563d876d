//go:build unix

package process

import (
	"agent9/conformance/daemon"
	"context"
	"crypto/tls"
	"encoding/pem"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A manager is a service manager as the daemon sees it: a socket on which it
// is told how things are.
type manager struct {
	t    *testing.T
	conn *net.UnixConn
	path string
}

func newManager(t *testing.T, d *daemon.Daemon) *manager {
	t.Helper()
	m := &manager{t: t, path: filepath.Join(d.Dir, "notify")}
	var err error
	m.conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.conn.Close() })
	return m
}

// hears waits until the daemon says something that matches, and returns it.
func (m *manager) hears(pattern string) string {
	m.t.Helper()
	m.conn.SetReadDeadline(time.Now().Add(daemon.Limit))
	var all []string
	for b := make([]byte, 4096); ; {
		n, err := m.conn.Read(b)
		if err != nil {
			m.t.Fatalf("heard %q, and not %s: %v", all, pattern, err)
		}
		all = append(all, string(b[:n]))
		if regexp.MustCompile(pattern).Match(b[:n]) {
			return string(b[:n])
		}
	}
}

func TestTheServiceManagerIsTold(t *testing.T) {
	d := daemon.New(t)
	m := newManager(t, d)
	d.With = func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+m.path, "WATCHDOG_USEC=200000") }
	d.Start()
	m.hears("^READY=1$")
	if _, err := daemon.Attach(t, "unix", d.Sock(), ""); err != nil {
		t.Fatalf("it was ready, and did not serve: %v", err)
	}
	m.hears("^WATCHDOG=1$")
	m.hears("^WATCHDOG=1$")
	d.Signal(syscall.SIGHUP)
	said := m.hears("^RELOADING=1")
	if at := regexp.MustCompile(`(?m)^MONOTONIC_USEC=(\d+)$`).FindStringSubmatch(said); runtime.GOOS == "linux" {
		if at == nil {
			t.Errorf("of a reload it said %q, without MONOTONIC_USEC", said)
		} else if us, _ := strconv.ParseInt(at[1], 10, 64); us <= 0 {
			t.Errorf("the time of the reload is %s", at[1])
		}
	}
	m.hears("^READY=1$")
	d.Root().Read("version") // and it lives
	d.Signal(syscall.SIGTERM)
	m.hears("^STOPPING=1$")
	d.Ends(daemon.Bound)
}

// handOver makes cmd begin with listeners: those of 9P and those of HTTP.
func handOver(t *testing.T, d *daemon.Daemon, names string, ls ...net.Listener) {
	t.Helper()
	var files []*os.File
	for _, l := range ls {
		f, err := l.(interface{ File() (*os.File, error) }).File()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		files = append(files, f)
	}
	d.With = func(cmd *exec.Cmd) {
		args := []string{"sh", "-c", `LISTEN_PID=$$ exec "$@"`, "sh", cmd.Args[0]}
		for i := 1; i < len(cmd.Args); i++ {
			if cmd.Args[i] == "--listen" {
				i++
				continue
			}
			args = append(args, cmd.Args[i])
		}
		cmd.Path, cmd.Args = "/bin/sh", args
		cmd.ExtraFiles = files
		cmd.Env = append(cmd.Env, "LISTEN_FDS="+strconv.Itoa(len(files)), "LISTEN_FDNAMES="+names)
	}
}

func TestSocketActivation(t *testing.T) {
	d := daemon.New(t)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: d.Sock(), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	handOver(t, d, "agentd.socket:http", l, web)
	l.Close()
	at := web.Addr().String()
	web.Close()
	// Who comes before the daemon is there waits for it.
	early, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer early.Close()
	if _, err := early.Write([]byte("GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	d.Start()
	early.SetReadDeadline(time.Now().Add(daemon.Limit))
	b := make([]byte, 64)
	n, err := early.Read(b)
	if err != nil || !strings.HasPrefix(string(b[:n]), "HTTP/1.0 200") {
		t.Fatalf("got %q, %v", b[:n], err)
	}
	d.Root().Mkdir("agents", "alice")
	d.Kill()
	if _, err := os.Stat(d.Sock()); err != nil {
		t.Errorf("the socket is the manager's, and is gone: %v", err)
	}
	d.Start() // with the same sockets
	if got := d.Root().List("agents"); got != "alice" {
		t.Errorf("got agents %q", got)
	}
	d.Signal(syscall.SIGTERM)
	d.Ends(daemon.Bound)
	if _, err := os.Stat(d.Sock()); err != nil {
		t.Errorf("after an end in order the socket is gone: %v", err)
	}
}

func TestActivationBeyondLoopbackNeedsTLS(t *testing.T) {
	d := daemon.New(t)
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	handOver(t, d, "x", l)
	l.Close()
	d.Refuses(2, nil, "can be reached from other machines: give --tls-cert and --tls-key")
	if _, err := os.Stat(d.Data()); err == nil {
		t.Error("it was refused, and made a data directory")
	}
}

// peer returns the name that the certificate of a server has.
func peer(t *testing.T, address string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), daemon.Limit)
	defer cancel()
	conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(ctx, "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName
}

func TestHangupReloadsCertificates(t *testing.T) {
	d := daemon.New(t)
	m := newManager(t, d)
	d.With = func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+m.path) }
	i := daemon.NewIssuer(t)
	cert, key := daemon.Files(t, d.Dir, "first", i.Issue("first"))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	d.Args = append(d.Args, "--listen", "tcp:"+at, "--tls-cert", cert, "--tls-key", key)
	d.Start()
	m.hears("^READY=1$")
	root := d.Root()
	if got := peer(t, at); got != "first" {
		t.Fatalf("got the certificate of %q", got)
	}
	held, err := tls.Dial("tcp", at, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()

	second, secondKey := daemon.Files(t, d.Dir, "second", i.Issue("second"))
	for from, to := range map[string]string{second: cert, secondKey: key} {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	d.Signal(syscall.SIGHUP)
	m.hears("^READY=1$")
	if got := peer(t, at); got != "second" {
		t.Errorf("after a hangup, got the certificate of %q", got)
	}

	if err := os.WriteFile(cert, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.Signal(syscall.SIGHUP)
	m.hears("^READY=1$")
	if got := peer(t, at); got != "second" {
		t.Errorf("after a bad one, got the certificate of %q", got)
	}
	daemon.Has(t, "the log", d.Text(), "--tls-cert and --tls-key: read again", "--tls-cert and --tls-key: the files cannot be used, and what was read before stays", cert)
	root.Read("version") // connections live through it
	if _, err := held.Write([]byte{19, 0, 0, 0, 100, 255, 255, 0, 32, 0, 0, 6, 0, '9', 'P', '2', '0', '0', '0'}); err != nil {
		t.Error(err)
	}
	held.SetReadDeadline(time.Now().Add(daemon.Limit))
	if n, err := held.Read(make([]byte, 64)); err != nil || n == 0 {
		t.Errorf("a connection from before the reload: %v", err)
	}
}

// Each file is read again on its own: a bad one keeps nothing from the others.
func TestHangupReadsEachFile(t *testing.T) {
	d := daemon.New(t)
	m := newManager(t, d)
	d.With = func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+m.path) }
	ours, clients, others := daemon.NewIssuer(t), daemon.NewIssuer(t), daemon.NewIssuer(t)
	cert, key := daemon.Files(t, d.Dir, "server", ours.Issue("first"))
	ca := filepath.Join(d.Dir, "ca.pem")
	trust := func(i *daemon.Issuer) {
		t.Helper()
		if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Cert.Raw}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	trust(clients)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	d.Args = append(d.Args, "--listen", "tcp:"+at, "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", ca)
	d.Start()
	m.hears("^READY=1$")
	// lets reports who serves, and whether a client is let in that i vouches for.
	lets := func(i *daemon.Issuer) (server string, in bool) {
		t.Helper()
		own := i.Issue("alice")
		conn, err := tls.Dial("tcp", at, &tls.Config{
			InsecureSkipVerify:   true,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(daemon.Limit))
		if _, err := conn.Write([]byte{19, 0, 0, 0, 100, 255, 255, 0, 32, 0, 0, 6, 0, '9', 'P', '2', '0', '0', '0'}); err != nil {
			return "", false
		}
		_, err = conn.Read(make([]byte, 64))
		return conn.ConnectionState().PeerCertificates[0].Subject.CommonName, err == nil
	}
	is := func(what string, i *daemon.Issuer, server string, in bool) {
		t.Helper()
		if gotServer, got := lets(i); gotServer != server || got != in {
			t.Errorf("%s: the server is %q, and lets it in: %v; want %q, %v", what, gotServer, got, server, in)
		}
	}
	hangup := func() {
		t.Helper()
		d.Signal(syscall.SIGHUP)
		m.hears("^READY=1$")
	}
	is("before", clients, "first", true)
	is("before, another's client", others, "first", false)

	second, secondKey := daemon.Files(t, d.Dir, "second", ours.Issue("second"))
	for from, to := range map[string]string{second: cert, secondKey: key} {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(ca, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	hangup()
	is("a bad file of clients' CAs", clients, "second", true)
	is("a bad file of clients' CAs, another's client", others, "second", false)
	daemon.Has(t, "the log", d.Text(), "--tls-cert and --tls-key: read again", "--tls-client-ca: the files cannot be used", "no certificate in "+ca)

	trust(others)
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	hangup()
	is("no key", others, "second", true)
	is("no key, a client that was let in before", clients, "second", false)
	daemon.Has(t, "the log", d.Text(), "--tls-client-ca: read again", "--tls-cert and --tls-key: the files cannot be used")
}
