package http

import (
	"agent9/conformance/daemon"
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// HTTPS lets in whom 9P over TLS lets in, and shows the same.
func TestHTTPS(t *testing.T) {
	dir := t.TempDir()
	us, strangers := daemon.NewIssuer(t), daemon.NewIssuer(t)
	cert, key := daemon.Files(t, dir, "server", us.Issue("the server"))
	ca, _ := daemon.Files(t, dir, "ca", tls.Certificate{Certificate: [][]byte{us.Cert.Raw}, PrivateKey: us.Key})
	_, url, operator := daemon.StartWeb(t, "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", ca,
		"--http", "0.0.0.0:0") // which needs TLS
	daemon.Create(t, operator, "alice", "bob")
	url = strings.NewReplacer("http:", "https:", "[::]", "127.0.0.1").Replace(url)
	as := func(config *tls.Config) *http.Client {
		way := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
		t.Cleanup(way.CloseIdleConnections)
		return &http.Client{Transport: way}
	}
	known := func(certs ...tls.Certificate) *http.Client {
		return as(&tls.Config{RootCAs: us.Pool(), Certificates: certs})
	}

	if status, text := daemon.Ask(t, http.DefaultClient, "", "GET", strings.Replace(url, "https:", "http:", 1)+"/healthz", ""); status == 200 {
		t.Errorf("plain HTTP where TLS is spoken: %d %s", status, text)
	}
	for what, config := range map[string]*tls.Config{
		"a client that does not know the server": {RootCAs: strangers.Pool()},
		"a certificate of a stranger":            {RootCAs: us.Pool(), Certificates: []tls.Certificate{strangers.Issue("alice")}},
		"TLS 1.1":                                {RootCAs: us.Pool(), MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11},
	} {
		// A client picks no certificate that the server did not ask for, so it
		// is told to.
		if certs := config.Certificates; len(certs) > 0 {
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certs[0], nil }
		}
		if res, err := as(config).Get(url + "/healthz"); err == nil {
			res.Body.Close()
			t.Errorf("%s gets %s", what, res.Status)
		}
	}

	alice, token, all := known(us.Issue("alice")), daemon.TokenFor(t, operator, "bob"), daemon.TokenFor(t, operator, "*")
	for _, c := range []struct {
		client                   *http.Client
		token, method, path, raw string
		status                   int
		want                     string
	}{
		{known(), "", "GET", "/healthz", "", 200, "ok"},
		{known(), "", "GET", "/agents/alice/status", "", 401, "a valid token is needed"},
		{known(), "a9_x", "GET", "/agents/alice/status", "", 401, "a valid token is needed"},
		{known(), token, "GET", "/agents/bob/status", "", 200, `"name":"bob"`},
		{known(), token, "GET", "/agents/alice/status", "", 404, "not-found"},
		{known(), all, "GET", "/agents/alice/status", "", 200, `"name":"alice"`},
		{alice, "", "GET", "/agents/alice/status", "", 200, `"name":"alice"`},
		{alice, "", "GET", "/agents/", "", 200, `{"entries":[{"name":"alice"`},
		{alice, "", "GET", "/agents/bob/status", "", 404, "not-found"},
		{alice, "", "GET", "/metrics", "", 404, "not-found"},
		{alice, "", "PUT", "/agents/alice/config", "{}", 403, "read-only"},
		{alice, "", "PUT", "/agents/alice/goals/g", "x", 201, ""},
		{alice, "", "POST", "/agents/alice/send", "by certificate", 200, ""},
		{alice, "", "POST", "/agents/alice/inbox/next", "", 200, `"from":"alice"`},
		{alice, token, "GET", "/agents/bob/status", "", 200, `"name":"bob"`}, // who shows a token means it
		{alice, "a9_x", "GET", "/agents/alice/status", "", 401, "a valid token is needed"},
		{known(us.Issue("carol")), "", "GET", "/agents/carol/status", "", 401, "a valid token is needed"},
		{known(us.Issue("")), "", "GET", "/agents/alice/status", "", 401, "a valid token is needed"},
		{known(us.Issue("*")), "", "GET", "/agents/alice/status", "", 401, "a valid token is needed"},
		{known(us.Issue("../agents/alice")), "", "GET", "/agents/alice/status", "", 401, "a valid token is needed"},
	} {
		if status, text := daemon.Ask(t, c.client, c.token, c.method, url+c.path, c.raw); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%.6s %s %s: %d %s, want %d %s", c.token, c.method, c.path, status, text, c.status, c.want)
		}
	}

	// The page sets no cookie, and is for its own server only.
	r, err := http.NewRequest("GET", url+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html")
	res, err := alice.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	h := res.Header
	if res.StatusCode != 200 || len(res.Cookies()) > 0 || !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") || h.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("the page: %s %v", res.Status, h)
	}

	// With the agent goes what its certificate opened.
	daemon.Ask(t, operator, "", "POST", "http://localhost/agents/alice/ctl", "stop")
	if status, text := daemon.Ask(t, operator, "", "DELETE", "http://localhost/agents/alice", ""); status != 204 {
		t.Fatalf("%d %s", status, text)
	}
	if status, text := daemon.Ask(t, alice, "", "GET", url+"/agents/alice/status", ""); status != 401 {
		t.Errorf("the certificate of an agent that is gone: %d %s", status, text)
	}
}

// Beyond loopback there is no HTTP without TLS.
func TestHTTPBeyondLoopback(t *testing.T) {
	d := daemon.New(t)
	for _, at := range []string{"0.0.0.0:0", "[::]:0", "192.0.2.1:0"} {
		d.Refuses(2, []string{"--http", at}, "--tls-cert")
	}
	if _, err := os.Stat(filepath.Join(d.Dir, "data")); err == nil {
		t.Error("a daemon that was not started has made its data directory")
	}
}
