package http

import (
	"agent9/conformance/daemon"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// A token opens its own agent's tree, and no other agent can even be told from
// one that does not exist.
func TestHTTPTokens(t *testing.T) {
	_, url, operator := daemon.StartWeb(t)
	daemon.Create(t, operator, "alice", "bob")
	alice := daemon.TokenFor(t, operator, "alice")
	reader := daemon.TokenFor(t, operator, "alice r")
	all := daemon.TokenFor(t, operator, "* r,/ctl:-")
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
		if status, text := daemon.Ask(t, client, c.token, c.method, url+c.path, c.body); status != c.status {
			t.Errorf("%.6s %s %s: %d %s, want %d", c.token, c.method, c.path, status, text, c.status)
		}
	}
	_, bob := daemon.Ask(t, client, alice, "GET", url+"/agents/bob/status", "")
	_, nobody := daemon.Ask(t, client, alice, "GET", url+"/agents/nobody/status", "")
	if bob != nobody {
		t.Errorf("an agent that exists can be told from one that does not: %s, %s", bob, nobody)
	}
}

// A POST is one request: what follows it is refused before anything is done, as the
// reply to what was done would be lost if the rest is refused. A byte order mark is
// passed over.
func TestHTTPOneRequest(t *testing.T) {
	_, _, operator := daemon.StartWeb(t)
	daemon.Create(t, operator, "alice")
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
			daemon.Ask(t, operator, "", "MKCOL", alice+"compute/jobs/draft", "")
		}
		if status, text := daemon.Ask(t, operator, "", c.method, c.file, c.body); status != 400 || !strings.Contains(text, "nothing was done") {
			t.Errorf("%s %s: %d %s", c.file, c.body, status, text)
		}
	}
	for file, want := range map[string]string{
		host + "agents/": "alice", host + "tokens/": "", alice + "compute/jobs/": "draft", alice + "containers/sessions/": "", alice + "sessions/": "new",
	} {
		if _, text := daemon.Ask(t, operator, "", "GET", file, ""); strings.Count(text, `"name"`) != len(strings.Fields(want)) || !strings.Contains(text, want) {
			t.Errorf("%s has %s, want %q", file, text, want)
		}
	}
	for name, text := range map[string]string{"inbox": "inbox/next?wait=0s", "status": "status"} {
		if _, got := daemon.Ask(t, operator, "", "POST", alice+text, ""); strings.Contains(got, `"body"`) || strings.Contains(got, "stopped") {
			t.Errorf("%s: %s", name, got)
		}
	}
	if status, text := daemon.Ask(t, operator, "", "POST", alice+"compute/new", "\uFEFF"+chat+" \r\n"); status != 200 || text != "1\n" {
		t.Errorf("a byte order mark: %d %s", status, text)
	}
	if _, text := daemon.Ask(t, operator, "", "GET", alice+"compute/jobs/1/output", ""); text != "x" {
		t.Errorf("the answer is %q", text)
	}
	if status, text := daemon.Ask(t, operator, "", "PUT", alice+"config", "\uFEFF{}"); status != 204 {
		t.Errorf("a byte order mark in config: %d %s", status, text)
	}
}

// Who does not want to wait longer for a stream is refused nothing.
func TestHTTPWaitIsNoRefusal(t *testing.T) {
	_, _, operator := daemon.StartWeb(t)
	daemon.Create(t, operator, "alice")
	const logs = "http://localhost/agents/alice/logs/"
	for _, query := range []string{"trace?wait=10ms", "trace?watch=1&wait=10ms"} {
		if status, text := daemon.Ask(t, operator, "", "GET", logs+query, ""); status != 200 || text != "" {
			t.Errorf("%s: %d %s", query, status, text)
		}
	}
	if _, text := daemon.Ask(t, operator, "", "GET", logs+"errors?wait=0s", ""); text != "" {
		t.Errorf("it is among the errors: %s", text)
	}
}

// A token that is revoked ends what uses it.
func TestHTTPRevoked(t *testing.T) {
	_, url, operator := daemon.StartWeb(t)
	daemon.Create(t, operator, "alice")
	token := daemon.TokenFor(t, operator, "alice")
	daemon.Ask(t, http.DefaultClient, token, "GET", url+"/agents/alice/status", "")
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
	_, list := daemon.Ask(t, operator, "", "GET", "http://localhost/tokens/", "")
	var tokens struct{ Entries []struct{ Name string } }
	if err := json.Unmarshal([]byte(list), &tokens); err != nil || len(tokens.Entries) != 1 {
		t.Fatalf("%s: %v", list, err)
	}
	if status, text := daemon.Ask(t, operator, "", "DELETE", "http://localhost/tokens/"+tokens.Entries[0].Name, ""); status != 204 {
		t.Fatalf("%d %s", status, text)
	}
	select {
	case <-ended:
	case <-time.After(daemon.Limit):
		t.Error("the stream goes on")
	}
	if status, _ := daemon.Ask(t, http.DefaultClient, token, "GET", url+"/agents/alice/status", ""); status != 401 {
		t.Errorf("status %d", status)
	}
}

// A reader of events comes back after a kill -9 of the daemon, and misses
// nothing and gets nothing twice.
func TestHTTPEventsAcrossARestart(t *testing.T) {
	d, _, operator := daemon.StartWeb(t)
	daemon.Create(t, operator, "alice")
	const log = "http://localhost/agents/alice/logs/trajectory?wait=0s"
	events := func(after string) (data, last string) {
		_, text := daemon.Ask(t, operator, "", "GET", log+"&watch=1&offset="+after, "")
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
		if status, text := daemon.Ask(t, operator, "", "PUT", "http://localhost/agents/alice/goals/"+name, "x"); status != 201 {
			t.Fatalf("%d %s", status, text)
		}
	}
	goal("a")
	before, last := events("0")
	d.Kill()
	operator.CloseIdleConnections()
	d.Start()
	goal("b")
	after, _ := events(last)
	_, all := daemon.Ask(t, operator, "", "GET", log, "")
	if before == "" || after == "" || before+after != all {
		t.Errorf("before %q\nafter %q\nall %q", before, after, all)
	}
}

// Prometheus' own parser reads /metrics.
func TestHTTPMetrics(t *testing.T) {
	_, url, operator := daemon.StartWeb(t)
	daemon.Create(t, operator, "alice")
	token := daemon.TokenFor(t, operator, "* /metrics:r")
	status, text := daemon.Ask(t, http.DefaultClient, token, "GET", url+"/metrics", "")
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
		d := daemon.New(t, args...)
		if out, err := d.Command().CombinedOutput(); err == nil || !strings.Contains(string(out), "agentd: ") {
			t.Errorf("%v: %v %s", args, err, out)
		}
	}
}
