package mcp_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agent9/fsys"
	"agent9/fsys/export/web"
	"agent9/gateway/mcp"
	"agent9/store/files"
	"agent9/store/mem"
)

// patience is how long anything may take that should be quick.
const patience = 20 * time.Second

// An office is a tree with one of each kind of file.
type office struct {
	root    fsys.Node
	goals   fsys.Node
	log     *fsys.Memory
	tape    *fsys.Tape
	entered chan struct{} // a call of /slow has begun
	left    chan error    // and why it ended
}

func newOffice(t *testing.T) *office {
	t.Helper()
	stored, err := files.New(t.Context(), mem.New(), files.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := &office{goals: stored.Root(), log: new(fsys.Memory), entered: make(chan struct{}, 10), left: make(chan error, 10)}
	o.tape = fsys.NewTape(o.log)
	o.log.Append([]byte("one\n"))
	ended := new(fsys.Memory)
	ended.Append([]byte("all of it"))
	whole := fsys.NewTape(ended)
	whole.End()
	o.root = fsys.NewTable(
		fsys.Entry{Name: "README", Node: fsys.Const("hello\n")},
		fsys.Entry{Name: "bytes", Node: fsys.Const("\xff\x00\x01")},
		fsys.Entry{Name: "big", Node: fsys.Const(strings.Repeat("0123456789abcdeü", 100_000))}, // 17 bytes each
		fsys.Entry{Name: "ctl", Node: &fsys.Ctl{
			Do: func(_ context.Context, words []string) ([]byte, error) {
				if words[0] != "go" {
					return nil, fsys.E(fsys.Invalid, "the only command is go")
				}
				return nil, nil
			},
			Text: func(context.Context) ([]byte, error) { return []byte("go\n"), nil },
		}},
		fsys.Entry{Name: "echo", Node: &fsys.Call{Do: func(_ context.Context, req []byte) ([]byte, error) {
			if strings.Contains(string(req), "refuse") {
				return nil, fsys.E(fsys.Exhausted, "no money")
			}
			return req, nil
		}}},
		fsys.Entry{Name: "goals", Node: o.goals},
		fsys.Entry{Name: "log", Node: o.tape},
		fsys.Entry{Name: "slow", Node: &fsys.Call{Do: func(ctx context.Context, _ []byte) ([]byte, error) {
			o.entered <- struct{}{}
			<-ctx.Done()
			o.left <- context.Cause(ctx)
			return nil, context.Cause(ctx)
		}}},
		fsys.Entry{Name: "strings", Node: fsys.Const(strings.Repeat("x", 4<<20))},
		fsys.Entry{Name: "whole", Node: whole},
	)
	return o
}

func (o *office) grow(text string) {
	o.log.Append([]byte(text))
	o.tape.Grown()
}

// ways are how a client of the official SDK comes to a tree.
var ways = map[string]func(t *testing.T, root fsys.Node) sdk.Transport{
	"in memory": func(t *testing.T, root fsys.Node) sdk.Transport {
		near, far := sdk.NewInMemoryTransports()
		served, err := mcp.NewServer(t.Context(), mcp.Fixed(root), "1").Connect(t.Context(), far, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { served.Close() })
		return near
	},
	"HTTP": func(t *testing.T, root fsys.Node) sdk.Transport {
		s := &web.Server{
			Attach: func(context.Context, web.Peer, string) (web.Grant, error) { return web.Grant{Root: root}, nil },
			App:    mcp.App("1"),
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		way := &http.Transport{}
		t.Cleanup(func() {
			way.CloseIdleConnections()
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if err := s.Shutdown(ctx); err != nil {
				t.Error(err)
			}
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
		return &sdk.StreamableClientTransport{Endpoint: "http://" + l.Addr().String() + "/mcp", HTTPClient: &http.Client{Transport: way}}
	},
}

// A client is one of the official SDK.
type client struct {
	*testing.T
	*sdk.ClientSession
	updated chan string // URIs
}

func connect(t *testing.T, way sdk.Transport) *client { return connectBy(t, way, "") }

// connectBy speaks a version of the protocol; the newest, if it is empty.
func connectBy(t *testing.T, way sdk.Transport, protocol string) *client {
	t.Helper()
	c := &client{T: t, updated: make(chan string, 100)}
	made := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, req *sdk.ResourceUpdatedNotificationRequest) { c.updated <- req.Params.URI },
	})
	var err error
	if c.ClientSession, err = made.Connect(t.Context(), way, &sdk.ClientSessionOptions{ProtocolVersion: protocol}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func eachWay(t *testing.T, test func(t *testing.T, o *office, c *client)) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			o := newOffice(t)
			test(t, o, connect(t, way(t, o.root)))
		})
	}
}

type args map[string]any

// use calls a tool and returns what a model sees, and what programs get.
func (c *client) use(ctx context.Context, tool string, a args) (shown []string, got map[string]any, failed bool) {
	c.Helper()
	res, err := c.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: a})
	if err != nil {
		c.Fatalf("%s %v: %v", tool, a, err)
	}
	for _, content := range res.Content {
		shown = append(shown, content.(*sdk.TextContent).Text)
	}
	got, _ = res.StructuredContent.(map[string]any)
	return shown, got, res.IsError
}

func TestTools(t *testing.T) {
	long := strings.Repeat("y", 256)
	eachWay(t, func(t *testing.T, o *office, c *client) {
		for _, step := range []struct {
			tool string
			args args
			want string // what programs get, or of a failure what is shown
		}{
			{"list", args{"path": "/goals"}, `{"entries":[],"path":"/goals"}`},
			{"list", args{"path": "README"}, `{"entries":[{"kind":"file","name":"README","size":6}],"path":"/README"}`},
			{"list", args{"path": "/nothing"}, "not-found: /nothing: No such file or directory"},
			{"list", args{"path": "/", "after": "strings"}, `{"entries":[{"kind":"stream","name":"whole","size":9}],"path":"/"}`},
			{"list", args{"path": "/", "after": "gone"}, "not-found: /: entry gone no longer exists; list from the beginning"},
			{"read", args{"path": "/README"}, `{"encoding":"utf-8","ended":true,"kind":"file","more":false,"next_offset":6,"offset":0,"path":"/README","text":"hello\n"}`},
			{"read", args{"path": "/README", "offset": 2, "max_bytes": 4}, `{"encoding":"utf-8","ended":true,"kind":"file","more":false,"next_offset":6,"offset":2,"path":"/README","text":"llo\n"}`},
			{"read", args{"path": "/README", "offset": 99}, `{"encoding":"utf-8","ended":true,"kind":"file","more":false,"next_offset":99,"offset":99,"path":"/README","text":""}`},
			{"read", args{"path": "/bytes"}, `{"encoding":"base64","ended":true,"kind":"file","more":false,"next_offset":3,"offset":0,"path":"/bytes","text":"/wAB"}`},
			{"read", args{"path": "/ctl"}, `{"encoding":"utf-8","ended":true,"kind":"message","more":false,"next_offset":3,"offset":0,"path":"/ctl","text":"go\n"}`},
			{"read", args{"path": "/whole"}, `{"encoding":"utf-8","ended":true,"kind":"stream","more":false,"next_offset":9,"offset":0,"path":"/whole","text":"all of it"}`},
			{"read", args{"path": "/whole", "offset": 9}, `{"encoding":"utf-8","ended":true,"kind":"stream","more":false,"next_offset":9,"offset":9,"path":"/whole","text":""}`},
			{"read", args{"path": "/log"}, `{"encoding":"utf-8","ended":false,"kind":"stream","more":false,"next_offset":4,"offset":0,"path":"/log","text":"one\n"}`},
			{"read", args{"path": "/goals"}, "is-directory: /goals: this is a directory: list it"},
			{"read", args{"path": "/echo"}, "busy: /echo: this file answers requests: call it with one"},
			{"read", args{"path": "/README", "offset": -1}, "invalid: /README: offset cannot be negative"},
			{"read", args{"path": "/README", "max_bytes": 1 << 21}, "invalid: /README: max_bytes must be from 1 to 1048576"},
			{"read", args{"path": "/README/x"}, "not-directory: /README/x: Not a directory"},
			{"read", args{"path": "/../../README"}, `{"encoding":"utf-8","ended":true,"kind":"file","more":false,"next_offset":6,"offset":0,"path":"/README","text":"hello\n"}`},
			{"wait", args{"path": "/whole", "to_end": true}, `{"encoding":"utf-8","ended":true,"kind":"stream","more":false,"next_offset":9,"offset":0,"path":"/whole","text":"all of it"}`},
			{"wait", args{"path": "/log", "to_end": false}, `{"encoding":"utf-8","ended":false,"kind":"stream","more":false,"next_offset":4,"offset":0,"path":"/log","text":"one\n"}`},
			{"wait", args{"path": "/log", "to_end": true, "seconds": 0.01}, `{"encoding":"utf-8","ended":false,"kind":"stream","more":false,"next_offset":4,"offset":0,"path":"/log","text":"one\n","timed_out":true}`},
			{"wait", args{"path": "/README", "to_end": true}, "unsupported: /README: only a stream can be waited for, and this is a file: use read"},
			{"wait", args{"path": "/log", "to_end": true, "seconds": 301}, "invalid: /log: seconds must be from 0 to 300"},
			{"write", args{"path": "/goals/tea", "text": "make tea\n"}, `{"bytes":9,"path":"/goals/tea"}`},
			{"write", args{"path": "/goals/tea", "text": "milk\n", "append": true}, `{"bytes":5,"path":"/goals/tea"}`},
			{"read", args{"path": "/goals/tea"}, `{"encoding":"utf-8","ended":true,"kind":"file","more":false,"next_offset":14,"offset":0,"path":"/goals/tea","text":"make tea\nmilk\n"}`},
			{"write", args{"path": "/goals/tea", "base64": "/wAB"}, `{"bytes":3,"path":"/goals/tea"}`},
			{"read", args{"path": "/goals/tea"}, `{"encoding":"base64","ended":true,"kind":"file","more":false,"next_offset":3,"offset":0,"path":"/goals/tea","text":"/wAB"}`},
			{"write", args{"path": "/goals/tea", "base64": "?"}, "invalid: /goals/tea: base64: illegal base64 data at input byte 0"},
			{"write", args{"path": "/goals/tea", "base64": "/wAB", "text": "x"}, "invalid: /goals/tea: give text or base64, not both"},
			{"write", args{"path": "/echo", "text": "x"}, "unsupported: /echo: this is a message file: use call"},
			{"write", args{"path": "/README", "text": "x"}, "forbidden: /README: this file is read-only"},
			{"write", args{"path": "/new", "text": "x"}, "forbidden: /new: files cannot be created in this directory"},
			{"write", args{"path": "/", "text": "x"}, "forbidden: /: the root cannot be created, written, renamed or removed"},
			{"write", args{"path": "/goals/" + long, "text": "x"}, "name-too-long: /goals/" + long + ": File name too long"},
			{"call", args{"path": "/echo", "request": "hi"}, `{"encoding":"utf-8","path":"/echo","reply":"hi"}`},
			{"call", args{"path": "/echo", "request": `{"a":1} {"b":2}`}, "invalid: /echo: there is data after the JSON object, so nothing was done; send one request"},
			{"call", args{"path": "/echo", "request": "refuse"}, "budget: /echo: no money"},
			{"call", args{"path": "/ctl", "request": "\ngo\n"}, `{"encoding":"utf-8","path":"/ctl","reply":""}`},
			{"call", args{"path": "/ctl", "request": "go\ngo\n"}, "invalid: /ctl: these are several commands, and nothing was done; send one at a time"},
			{"call", args{"path": "/ctl", "request": "stop"}, "invalid: /ctl: the only command is go"},
			{"call", args{"path": "/README", "request": "x"}, "unsupported: /README: only a message file can be called, and this is a file"},
			{"call", args{"path": "/echo", "request": ""}, "invalid: /echo: the request is empty"},
			{"call", args{"path": "/slow", "request": "x", "seconds": 0.01}, "timeout: /slow: no reply came in time"},
			{"mkdir", args{"path": "/goals/home"}, `{"path":"/goals/home"}`},
			{"mkdir", args{"path": "/goals/home"}, "exists: /goals/home: File exists"},
			{"mkdir", args{"path": "/home"}, "forbidden: /home: directories cannot be created in this directory"},
			{"rename", args{"path": "/goals/home", "name": "house"}, `{"path":"/goals/home"}`},
			{"rename", args{"path": "/goals/house", "name": "../house"}, "invalid: /goals/house: a name cannot contain / or NUL"},
			{"rename", args{"path": "/goals/nothing", "name": "x"}, "not-found: /goals/nothing: No such file or directory"},
			{"remove", args{"path": "/goals/house"}, `{"path":"/goals/house"}`},
			{"remove", args{"path": "/goals/house"}, "not-found: /goals/house: No such file or directory"},
			{"remove", args{"path": "/README"}, "forbidden: /README: this cannot be removed"},
		} {
			shown, got, failed := c.use(t.Context(), step.tool, step.args)
			text := strings.Join(shown, "\n")
			if !failed {
				b, err := json.Marshal(got)
				if err != nil {
					t.Fatal(err)
				}
				text = string(b)
			}
			if text != step.want {
				t.Errorf("%s %v:\n got %.300s\nwant %.300s", step.tool, step.args, text, step.want)
			}
		}
	})
}

// Names are what they are: nothing in them is a path, a query or markup.
func TestNames(t *testing.T) {
	eachWay(t, func(t *testing.T, o *office, c *client) {
		names := []string{"a b", "50%", "a?offset=1", "a#b", "ünï✓", "%2F", "line\nREADME\tfile\t6", `"quoted"`, "-x", "agent9:x"}
		for _, name := range names {
			if _, _, failed := c.use(t.Context(), "write", args{"path": "/goals/" + name, "text": "in " + name}); failed {
				t.Errorf("%q cannot be written", name)
			}
		}
		shown, got, _ := c.use(t.Context(), "list", args{"path": "/goals"})
		if lines := strings.Count(shown[0], "\n"); lines != len(names) || len(got["entries"].([]any)) != len(names) {
			t.Errorf("%d lines, %d entries, want %d of each:\n%s", lines, len(got["entries"].([]any)), len(names), shown[0])
		}
		list, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "agent9:///goals"})
		if err != nil {
			t.Fatal(err)
		}
		for uri := range strings.Lines(list.Contents[0].Text) {
			uri = strings.TrimSuffix(uri, "\n")
			res, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri})
			if err != nil || !strings.HasPrefix(res.Contents[0].Text, "in ") {
				t.Errorf("%s: %v", uri, err)
				continue
			}
			name := strings.TrimPrefix(res.Contents[0].Text, "in ")
			if _, got, _ := c.use(t.Context(), "read", args{"path": "/goals/" + name}); got["text"] != "in "+name {
				t.Errorf("%q: read %v", name, got)
			}
		}
	})
}

// What is long comes in parts that fit together, no character cut in two.
func TestBig(t *testing.T) {
	eachWay(t, func(t *testing.T, o *office, c *client) {
		want, err := fsys.ReadFile(t.Context(), o.root, "big")
		if err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		offset, parts := 0.0, 0
		for more := true; more; parts++ {
			_, got, failed := c.use(t.Context(), "read", args{"path": "/big", "offset": offset, "max_bytes": 1<<20 - 1})
			if failed || got["encoding"] != "utf-8" {
				t.Fatalf("at %v: %.100v", offset, got)
			}
			all.WriteString(got["text"].(string))
			offset, more = got["next_offset"].(float64), got["more"].(bool)
		}
		if all.String() != string(want) || parts != 2 {
			t.Errorf("%d bytes in %d parts, want %d in 2", all.Len(), parts, len(want))
		}
		_, got, _ := c.use(t.Context(), "call", args{"path": "/echo", "request": strings.Repeat("x", 1<<20)})
		if reply, _ := got["reply"].(string); len(reply) != 1<<20 || got["cut"] == true {
			t.Errorf("a reply of %d bytes", len(reply))
		}
		if shown, _, failed := c.use(t.Context(), "call", args{"path": "/echo", "request": strings.Repeat("x", 1<<20+1)}); !failed || !strings.HasPrefix(shown[0], "too-large: /echo: ") {
			t.Errorf("too long a request: %.100v", shown)
		}
		if _, _, failed := c.use(t.Context(), "write", args{"path": "/goals/big", "text": strings.Repeat("z", 3<<20)}); failed {
			t.Error("3 MiB cannot be written")
		}
		if info, err := fsys.WalkPath(t.Context(), o.goals, "big"); err != nil {
			t.Error(err)
		} else if info, err := info.Stat(t.Context()); err != nil || info.Size != 3<<20 {
			t.Errorf("%v, %v", info, err)
		}
	})
}

// A client that gives up ends what it waited for.
func TestCancel(t *testing.T) {
	eachWay(t, func(t *testing.T, o *office, c *client) {
		ctx, giveUp := context.WithCancel(t.Context())
		called := make(chan error, 1)
		go func() {
			_, err := c.CallTool(ctx, &sdk.CallToolParams{Name: "call", Arguments: args{"path": "/slow", "request": "x"}})
			called <- err
		}()
		receive(t, o.entered, "the request")
		giveUp()
		if err := receive(t, o.left, "the end of the request"); fsys.CodeOf(err) != fsys.Canceled {
			t.Errorf("it ended with %v", err)
		}
		if err := receive(t, called, "the answer"); err == nil {
			t.Error("who gave up got an answer")
		}
		// Others wait on, and get what comes.
		go func() {
			_, got, _ := c.use(t.Context(), "wait", args{"path": "/log", "offset": 4, "to_end": false})
			if got["text"] != "two\n" {
				t.Errorf("waited for %v", got)
			}
			called <- nil
		}()
		o.grow("two\n")
		receive(t, called, "the stream")
	})
}

func receive[T any](t *testing.T, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("%s: nothing after %v", what, patience)
	}
	return v
}

func TestResources(t *testing.T) {
	eachWay(t, func(t *testing.T, o *office, c *client) {
		c.use(t.Context(), "write", args{"path": "/goals/tea", "text": "make tea"})
		list, err := c.ListResources(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var uris []string
		for _, r := range list.Resources {
			uris = append(uris, strings.TrimPrefix(r.URI, "agent9://"))
		}
		if got, want := strings.Join(uris, " "), "/ /README /bytes /big /goals /goals/tea /log /strings /whole"; got != want {
			t.Errorf("resources\n got %s\nwant %s", got, want)
		}
		templates, err := c.ListResourceTemplates(t.Context(), nil)
		if err != nil || len(templates.ResourceTemplates) != 1 || templates.ResourceTemplates[0].URITemplate != "agent9:///{+path}{?offset}" {
			t.Errorf("templates %v, %v", templates, err)
		}
		for _, r := range []struct{ uri, mime, text, blob, failure string }{
			{uri: "agent9:///README", mime: "text/plain", text: "hello\n"},
			{uri: "agent9:///README?offset=4", mime: "text/plain", text: "o\n"},
			{uri: "agent9:///goals/tea", mime: "text/plain", text: "make tea"},
			{uri: "agent9:///bytes", mime: "application/octet-stream", blob: "\xff\x00\x01"},
			{uri: "agent9:///goals", mime: "text/uri-list", text: "agent9:///goals/tea\n"},
			{uri: "agent9:///nothing", failure: "not found"},
			{uri: "agent9:///README?offset=x", failure: "offset must be a number of bytes"},
			{uri: "agent9://host/README", failure: ""},
			{uri: "file:///etc/passwd", failure: ""},
		} {
			res, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: r.uri})
			if r.mime == "" {
				if err == nil || !strings.Contains(strings.ToLower(err.Error()), r.failure) {
					t.Errorf("%s: %v", r.uri, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", r.uri, err)
				continue
			}
			if got := res.Contents[0]; got.MIMEType != r.mime || got.Text != r.text || string(got.Blob) != r.blob {
				t.Errorf("%s: %s %q %q", r.uri, got.MIMEType, got.Text, got.Blob)
			}
		}
		long, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "agent9:///strings"})
		if err != nil || long.Contents[0].Meta["more"] != true || long.Contents[0].Meta["next_offset"] == nil {
			t.Errorf("what is long does not say where to go on: %v", err)
		}
	})
}

// Who subscribes to a stream is told when it has grown, until he no longer is.
// In newer versions of the protocol than this one a client cannot know when
// its subscription has begun.
func TestSubscribe(t *testing.T) {
	o := newOffice(t)
	c := connectBy(t, ways["in memory"](t, o.root), "2025-06-18")
	const uri = "agent9:///log"
	for range 2 {
		if err := c.Subscribe(t.Context(), &sdk.SubscribeParams{URI: uri}); err != nil {
			t.Fatal(err)
		}
		o.grow("more\n")
		if got := receive(t, c.updated, "the news"); got != uri {
			t.Errorf("news of %s", got)
		}
		if err := c.Unsubscribe(t.Context(), &sdk.UnsubscribeParams{URI: uri}); err != nil {
			t.Fatal(err)
		}
		o.grow("unheard of\n")
	}
	for _, bad := range []string{"agent9:///README", "agent9:///nothing", "file:///log"} {
		if err := c.Subscribe(t.Context(), &sdk.SubscribeParams{URI: bad}); err == nil {
			t.Errorf("subscribed to %s", bad)
		}
	}
	select {
	case got := <-c.updated:
		t.Errorf("news of %s after the end", got)
	default:
	}
}

// The end of the server's life ends what its clients wait for.
func TestLife(t *testing.T) {
	o := newOffice(t)
	life, end := context.WithCancelCause(t.Context())
	near, far := sdk.NewInMemoryTransports()
	served, err := mcp.NewServer(life, mcp.Fixed(o.root), "1").Connect(t.Context(), far, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer served.Close()
	c := connect(t, near)
	shown := make(chan []string, 1)
	go func() {
		text, _, _ := c.use(t.Context(), "call", args{"path": "/slow", "request": "x"})
		shown <- text
	}()
	receive(t, o.entered, "the request")
	end(fsys.E(fsys.Unavailable, "the daemon is shutting down"))
	if got := receive(t, shown, "the answer"); len(got) != 1 || got[0] != "provider: /slow: the daemon is shutting down" {
		t.Errorf("got %q", got)
	}
}
