package isolation

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/coder/websocket"

	"agent9/conformance/daemon"
	"agent9/fsys"
	"agent9/providers/tools/toolstest"
)

// planted are secrets that came in, by the way that they came.
type planted map[string]string

// in checks that none of the secrets is in what there is to see.
func (p planted) in(t *testing.T, where string, text []byte) {
	t.Helper()
	for way, secret := range p {
		for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret)), secret[:len(secret)*2/3]} {
			if i := bytes.Index(text, []byte(form)); i >= 0 {
				t.Errorf("%s has what came by %s: …%q…", where, way, text[max(0, i-80):i+10])
				break
			}
		}
	}
}

// A parrot is a server that answers, with every status, in every form, with
// the secrets that it was sent.
type parrot struct {
	mu    sync.Mutex
	heard map[string]bool
}

func (s *parrot) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	said := r.Header.Get("Authorization")
	s.mu.Lock()
	s.heard[said] = true
	s.mu.Unlock()
	padding := strings.Repeat("x", 990)
	switch {
	case bytes.Contains(body, []byte("stream broken")):
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"error\":{\"message\":\"your header was %s\"}}\n\n", said)
	case bytes.Contains(body, []byte("whole broken")):
		fmt.Fprintf(w, `{"error":{"message":"your header was %s"}}`, said)
	case bytes.Contains(body, []byte("no json")):
		fmt.Fprintf(w, "your header was %s", said)
	case bytes.Contains(body, []byte("in the middle")):
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, padding[:990-len(said)/2]+said)
	case bytes.Contains(body, []byte("forbidden")):
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"error":{"message":"your header was %s"}}`, said)
	case bytes.Contains(body, []byte("moved")):
		http.Redirect(w, r, "/elsewhere?key="+said, http.StatusTemporaryRedirect)
	default:
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error":{"message":"the wrong key: %s"}}`, said)
	}
}

// Whatever way a secret comes in, it is in nothing that the daemon writes or
// shows, to the operator or an agent, also when everything fails: not in its
// files, its log, errors, metrics, traces, bundles, or what ps shows.
func TestSecretsStayIn(t *testing.T) {
	daemon.HelperFor(t)
	secrets := planted{}
	plant := func(way string) string {
		secrets[way] = "c4nary-" + strings.ReplaceAll(way, " ", "-") + "-0123456789abcdefghijklmnopqrstuvwxyz"
		return secrets[way]
	}
	// What comes in when the daemon starts.
	echo := &parrot{heard: map[string]bool{}}
	server := httptest.NewServer(echo)
	defer server.Close()
	t.Setenv("M_API_KEY", plant("the key of a provider"))
	t.Setenv("AGENT9_PASSPHRASE", plant("the passphrase of the keys"))
	var traces bytes.Buffer
	var mu sync.Mutex
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		io.Copy(&traces, r.Body)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	certs := t.TempDir()
	us := daemon.NewIssuer(t)
	cert, key := daemon.Files(t, certs, "server", us.Issue("the server"))
	pem, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	secrets["the TLS key"] = strings.Split(string(pem), "\n")[1]
	d, _, operator := daemon.StartWeb(t, "--debug", "--listen", "tcp:127.0.0.1:0", "--tls-cert", cert, "--tls-key", key,
		"--compute", "m=openai:"+server.URL, "--compute", "sh=exec:env | grep AGENT9_; exit 1", "--unsafe-host-containers")
	r := d.Root()
	r.Mkdir("agents", "alice")
	r.Write("agents/alice/budget/limits", `{"per_day_microusd":1000000000}`)
	r.Write("agents/alice/compute/policy", `{"max_attempts":1,"default_price":{"input_microusd":0,"output_microusd":0}}`)
	r.Write("agents/alice/containers/policy", `{"network":true}`)

	// What comes in later.
	for _, name := range []string{"key", "hook", "repo", "wrong"} {
		r.Make("agents/alice/secrets", name, plant("secrets/"+name))
	}
	secrets["a token"] = daemon.TokenFor(t, operator, "alice")
	secrets["a token of the operator's"] = daemon.TokenFor(t, operator, "*")
	for name, text := range secrets { // a token that is no good
		if name == "a token" {
			secrets["a wrong token"] = text[:len(text)-6] + "AAAAAA"
		}
	}
	url := "https://" + daemon.HttpAt.FindStringSubmatch(d.Text())[1]
	shown := map[string][]byte{}
	show := func(where, text string) { shown[where] = append(shown[where], text+"\n"...) }

	// A provider that repeats what it was sent.
	for _, how := range []string{"refused", "stream broken", "whole broken", "no json", "in the middle", "forbidden", "moved"} {
		for _, stream := range []bool{true, false} {
			n := r.Ask("agents/alice/compute/new", fmt.Sprintf(`{"provider":"m","model":"m","stream":%v,"messages":[{"role":"user","content":%q}]}`, stream, how))
			text, err := r.TryRead("agents/alice/compute/jobs/" + n + "/result")
			show("results", fmt.Sprint(text, err))
		}
	}
	if !echo.heard["Bearer "+secrets["the key of a provider"]] {
		t.Error("the provider's key was not used")
	}
	// A command as a provider, whose environment is the daemon's: but not the
	// passphrase.
	n := r.Ask("agents/alice/compute/new", `{"provider":"sh","messages":[{"role":"user","content":"x"}]}`)
	r.TryRead("agents/alice/compute/jobs/" + n + "/result")
	env := r.Tail("agents/alice/compute/jobs/" + n + "/output")
	planted{"the passphrase of the keys": secrets["the passphrase of the keys"]}.in(t, "the environment of a command", []byte(env))
	daemon.Has(t, "the environment of a command", env, "AGENT9_REQUEST=")
	// A program that is sent a secret and repeats it, a server of tools that has
	// one in its environment, and a clone with one.
	started := filepath.Join(d.Dir, "started")
	config := func(program, mode string) {
		r.Write("agents/alice/config", string(fsys.Line(map[string]any{
			"secrets": map[string]any{
				"key":  map[string]any{"uses": []string{"tools"}},
				"hook": map[string]any{"uses": []string{"net"}, "hosts": []string{strings.TrimPrefix(server.URL, "http://")}},
				"repo": map[string]any{"uses": []string{"git"}, "hosts": []string{strings.TrimPrefix(url, "https://")}},
			},
			"program": json.RawMessage(program), "tick": map[string]any{"retries": 0, "give_up": 0},
			"tools": map[string]any{"counter": map[string]any{"command": []string{os.Args[0]},
				"env": map[string]any{toolstest.Var: mode, "AGENT9_TEST_STARTED": started, "API_KEY": map[string]string{"secret": "key"}}}},
		})))
	}
	config(`{"http":{"url":"`+server.URL+`","secret":{"name":"hook","header":"Authorization","prefix":"Bearer "}}}`, "broken")
	r.Write("agents/alice/ctl", "tick")
	r.Until("alice", "logs/ticks", `"outcome":"failed"`)
	text, err := r.TryRead("agents/alice/tools/counter/schema")
	show("tools", fmt.Sprint(text, err))
	show("tools", r.Read("agents/alice/tools/counter/status"))
	config(`{"exec":"env; cat /proc/self/environ"}`, "yes")
	text, err = r.TryRead("agents/alice/tools/counter/schema")
	show("tools", fmt.Sprint(text, err))
	r.Write("agents/alice/ctl", "tick")
	r.Until("alice", "logs/ticks", `"outcome":"done"`)
	n = r.Ask("agents/alice/containers/new", `{"repo":{"url":"`+strings.Replace(url, "https://", "https://user@", 1)+`/none.git","auth":{"secret":"repo"}},"commands":["env"],"limits":{"network":true,"time_s":10}}`)
	show("a clone", r.Read("agents/alice/containers/sessions/"+n+"/result")+r.Read("agents/alice/containers/sessions/"+n+"/output"))
	n = r.Ask("agents/alice/containers/new", `env; cat /proc/self/environ`)
	show("a sandbox", r.Read("agents/alice/containers/sessions/"+n+"/result")+r.Read("agents/alice/containers/sessions/"+n+"/output"))
	// A secret cannot be read, whoever asks.
	_, err = r.TryRead("agents/alice/secrets/key")
	daemon.Refused(t, "reading a secret", err, fsys.Permission)

	// Tokens, good and bad, by every way.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: us.Pool()}}}
	defer client.CloseIdleConnections()
	for _, way := range []string{"a token", "a token of the operator's", "a wrong token"} {
		token := secrets[way]
		for _, path := range []string{"/agents/alice/status", "/agents/alice/none", "/agents/alice/config", "/agents/bob/status", "/agents/alice/v1/chat/completions"} {
			for _, method := range []string{"GET", "PUT", "POST", "BREW"} {
				status, body := daemon.Ask(t, client, token, method, url+path, "{")
				show("HTTP", fmt.Sprint(status, body))
				status, body = daemon.Ask(t, client, "", method, url+path+"?access_token="+token, "{")
				show("HTTP", fmt.Sprint(status, body))
			}
		}
		for _, path := range []string{"/agents/alice/", "/agents/bob/", "/"} {
			dial := &websocket.DialOptions{HTTPClient: client, Subprotocols: []string{"agent9", "bearer." + token}}
			conn, res, err := websocket.Dial(daemon.Within(t), strings.Replace(url, "https", "wss", 1)+path, dial)
			if res == nil {
				t.Fatal(err)
			}
			if path == "/agents/alice/" {
				daemon.Equal(t, "a WebSocket opens with "+way, err == nil, way != "a wrong token")
			}
			text := fmt.Sprint(res.Status, res.Header)
			if err == nil {
				for _, frame := range []string{`{"id":1,"op":"open","path":"/none"}`, `{"id":2,"op":"open","path":"/agents/alice/config","mode":"w"}`, `{"id":3,"op":"nonsense"}`, "nonsense"} {
					text += daemon.Exchange(t, conn, frame)
				}
				conn.CloseNow()
			} else {
				body, _ := io.ReadAll(res.Body)
				text += string(body)
			}
			show("WebSocket", text)
		}
		for _, path := range []string{"/mcp", "/agents/alice/mcp"} {
			call := func(tool string, args map[string]string) {
				show("MCP", post(t, client, token, url+path, string(fsys.Line(map[string]any{
					"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": args},
				}))))
			}
			dir := map[string]string{"/mcp": "/agents/alice", "/agents/alice/mcp": ""}[path]
			for _, file := range []string{"/none", "/config", "/status", "/secrets/key", "/compute/nothing"} {
				call("read", map[string]string{"path": dir + file})
				call("call", map[string]string{"path": dir + file, "request": "nonsense"})
			}
			for _, file := range []string{"/secrets/hook", "/secrets/two/names", "/secrets/", "/identity/sign"} {
				call("write", map[string]string{"path": dir + file, "text": secrets["secrets/hook"]})
			}
			for _, body := range []string{
				"{", "[]", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, `{"jsonrpc":"2.0","id":1,"method":"nonsense"}`,
				`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"agent9:///config"}}`,
			} {
				show("MCP", post(t, client, token, url+path, body))
			}
		}
		if tr, err := daemon.Attach(t, "unix", d.Sock(), token); err != nil {
			show("9P", err.Error())
		} else {
			for _, path := range []string{"none", "config", "secrets/key"} {
				show("9P", fmt.Sprint(tr.TryWrite(path, "nonsense")))
			}
		}
	}

	daemon.Has(t, "the answers of MCP", string(shown["MCP"]), "HTTP/1.1 401", `"isError":true`, `"structuredContent"`)

	// All that there is to see.
	secrets.in(t, "ps", commandLines(d, t))
	for _, file := range []string{"logs/trajectory", "logs/errors"} {
		show(file, r.Tail("agents/alice/"+file))
	}
	for _, dir := range []string{"agents/alice", "tokens", "accounts", "profiles"} {
		for path, text := range r.Snapshot(dir) {
			show(dir+path+" of the operator's tree", text)
		}
	}
	for _, file := range []string{"health", "info", "models"} {
		text, err := r.TryRead("agents/alice/compute/providers/m/" + file)
		show("the provider's "+file, fmt.Sprint(text, err))
	}
	agent, err := daemon.Attach(t, "unix", d.Sock(), secrets["a token"])
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range agent.Snapshot("") {
		show(path+" of the agent's tree", text)
	}
	show("metrics", r.Read("metrics"))
	show("a bundle", string(d.MustCtl(nil, "export", "alice")))
	t.Setenv("AGENT9_BUNDLE_PASSPHRASE", plant("the passphrase of a bundle"))
	show("a bundle with keys", string(d.MustCtl(nil, "export", "--with-keys", "alice")))
	out, _ := daemon.Ctl(t, "unix:"+d.Sock(), "", "--generate-bash-completion")
	show("completion", out)
	secrets.in(t, "ps", commandLines(d, t))
	write(d, "ctl", "shutdown", r)
	d.Ends(daemon.Limit)
	show("the log", d.Text())
	mu.Lock()
	show("traces", traces.String())
	mu.Unlock()
	daemon.Equal(t, "there are traces", len(shown["traces"]) > 100, true)
	for where, text := range shown {
		secrets.in(t, where, text)
	}
	err = filepath.Walk(d.Data(), func(path string, info os.FileInfo, err error) error {
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		secrets.in(t, path, b)
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// post sends a request to MCP over HTTP, and returns all that comes back.
func post(t *testing.T, client *http.Client, token, url, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(daemon.Within(t), "POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var all bytes.Buffer
	if err := res.Write(&all); err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// write writes to a file of the daemon's tree, which may end by it.
func write(d *daemon.Daemon, path, text string, r *daemon.Tree) {
	if err := r.TryWrite(path, text); err != nil && fsys.CodeOf(err) != fsys.Unavailable {
		d.T.Error(err)
	}
}

// commandLines are those of all processes of the machine.
func commandLines(d *daemon.Daemon, t *testing.T) []byte {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var text []byte
	for _, file := range all {
		line, _ := os.ReadFile(file) // it may have ended
		text = append(append(text, line...), '\n')
	}
	return text
}

// A daemon that dies leaves no core file, in which its keys would be.
func TestNoCore(t *testing.T) {
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_CORE, &was); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{Cur: was.Max, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	defer syscall.Setrlimit(syscall.RLIMIT_CORE, &was)
	dumped := func(state *os.ProcessState) bool { return state.Sys().(syscall.WaitStatus).CoreDump() }
	other := exec.Command("/bin/sh", "-c", "kill -ABRT $$")
	other.Dir = t.TempDir()
	if other.Run(); !dumped(other.ProcessState) {
		t.Skip("no program leaves a core file on this machine")
	}
	t.Setenv("GOTRACEBACK", "crash")
	d := daemon.Start(t)
	d.Signal(syscall.SIGABRT)
	<-d.Exited
	if dumped(d.Cmd.ProcessState) {
		t.Errorf("agentd left a core file: %v", d.Cmd.ProcessState)
	}
}
