package http

import (
	"agent9/conformance/daemon"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// protocols are a version with the handshake that most clients have, and the
// newest one, which has none.
var protocols = []string{"2025-06-18", "2026-07-28"}

// An assistant is a client of the official SDK.
type assistant struct {
	*testing.T
	*sdk.ClientSession
	updated chan string // URIs
	brief   bool        // nothing lasts from one request to the next
}

func connectMCP(t *testing.T, transport sdk.Transport, protocol string) *assistant {
	t.Helper()
	a := &assistant{T: t, updated: make(chan string, 100)}
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, req *sdk.ResourceUpdatedNotificationRequest) { a.updated <- req.Params.URI },
	})
	var err error
	if a.ClientSession, err = client.Connect(daemon.Within(t), transport, &sdk.ClientSessionOptions{ProtocolVersion: protocol}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

// overStdio is what a coding assistant starts.
func overStdio(t *testing.T, address, token string, args ...string) sdk.Transport {
	cmd := exec.Command(daemon.Agentctl(t), append([]string{"--addr", address, "mcp"}, args...)...)
	cmd.Env = append(cmd.Environ(), "AGENT9_TOKEN="+token)
	return &sdk.CommandTransport{Command: cmd}
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

func overHTTP(url, token string) sdk.Transport {
	return &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer(token)}}
}

type arguments map[string]any

// use calls a tool; what programs get of the answer is in into.
func (a *assistant) try(tool string, args arguments, into *readPart) (shown string, failed bool) {
	a.Helper()
	res, err := a.CallTool(daemon.Within(a.T), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		a.Fatalf("%s %v: %v", tool, args, err)
	}
	for _, c := range res.Content {
		shown += c.(*sdk.TextContent).Text
	}
	if into != nil && !res.IsError {
		b, err := json.Marshal(res.StructuredContent)
		if err == nil {
			*into = readPart{}
			err = json.Unmarshal(b, into)
		}
		if err != nil {
			a.Fatal(err)
		}
	}
	return shown, res.IsError
}

func (a *assistant) use(tool string, args arguments) string {
	a.Helper()
	shown, failed := a.try(tool, args, nil)
	if failed {
		a.Fatalf("%s %v: %s", tool, args, shown)
	}
	return shown
}

func (a *assistant) fails(want, tool string, args arguments) {
	a.Helper()
	shown, failed := a.try(tool, args, nil)
	if !failed || shown != want {
		a.Errorf("%s %v: %q, failed %v, want %q", tool, args, shown, failed, want)
	}
}

type readPart struct {
	Text, Encoding string
	Next           int64 `json:"next_offset"`
	More, Ended    bool
	TimedOut       bool `json:"timed_out"`
}

// TestMCP is a job from the beginning to the end: look around, leave a
// message, ask a model, wait for the answer, read what happened.
func TestMCP(t *testing.T) {
	d, url, operator := daemon.StartWeb(t)
	daemon.Create(t, operator, "alice", "bob")
	token := daemon.TokenFor(t, operator, "alice")
	own := "unix:" + d.Sock()
	for _, protocol := range protocols {
		for name, way := range map[string]struct {
			transport sdk.Transport
			caller    string
		}{
			"stdio, a token": {overStdio(t, own, token), "alice"},
			"stdio, AGENT":   {overStdio(t, own, "", "alice"), "operator"},
			"HTTP":           {overHTTP(url+"/mcp", token), "alice"},
			"HTTP, a path":   {overHTTP(url+"/agents/alice/mcp", token), "alice"},
		} {
			t.Run(protocol+" "+name, func(t *testing.T) {
				a := connectMCP(t, way.transport, protocol)
				a.brief = strings.HasPrefix(name, "HTTP") && protocol == protocols[0]
				wholeJob(a, way.caller)
			})
		}
	}
}

func wholeJob(a *assistant, caller string) {
	t := a.T
	tools, err := a.ListTools(daemon.Within(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
		if len(tool.Description) < 20 || tool.InputSchema == nil || tool.OutputSchema == nil {
			t.Errorf("the tool %s says too little of itself", tool.Name)
		}
	}
	slices.Sort(names)
	daemon.Equal(t, "tools", strings.Join(names, " "), "call list mkdir read remove rename wait write")

	daemon.Has(t, "/", a.use("list", arguments{"path": "/"}), "README\tfile\t", "inbox/\tdirectory\t", "ctl\tmessage\t")
	daemon.Has(t, "README", a.use("read", arguments{"path": "/README"}), "This is the", "this is the end]")

	id := strings.TrimSpace(a.use("call", arguments{"path": "/inbox/new", "request": `{"type":"note","body":"the build is red"}`}))
	daemon.Has(t, "head", a.use("wait", arguments{"path": "/inbox/head", "to_end": true}), `"id":"`+id+`"`)
	daemon.Has(t, "next", a.use("wait", arguments{"path": "/inbox/next", "to_end": true}), `"id":"`+id+`"`, `"from":"`+caller+`"`)
	var part readPart
	a.try("wait", arguments{"path": "/inbox/next", "to_end": true, "seconds": 0.05}, &part)
	if !part.TimedOut || part.Text != "" {
		t.Errorf("an empty inbox: %+v", part)
	}

	var before readPart
	a.try("read", arguments{"path": "/logs/trajectory", "max_bytes": 1 << 20}, &before)
	number := strings.TrimSpace(a.use("call", arguments{"path": "/compute/new", "request": "why is the sky blue? ü"}))
	job := "/compute/jobs/" + number
	a.try("wait", arguments{"path": job + "/output", "to_end": true}, &part)
	daemon.Equal(t, "the answer", part.Text, "why is the sky blue? ü")
	if !part.Ended || part.TimedOut {
		t.Errorf("the end of the answer: %+v", part)
	}
	daemon.Has(t, "result", a.use("wait", arguments{"path": job + "/result", "to_end": true}), `"finish_reason":"stop"`)
	daemon.Has(t, "status", a.use("read", arguments{"path": job + "/status"}), `"state":"done"`)

	// In parts, and where they go on.
	var whole string
	part = readPart{Next: 0, More: true}
	for part.More {
		offset := part.Next
		part = readPart{}
		a.try("read", arguments{"path": job + "/request", "offset": offset, "max_bytes": 7}, &part)
		whole += part.Text
	}
	daemon.Equal(t, "request in parts", whole, a.use("read", arguments{"path": job + "/request"})[:len(whole)])
	if !part.Ended {
		t.Errorf("the end of a file: %+v", part)
	}
	a.try("wait", arguments{"path": "/logs/trajectory", "offset": before.Next, "to_end": false, "max_bytes": 1 << 20}, &part)
	daemon.Has(t, "the log from where it was", part.Text, `"event":"compute.submitted"`, `"job":`+number)

	daemon.Has(t, "write", a.use("write", arguments{"path": "/goals/tea", "text": "make tea\n"}), "9 bytes written")
	a.use("write", arguments{"path": "/goals/tea", "text": "with milk\n", "append": true})
	daemon.Has(t, "goal", a.use("read", arguments{"path": "goals/tea"}), "make tea\nwith milk\n")
	a.use("rename", arguments{"path": "/goals/tea", "name": "drink"})
	a.use("mkdir", arguments{"path": "/goals/home"})
	daemon.Has(t, "goals", a.use("list", arguments{"path": "/goals"}), "drink\tfile\t19\n", "home/\tdirectory\t")
	a.use("remove", arguments{"path": "/goals/home"})
	a.use("remove", arguments{"path": "/goals/drink"})
	a.use("write", arguments{"path": "/goals/raw", "base64": "/wA="})
	a.try("read", arguments{"path": "/goals/raw"}, &part)
	daemon.Equal(t, "bytes", part.Encoding+" "+part.Text, "base64 /wA=")
	a.use("remove", arguments{"path": "/goals/raw"})

	a.fails("not-found: /nothing: No such file or directory", "read", arguments{"path": "/nothing"})
	a.fails("is-directory: /inbox: this is a directory: list it", "read", arguments{"path": "/inbox"})
	a.fails("unsupported: /inbox/new: this is a message file: use call", "write", arguments{"path": "/inbox/new", "text": "x"})
	a.fails("unsupported: /status: only a message file can be called, and this is a file", "call", arguments{"path": "/status", "request": "x"})
	a.fails("invalid: /ctl: the request is empty", "call", arguments{"path": "/ctl", "request": ""})
	a.fails("forbidden: /status: this cannot be removed", "remove", arguments{"path": "/status"})
	if caller == "alice" {
		a.fails("forbidden: /config: this is read-only for you", "write", arguments{"path": "/config", "text": "{}"})
		daemon.Has(t, "errors", a.use("read", arguments{"path": "/logs/errors", "max_bytes": 1 << 20}), `"path":"/config"`, `"by":"alice"`)
	}
	a.resources(job)
}

func (a *assistant) resources(job string) {
	t := a.T
	list, err := a.ListResources(daemon.Within(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	var uris []string
	for _, r := range list.Resources {
		uris = append(uris, r.URI)
	}
	for _, want := range []string{"agent9:///", "agent9:///README", "agent9:///logs/recent", "agent9:///compute/jobs"} {
		if !slices.Contains(uris, want) {
			t.Errorf("the resource %s is not in %v", want, uris)
		}
	}
	if slices.Contains(uris, "agent9:///ctl") {
		t.Error("ctl is a resource")
	}
	templates, err := a.ListResourceTemplates(daemon.Within(t), nil)
	if err != nil || len(templates.ResourceTemplates) != 1 {
		t.Errorf("templates: %v, %v", templates, err)
	}
	get := func(uri string) *sdk.ResourceContents {
		res, err := a.ReadResource(daemon.Within(t), &sdk.ReadResourceParams{URI: uri})
		if err != nil {
			t.Fatal(err)
		}
		return res.Contents[0]
	}
	daemon.Has(t, "a directory", get("agent9:///inbox").Text, "agent9:///inbox/new\n")
	daemon.Has(t, "the top", get("agent9:///").Text, "agent9:///README\n")
	daemon.Equal(t, "output", get("agent9://"+job+"/output?offset=4").Text, "is the sky blue? ü")
	if _, err := a.ReadResource(daemon.Within(t), &sdk.ReadResourceParams{URI: "agent9:///nothing"}); err == nil {
		t.Error("a resource that is not there could be read")
	}
	a.subscribes()
}

func (a *assistant) subscribes() {
	t := a.T
	const uri = "agent9:///logs/trajectory"
	err := a.Subscribe(daemon.Within(t), &sdk.SubscribeParams{URI: uri})
	if a.brief {
		daemon.Has(t, "subscribing without a stream", fmt.Sprint(err), "need protocol 2026-07-28")
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		a.use("call", arguments{"path": "/logs/write", "request": "line " + strconv.Itoa(i)})
		select {
		case got := <-a.updated:
			daemon.Equal(t, "updated", got, uri)
		case <-daemon.Within(t).Done():
			t.Fatal("a stream that has grown was not told of")
		}
	}
	if err := a.Unsubscribe(daemon.Within(t), &sdk.UnsubscribeParams{URI: uri}); err != nil {
		t.Fatal(err)
	}
}
