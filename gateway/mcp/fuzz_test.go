package mcp_test

import (
	"context"
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"

	"agent9/conformance/strict"
	"agent9/fsys"
	"agent9/fsys/export/web"
	"agent9/gateway/mcp"
	"agent9/gateway/openai"
	"agent9/store/files"
	"agent9/store/mem"
)

const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`

// What clients of MCP and of OpenAI's form send has an answer, which is not
// that the server failed.
func FuzzBodies(f *testing.F) {
	for _, s := range []string{
		call + `read","arguments":{"path":"../../x","offset":-1}}}`, call + `write","arguments":{"path":"/goals/a","text":"x","offset":9e99}}}`,
		call + `ls","arguments":{"path":"/","after":"zzz"}}}`, call + `rename","arguments":{"path":"/goals/a","name":".."}}}`,
		call + `wait","arguments":{"path":"/README","seconds":1e-3}}}`, call + `nothing","arguments":[]}}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"agent9:///../x?offset=-1"}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, `[]`, `{}`, `null`, `{"jsonrpc":"2.0","id":{},"method":1}`,
		`{"model":"m","messages":[{"role":"user","content":"x"}],"stream":true}`, `{"input":"x","model":1}`, `{"messages":1,"stream_options":{"include_usage":1}}`,
	} {
		f.Add([]byte(s), byte(0))
		f.Add([]byte(s), byte(1))
		f.Add([]byte(s), byte(2))
	}
	goals, err := files.New(f.Context(), mem.New(), files.Options{})
	if err != nil {
		f.Fatal(err)
	}
	refuse := func(context.Context, []byte) ([]byte, error) { return nil, fsys.E(fsys.Invalid, "not this") }
	root := fsys.NewTable(fsys.Entry{Name: "agents", Node: fsys.NewTable(fsys.Entry{Name: "alice", Node: fsys.NewTable(
		fsys.Entry{Name: "README", Node: fsys.Const("hello\n")},
		fsys.Entry{Name: "goals", Node: goals.Root()},
		fsys.Entry{Name: "compute", Node: fsys.NewTable(fsys.Entry{Name: "new", Node: &fsys.Call{Do: refuse}})},
	)})})
	apps := []func([]string) *web.App{openai.App, mcp.App("test")}
	s := &web.Server{
		Attach: func(context.Context, web.Peer, string) (web.Grant, error) {
			return web.Grant{Root: root, Caller: fsys.Operator}, nil
		},
		App: func(path []string) *web.App {
			for _, app := range apps {
				if a := app(path); a != nil {
					return a
				}
			}
			return nil
		},
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	go s.Serve(l)
	f.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			f.Error(err)
		}
	})
	headers := []string{"Content-Type: application/json", "Accept: application/json, text/event-stream", "Authorization: Bearer x"}
	f.Fuzz(func(t *testing.T, body []byte, where byte) {
		if len(body) > 1<<16 || strings.Contains(string(body), `"wait"`) && len(body) > 200 {
			return // waits as long as it says
		}
		target := []string{"/agents/alice/mcp", "/agents/alice/v1/chat/completions", "/agents/alice/v1/embeddings"}[where%3]
		r, got := strict.HTTP(t, l.Addr().String(), "POST", target, headers, body)
		if r != nil && strings.HasSuffix(r.Header.Get("Content-Type"), "json") && len(got) > 0 && !json.Valid(got) {
			t.Fatalf("%q is answered with %q", body, got)
		}
	})
}
