package http

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agent9/conformance/daemon"
	"agent9/fsys"
)

// lastStarted returns the process that was started last.
func lastStarted(t *testing.T, file string) int {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(b))
	pid, err := strconv.Atoi(lines[len(lines)-1])
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func processGone(t *testing.T, pid int) {
	t.Helper()
	daemon.Eventually(t, "the server of tools is gone", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return syscall.Kill(pid, 0) != nil || err == nil && strings.Contains(string(stat), ") Z ")
	})
}

// TestTools is an agent with a server of tools, made with the official SDK.
func TestTools(t *testing.T) {
	t.Setenv("SOME_API_KEY", "the daemon's own key")
	d, r, alice := daemon.OneAgent(t)
	started := filepath.Join(d.Dir, "started")
	daemon.Has(t, "mounts", alice.Read("mounts"), "/tools\ttools\t")
	daemon.Equal(t, "no servers", alice.List("tools"), "")
	daemon.Refused(t, "a bad server", alice.TryWrite("config", `{"tools":{"x":{}}}`), fsys.Invalid, "tools: x: a server has a command or a url")
	alice.Write("config", daemon.ToolConfig(t, started))
	daemon.Equal(t, "servers", alice.List("tools"), "counter")
	daemon.Equal(t, "without the secret", alice.List("tools/counter"), "schema status")
	daemon.Has(t, "status", alice.Read("tools/counter/status"), `"state":"failing"`, "there is no secret key; the operator writes it to secrets/key")
	_, err := alice.TryRead("tools/counter/schema")
	daemon.Refused(t, "schema", err, fsys.NotExist, "there is no secret key")

	alice.Make("secrets", "key", "s3cr3t-value")
	alice.Write("config", strings.Replace(daemon.ToolConfig(t, started), `{"secrets"`, `{"accept":[],"secrets"`, 1))
	daemon.Eventually(t, "it is started again", func() bool {
		_, err := alice.TryRead("tools/counter/schema")
		return err == nil
	})
	daemon.Equal(t, "tools", alice.List("tools/counter"), "schema status add big crash env fail fork %73chema wait")
	token := r.Ask("ctl", "token alice")
	self := d.At(token)
	daemon.Has(t, "schema", self.Read("tools/counter/add/schema"), `"description":"adds two numbers"`, `"one number"`)
	daemon.Has(t, "call", self.Ask("tools/counter/add/call", `{"a":40,"b":2}`), `"structuredContent":{"sum":42}`)
	daemon.Refused(t, "config", self.TryWrite("config", `{}`), fsys.Permission)
	_, err = fsys.Converse(daemon.Within(t), self.Root, "tools/counter/add/call", []byte(`{"a":"x"}`))
	if err == nil {
		daemon.Has(t, "wrong arguments", self.Ask("tools/counter/add/call", `{"a":"x"}`), `"isError":true`)
	}
	_, err = fsys.Converse(daemon.Within(t), self.Root, "tools/counter/add/call", []byte(`40 2`))
	daemon.Refused(t, "no arguments", err, fsys.Invalid, "the arguments are a JSON object")
	daemon.Has(t, "logs/errors", daemon.LastLine(alice.Tail("logs/errors")), `"path":"/tools/counter/add/call"`, `"by":"alice"`)
	daemon.Has(t, "the log", alice.Tail("logs/trajectory"), `"event":"tool.called"`, `"tool":"add","by":"alice"`, `"event":"tool.answered"`)

	reader := d.At(r.Ask("ctl", "token alice r"))
	reader.Read("tools/counter/add/schema")
	_, err = fsys.Converse(daemon.Within(t), reader.Root, "tools/counter/add/call", []byte(`{"a":1,"b":1}`))
	daemon.Refused(t, "a call with a token to read", err, fsys.Permission)

	if env := self.Ask("tools/counter/env/call", `{}`); strings.Contains(env, "the daemon's own key") || !strings.Contains(env, "API_KEY=[secret]") {
		t.Errorf("the environment of the server: %s", env)
	}
	_, err = fsys.Converse(daemon.Within(t), self.Root, "tools/counter/crash/call", []byte(`{}`))
	daemon.Refused(t, "a crash", err, fsys.Unavailable, "the server ended with status 7: out of luck")
	daemon.Eventually(t, "it is started again", func() bool {
		_, err := fsys.Converse(daemon.Within(t), self.Root, "tools/counter/add/call", []byte(`{"a":1,"b":1}`))
		return err == nil
	})

	// It ends with its agent's work, and with the daemon, however that ends.
	pid := lastStarted(t, started)
	alice.Write("ctl", "stop")
	processGone(t, pid)
	_, err = fsys.Converse(daemon.Within(t), self.Root, "tools/counter/add/call", []byte(`{"a":1,"b":1}`))
	daemon.Refused(t, "a call of a stopped agent", err, fsys.Busy, "the agent is stopped")
	alice.Write("ctl", "start")
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		alice = d.At("/agents/alice")
		alice.Ask("tools/counter/add/call", `{"a":1,"b":1}`)
		pid = lastStarted(t, started)
		d.Signal(sig)
		<-d.Exited
		processGone(t, pid)
		d.Start()
	}
	alice = d.At("/agents/alice")
	for _, file := range []string{"logs/trajectory", "logs/errors"} {
		if text := alice.Tail(file); strings.Contains(text, "s3cr3t-value") {
			t.Errorf("the secret is in %s", file)
		}
	}
	if strings.Contains(d.Text(), "s3cr3t-value") {
		t.Error("the daemon says the secret")
	}
}

// An assistant uses the tools of an agent, as files.
func TestToolsOverMCP(t *testing.T) {
	d, url, operator := daemon.StartWeb(t)
	daemon.Create(t, operator, "alice")
	alice := d.At("/agents/alice")
	alice.Make("secrets", "key", "k-12345")
	alice.Write("config", daemon.ToolConfig(t, filepath.Join(d.Dir, "started")))
	a := connectMCP(t, overHTTP(url+"/mcp", daemon.TokenFor(t, operator, "alice")), "")
	daemon.Has(t, "tools", a.use("list", arguments{"path": "/tools/counter"}), "add/\tdirectory")
	daemon.Has(t, "call", a.use("call", arguments{"path": "/tools/counter/add/call", "request": `{"a":40,"b":2}`}), `{"sum":42}`)
}

// TestToolsScript runs the script in docs/mcp.md with a model that wants to
// use a tool.
func TestToolsScript(t *testing.T) {
	for _, program := range []string{"bash", "curl", "jq"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no %s on this machine", program)
		}
	}
	manual, err := os.ReadFile("../../docs/mcp.md")
	if err != nil {
		t.Fatal(err)
	}
	script := regexp.MustCompile("(?s)```bash\n(.*?)```").FindSubmatch(manual)
	if script == nil {
		t.Fatal("there is no script")
	}
	d, url, operator := daemon.StartWeb(t, "--compute", "m=openai:"+countingModel(t))
	daemon.Create(t, operator, "alice")
	alice := d.At("/agents/alice")
	alice.Make("secrets", "key", "k-12345")
	alice.Write("config", daemon.ToolConfig(t, filepath.Join(d.Dir, "started")))
	alice.Write("compute/policy", `{"default_provider":"m","default_price":{"input_microusd":1,"output_microusd":1}}`)
	cmd := exec.CommandContext(daemon.Within(t), "bash", "-s", "how much is 40 and 2?")
	cmd.Stdin = strings.NewReader(string(script[1]))
	cmd.Env = append(os.Environ(), "BASE="+url+"/agents/alice", "TOKEN="+daemon.TokenFor(t, operator, "alice"))
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "The sum is 42.\n" {
		t.Errorf("%v, %s", err, out)
	}
}

// countingModel is a server of OpenAI's API whose model cannot add by itself.
func countingModel(t *testing.T) (url string) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			Messages []struct{ Role, Content string }
			Tools    []struct{ Function struct{ Name string } }
			Stream   bool
		}
		b, _ := io.ReadAll(r.Body)
		json.Unmarshal(b, &req)
		if strings.HasSuffix(r.URL.Path, "/models") {
			io.WriteString(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
			return
		}
		message, finish := `{"role":"assistant","content":"I have no tools."}`, "stop"
		last := req.Messages[len(req.Messages)-1]
		var result struct{ StructuredContent struct{ Sum int } }
		switch {
		case last.Role == "tool" && json.Unmarshal([]byte(last.Content), &result) == nil:
			message = fmt.Sprintf(`{"role":"assistant","content":"The sum is %d."}`, result.StructuredContent.Sum)
		case strings.Contains(string(b), `"counter__add"`):
			message, finish = `{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"counter__add","arguments":"{\"a\":40,\"b\":2}"}}]}`, "tool_calls"
		}
		if req.Stream {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","created":7,"model":"m","choices":[{"index":0,"delta":%s,"finish_reason":%q}]}`+"\n\ndata: [DONE]\n\n", message, finish)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"c","object":"chat.completion","created":7,"model":"m","choices":[{"index":0,"message":%s,"finish_reason":%q}],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}`, message, finish)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

const mcpScript = `
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import assert from "node:assert/strict";
const env = process.env;
for (const transport of [
  new StdioClientTransport({ command: env.AGENTCTL, args: ["--addr", env.ADDR, "mcp"], env: { ...env, AGENT9_TOKEN: env.KEY } }),
  new StreamableHTTPClientTransport(new URL(env.BASE), { requestInit: { headers: { Authorization: "Bearer " + env.KEY } } }),
]) {
  const client = new Client({ name: "test", version: "1" });
  await client.connect(transport);
  const use = (name, args) => client.callTool({ name, arguments: args });
  const { tools } = await client.listTools();
  assert.equal(tools.length, 8);
  assert.match((await use("list", { path: "/" })).content[0].text, /README/);
  const job = (await use("call", { path: "/compute/new", request: "hello" })).structuredContent.reply.trim();
  const out = await use("wait", { path: "/compute/jobs/" + job + "/output", to_end: true });
  assert.equal(out.structuredContent.text, "hello");
  assert.equal(out.structuredContent.ended, true);
  const no = await use("write", { path: "/config", text: "{}" });
  assert.equal(no.isError, true);
  assert.equal(no.content[0].text, "forbidden: /config: this is read-only for you");
  const { resources } = await client.listResources();
  assert.ok(resources.some((r) => r.uri === "agent9:///status"));
  assert.match((await client.readResource({ uri: "agent9:///status" })).contents[0].text, /"name":"alice"/);
  await client.close();
}
console.log("all is well");
`

// TestMCPPackage is the official package of npm. It is kept in the user's
// cache directory.
func TestMCPPackage(t *testing.T) {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no %s on this machine", program)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	dir := filepath.Join(cache, "agent9-tests", "mcp-node")
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "@modelcontextprotocol", "sdk", "package.json")); err != nil {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Skip(err)
		}
		install := exec.CommandContext(daemon.Within(t), "npm", "install", "--prefix", dir, "--no-audit", "--no-fund", "@modelcontextprotocol/sdk@1")
		if out, err := install.CombinedOutput(); err != nil {
			t.Skipf("npm cannot install @modelcontextprotocol/sdk: %v\n%s", err, out)
		}
	}
	d, url, operator := daemon.StartWeb(t)
	daemon.Create(t, operator, "alice")
	cmd := exec.CommandContext(daemon.Within(t), "node", "--input-type=module")
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader(mcpScript)
	cmd.Env = append(os.Environ(), "AGENTCTL="+daemon.Agentctl(t), "ADDR=unix:"+d.Sock(), "BASE="+url+"/mcp", "KEY="+daemon.TokenFor(t, operator, "alice"))
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "all is well\n" {
		t.Errorf("%v\n%s", err, out)
	}
}

// Nobody gets in without a token, a token opens what it is for, and what
// waits ends with its client, its token and its daemon.
func TestMCPWho(t *testing.T) {
	d, url, operator := daemon.StartWeb(t)
	daemon.Create(t, operator, "alice", "bob")
	reads := daemon.TokenFor(t, operator, "alice r")
	for path, token := range map[string]string{"/mcp": "", "/agents/alice/mcp": "a9_x", "/agents/bob/mcp": reads, "/agents/nobody/mcp": reads} {
		client := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil)
		if _, err := client.Connect(daemon.Within(t), overHTTP(url+path, token), nil); err == nil {
			t.Errorf("%s let %.6q in", path, token)
		}
	}
	status, bob := daemon.Ask(t, http.DefaultClient, reads, "POST", url+"/agents/bob/mcp", "{}")
	_, nobody := daemon.Ask(t, http.DefaultClient, reads, "POST", url+"/agents/nobody/mcp", "{}")
	if status != 404 || bob != nobody {
		t.Errorf("an agent that is another's: %d %s, one that is nobody's: %s", status, bob, nobody)
	}
	all := connectMCP(t, overHTTP(url+"/mcp", daemon.TokenFor(t, operator, "* r")), "")
	daemon.Has(t, "the operator's", all.use("list", arguments{"path": "/agents"}), "alice/", "bob/")

	r := d.Root()
	waiting := func() int { return r.Metric("agent9_goroutines") }
	for _, protocol := range protocols {
		for name, transport := range map[string]sdk.Transport{
			"stdio": overStdio(t, "unix:"+d.Sock(), "", "alice"), "HTTP": overHTTP(url+"/mcp", daemon.TokenFor(t, operator, "alice")),
		} {
			a := connectMCP(t, transport, protocol)
			a.use("list", arguments{"path": "/"})
			before := waiting()
			ctx, cancel := context.WithCancel(daemon.Within(t))
			// So many that what the server keeps ready does not matter.
			const many, idle = 8, 4
			done := make(chan error, many)
			for range many {
				go func() {
					_, err := a.CallTool(ctx, &sdk.CallToolParams{Name: "wait", Arguments: arguments{"path": "/inbox/next", "to_end": true, "seconds": 300}})
					done <- err
				}()
			}
			daemon.Eventually(t, name+" waits", func() bool { return waiting() > before+idle })
			cancel()
			for range many {
				<-done
			}
			daemon.Eventually(t, name+" "+protocol+": nothing waits for who has gone", func() bool { return waiting() <= before+idle })
			a.Close()
		}
	}

	// A token that is revoked ends what waits.
	token := daemon.TokenFor(t, operator, "alice")
	a := connectMCP(t, overHTTP(url+"/mcp", token), "")
	before := waiting()
	done := make(chan error, 1)
	go func() {
		_, err := a.CallTool(daemon.Within(t), &sdk.CallToolParams{Name: "wait", Arguments: arguments{"path": "/inbox/next", "to_end": true, "seconds": 300}})
		done <- err
	}()
	daemon.Eventually(t, "it waits", func() bool { return waiting() > before })
	for _, id := range strings.Fields(r.List("tokens")) {
		r.Remove("tokens/" + id)
	}
	select {
	case err := <-done:
		if err == nil {
			t.Error("a token that was revoked gave an answer")
		}
	case <-time.After(daemon.Limit):
		t.Error("a token that was revoked lets one wait")
	}
}

// A daemon that comes back is found again.
func TestMCPRestart(t *testing.T) {
	d, _, _ := daemon.OneAgent(t)
	a := connectMCP(t, overStdio(t, "unix:"+d.Sock(), "", "alice"), "")
	a.use("write", arguments{"path": "/goals/g", "text": "stay"})
	d.Kill()
	shown, failed := a.try("read", arguments{"path": "/goals/g"}, nil)
	if strings.Contains(shown, "the connection to the server was lost") { // that is seen now, or was
		shown, failed = a.try("read", arguments{"path": "/goals/g"}, nil)
	}
	if !failed || !strings.Contains(shown, "provider: /goals/g: no daemon there") {
		t.Errorf("without a daemon: %s, failed %v", shown, failed)
	}
	d.Start()
	daemon.Has(t, "after the restart", a.use("read", arguments{"path": "/goals/g"}), "stay")
}
