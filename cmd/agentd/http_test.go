package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

var httpAt = regexp.MustCompile(`listening on http tcp:(\S+)`)

// startWeb returns a daemon that serves HTTP, its URL, and its operator over
// the Unix socket.
func startWeb(t testing.TB, args ...string) (d *daemon, url string, operator *http.Client) {
	t.Helper()
	tt, ok := t.(*testing.T)
	if !ok {
		t.Skip("needs a test")
	}
	d = newDaemon(tt)
	socket := filepath.Join(d.dir, "http")
	d.args = append(args, "--http", "127.0.0.1:0", "--http", "unix:"+socket)
	d.start()
	operator = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "unix", socket)
	}}}
	t.Cleanup(operator.CloseIdleConnections)
	return d, "http://" + httpAt.FindStringSubmatch(d.text())[1], operator
}

// ask sends a request and returns the status and the answer.
func ask(t testing.TB, c *http.Client, token, method, url, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// tokenFor makes a token, with the words after token of the host's ctl.
func tokenFor(t testing.TB, operator *http.Client, words string) string {
	t.Helper()
	status, reply := ask(t, operator, "", "POST", "http://localhost/ctl", "token "+words)
	if status != 200 {
		t.Fatalf("token %s: %d %s", words, status, reply)
	}
	return strings.TrimSpace(reply)
}

func create(t testing.TB, operator *http.Client, names ...string) {
	t.Helper()
	for _, name := range names {
		if status, text := ask(t, operator, "", "MKCOL", "http://localhost/agents/"+name, ""); status != 201 {
			t.Fatalf("%d %s", status, text)
		}
	}
}

// A token opens its own agent's tree, and no other agent can even be told from
// one that does not exist.
func TestHTTPTokens(t *testing.T) {
	_, url, operator := startWeb(t)
	create(t, operator, "alice", "bob")
	alice := tokenFor(t, operator, "alice")
	reader := tokenFor(t, operator, "alice r")
	all := tokenFor(t, operator, "* r,/ctl:-")
	client := http.DefaultClient
	for _, c := range []struct {
		token, method, path, body string
		status                    int
	}{
		{alice, "GET", "/agents/alice/status", "", 200},
		{alice, "GET", "/agents/", "", 200},
		{alice, "GET", "/agents/bob/status", "", 404},
		{alice, "GET", "/agents/nobody/status", "", 404},
		{alice, "GET", "/metrics", "", 404},
		{alice, "POST", "/ctl", "shutdown", 404},
		{alice, "MKCOL", "/agents/carol", "", 403},
		{alice, "PUT", "/agents/alice/config", "{}", 403},
		{alice, "PUT", "/agents/alice/goals/g", "x", 201},
		{reader, "GET", "/agents/alice/goals/g", "", 200},
		{reader, "PUT", "/agents/alice/goals/g", "y", 403},
		{reader, "POST", "/agents/alice/inbox/next", "", 403},
		{all, "GET", "/agents/bob/status", "", 200},
		{all, "GET", "/metrics", "", 200},
		{all, "GET", "/tokens/", "", 200},
		{all, "GET", "/ctl", "", 404},
		{all, "MKCOL", "/agents/carol", "", 403},
		{all, "PUT", "/agents/alice/config", "{}", 403},
		{"", "GET", "/agents/alice/status", "", 401},
		{"a9_x", "GET", "/agents/alice/status", "", 401},
		{"", "GET", "/agents/nobody/status", "", 401},
		{"", "GET", "/agents/alice/v1/models", "", 401},
		{"", "GET", "/healthz", "", 200},
		{"", "GET", "/readyz", "", 200},
		{"", "POST", "/readyz", "", 405},
		{"", "GET", "/metrics", "", 401},
	} {
		if status, text := ask(t, client, c.token, c.method, url+c.path, c.body); status != c.status {
			t.Errorf("%.6s %s %s: %d %s, want %d", c.token, c.method, c.path, status, text, c.status)
		}
	}
	_, bob := ask(t, client, alice, "GET", url+"/agents/bob/status", "")
	_, nobody := ask(t, client, alice, "GET", url+"/agents/nobody/status", "")
	if bob != nobody {
		t.Errorf("an agent that exists can be told from one that does not: %s, %s", bob, nobody)
	}
}

// A POST is one request: what follows it is refused before anything is done, as the
// reply to what was done would be lost if the rest is refused. A byte order mark is
// passed over.
func TestHTTPOneRequest(t *testing.T) {
	_, _, operator := startWeb(t)
	create(t, operator, "alice")
	const host, alice = "http://localhost/", "http://localhost/agents/alice/"
	chat := `{"messages":[{"role":"user","content":"x"}]}`
	for _, c := range []struct{ method, file, body string }{
		{"POST", alice + "compute/new", chat + `{"n":5}`}, {"POST", alice + "compute/new", chat + "\n" + chat}, {"PUT", alice + "compute/new", chat + chat},
		{"POST", alice + "compute/jobs/draft/request", chat + `{"n":5}`}, {"POST", alice + "containers/new", `{"command":["true"]} {"n":5}`},
		{"POST", alice + "inbox/new", `{"body":1}{"n":5}`}, {"POST", alice + "send", `{"body":1}{"body":2}`}, {"POST", alice + "sessions/new", `{}{"n":5}`},
		{"POST", alice + "logs/write", `{"a":1}{"b":2}`}, {"POST", host + "create", `{"name":"bob"}{"n":5}`}, {"POST", host + "ctl", "token alice\nfly"},
		{"POST", alice + "ctl", "stop\nfly"},
	} {
		if strings.Contains(c.file, "draft") {
			ask(t, operator, "", "MKCOL", alice+"compute/jobs/draft", "")
		}
		if status, text := ask(t, operator, "", c.method, c.file, c.body); status != 400 || !strings.Contains(text, "nothing was done") {
			t.Errorf("%s %s: %d %s", c.file, c.body, status, text)
		}
	}
	for file, want := range map[string]string{
		host + "agents/": "alice", host + "tokens/": "", alice + "compute/jobs/": "draft", alice + "containers/sessions/": "", alice + "sessions/": "new",
	} {
		if _, text := ask(t, operator, "", "GET", file, ""); strings.Count(text, `"name"`) != len(strings.Fields(want)) || !strings.Contains(text, want) {
			t.Errorf("%s has %s, want %q", file, text, want)
		}
	}
	for name, text := range map[string]string{"inbox": "inbox/next?wait=0s", "status": "status"} {
		if _, got := ask(t, operator, "", "POST", alice+text, ""); strings.Contains(got, `"body"`) || strings.Contains(got, "stopped") {
			t.Errorf("%s: %s", name, got)
		}
	}
	if status, text := ask(t, operator, "", "POST", alice+"compute/new", "\uFEFF"+chat+" \r\n"); status != 200 || text != "1\n" {
		t.Errorf("a byte order mark: %d %s", status, text)
	}
	if _, text := ask(t, operator, "", "GET", alice+"compute/jobs/1/output", ""); text != "x" {
		t.Errorf("the answer is %q", text)
	}
	if status, text := ask(t, operator, "", "PUT", alice+"config", "\uFEFF{}"); status != 204 {
		t.Errorf("a byte order mark in config: %d %s", status, text)
	}
}

// Who does not want to wait longer for a stream is refused nothing.
func TestHTTPWaitIsNoRefusal(t *testing.T) {
	_, _, operator := startWeb(t)
	create(t, operator, "alice")
	const logs = "http://localhost/agents/alice/logs/"
	for _, query := range []string{"trace?wait=10ms", "trace?watch=1&wait=10ms"} {
		if status, text := ask(t, operator, "", "GET", logs+query, ""); status != 200 || text != "" {
			t.Errorf("%s: %d %s", query, status, text)
		}
	}
	if _, text := ask(t, operator, "", "GET", logs+"errors?wait=0s", ""); text != "" {
		t.Errorf("it is among the errors: %s", text)
	}
}

// A token that is revoked ends what uses it.
func TestHTTPRevoked(t *testing.T) {
	_, url, operator := startWeb(t)
	create(t, operator, "alice")
	token := tokenFor(t, operator, "alice")
	ask(t, http.DefaultClient, token, "GET", url+"/agents/alice/status", "")
	r, err := http.NewRequestWithContext(t.Context(), "GET", url+"/agents/alice/logs/trace?watch=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	ended := make(chan struct{})
	go func() {
		io.Copy(io.Discard, res.Body)
		close(ended)
	}()
	_, list := ask(t, operator, "", "GET", "http://localhost/tokens/", "")
	var tokens struct{ Entries []struct{ Name string } }
	if err := json.Unmarshal([]byte(list), &tokens); err != nil || len(tokens.Entries) != 1 {
		t.Fatalf("%s: %v", list, err)
	}
	if status, text := ask(t, operator, "", "DELETE", "http://localhost/tokens/"+tokens.Entries[0].Name, ""); status != 204 {
		t.Fatalf("%d %s", status, text)
	}
	select {
	case <-ended:
	case <-time.After(limit):
		t.Error("the stream goes on")
	}
	if status, _ := ask(t, http.DefaultClient, token, "GET", url+"/agents/alice/status", ""); status != 401 {
		t.Errorf("status %d", status)
	}
}

// A reader of events comes back after a kill -9 of the daemon, and misses
// nothing and gets nothing twice.
func TestHTTPEventsAcrossARestart(t *testing.T) {
	d, _, operator := startWeb(t)
	create(t, operator, "alice")
	const log = "http://localhost/agents/alice/logs/trajectory?wait=0s"
	events := func(after string) (data, last string) {
		_, text := ask(t, operator, "", "GET", log+"&watch=1&offset="+after, "")
		last = after
		for line := range strings.Lines(text) {
			if id, ok := strings.CutPrefix(line, "id: "); ok {
				last = strings.TrimSpace(id)
			}
			if line, ok := strings.CutPrefix(line, "data: "); ok {
				data += line
			}
		}
		return data, last
	}
	goal := func(name string) {
		if status, text := ask(t, operator, "", "PUT", "http://localhost/agents/alice/goals/"+name, "x"); status != 201 {
			t.Fatalf("%d %s", status, text)
		}
	}
	goal("a")
	before, last := events("0")
	d.kill()
	operator.CloseIdleConnections()
	d.start()
	goal("b")
	after, _ := events(last)
	_, all := ask(t, operator, "", "GET", log, "")
	if before == "" || after == "" || before+after != all {
		t.Errorf("before %q\nafter %q\nall %q", before, after, all)
	}
}

// Prometheus' own parser reads /metrics.
func TestHTTPMetrics(t *testing.T) {
	_, url, operator := startWeb(t)
	create(t, operator, "alice")
	token := tokenFor(t, operator, "* /metrics:r")
	status, text := ask(t, http.DefaultClient, token, "GET", url+"/metrics", "")
	if status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if f := families["agent9_agents"]; f == nil || f.Metric[0].GetGauge().GetValue() != 1 {
		t.Errorf("agent9_agents: %v", f)
	}
	for _, name := range []string{"agent9_agents_in_memory", "agent9_events_total", "agent9_uptime_seconds", "agent9_http_request_duration_seconds", "go_goroutines", "process_resident_memory_bytes"} {
		if families[name] == nil {
			t.Errorf("there is no %s", name)
		}
	}
}

func TestHTTPUsage(t *testing.T) {
	for _, args := range [][]string{
		{"--http", "0.0.0.0:0"}, {"--http", "nonsense"}, {"--http", "127.0.0.1"}, {"--http", "127.0.0.1:0", "--http-cors", "example.com"},
	} {
		d := newDaemon(t, args...)
		if out, err := d.command().CombinedOutput(); err == nil || !strings.Contains(string(out), "agentd: ") {
			t.Errorf("%v: %v %s", args, err, out)
		}
	}
}
