//go:build unix

package mcp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agent9/fsys"
	"agent9/providers/scrub"
	"agent9/providers/tools"
	"agent9/providers/tools/mcp"
	"agent9/providers/tools/toolstest"
)

func TestMain(m *testing.M) {
	toolstest.Main()
	os.Exit(m.Run())
}

const limit = 20 * time.Second

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

func program(env ...string) tools.Spec {
	spec := tools.Spec{Command: []string{os.Args[0]}, Env: map[string]string{toolstest.Var: "yes"}}
	for i := 1; i < len(env); i += 2 {
		spec.Env[env[i-1]] = env[i]
	}
	return spec
}

func open(t *testing.T, spec tools.Spec) tools.Session {
	t.Helper()
	s, err := mcp.New("1", "").Start(within(t), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

func call(t *testing.T, s tools.Session, tool, args string) string {
	t.Helper()
	b, err := s.Call(within(t), tool, json.RawMessage(args))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func refused(t *testing.T, err error, code fsys.Code, reason string) {
	t.Helper()
	if err == nil || fsys.CodeOf(err) != code || !strings.Contains(fsys.ReasonOf(err), reason) {
		t.Errorf("got %v (%v), want %v with %q", err, fsys.CodeOf(err), code, reason)
	}
}

// over serves the tools over HTTP, to who knows the key.
func over(t *testing.T) (url string) {
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return toolstest.New() }, nil)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/away":
			http.Redirect(w, r, "/", http.StatusTemporaryRedirect)
		case r.Header.Get("X-Key") != "k3y":
			http.Error(w, "no key", http.StatusUnauthorized)
		default:
			h.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestCalls(t *testing.T) {
	for name, spec := range map[string]tools.Spec{
		"a program": program(),
		"a URL":     {URL: over(t), Headers: map[string]string{"X-Key": "k3y"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, spec)
			if about := s.About(); about != (tools.About{Name: "test tools", Version: "1.2", Instructions: "Count with me."}) {
				t.Errorf("about: %+v", about)
			}
			list, err := s.List(within(t))
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, tool := range list {
				names = append(names, tool.Name)
			}
			if got := strings.Join(names, " "); got != "add big crash env fail fork schema wait" {
				t.Errorf("tools: %s", got)
			}
			if got := string(list[0].Schema); !strings.Contains(got, `"one number"`) || !strings.Contains(got, `"description":"adds two numbers"`) {
				t.Errorf("schema: %s", got)
			}
			if got := call(t, s, "add", `{"a":2,"b":40}`); !strings.Contains(got, `"structuredContent":{"sum":42}`) {
				t.Errorf("add: %s", got)
			}
			if got := call(t, s, "fail", `{}`); !strings.Contains(got, `it did not work`) || !strings.Contains(got, `"isError":true`) {
				t.Errorf("fail: %s", got)
			}
			_, err = s.Call(within(t), "nothing", json.RawMessage(`{}`))
			refused(t, err, fsys.Invalid, "nothing")
			_, err = s.Call(within(t), "big", json.RawMessage(`{}`))
			refused(t, err, fsys.TooLarge, "1048576")
		})
	}
}

// A call that is cancelled is cancelled in the server too, and a list that has
// changed is read again.
func TestCancel(t *testing.T) {
	s := open(t, program())
	ctx, cancel := context.WithCancelCause(within(t))
	why := fsys.E(fsys.Timeout, "long enough")
	done := make(chan error, 1)
	go func() {
		_, err := s.Call(ctx, "wait", json.RawMessage(`{}`))
		done <- err
	}()
	appears(t, s, "waited")
	cancel(why)
	if err := <-done; err != why {
		t.Errorf("the call that was cancelled: %v", err)
	}
	appears(t, s, "cancelled")
}

// appears waits until the server says that it has a tool.
func appears(t *testing.T, s tools.Session, name string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for ctx := within(t); ; {
		list, err := s.List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range list {
			if tool.Name == name {
				return
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("the tool %s does not appear", name)
		}
	}
}

func TestCrash(t *testing.T) {
	s := open(t, program())
	_, err := s.Call(within(t), "crash", json.RawMessage(`{}`))
	refused(t, err, fsys.Unavailable, "the server ended with status 7: out of luck")
	select {
	case <-s.Done():
		refused(t, s.Err(), fsys.Unavailable, "status 7")
	case <-within(t).Done():
		t.Error("the end was not told")
	}
}

// Neither what a program is given nor what it says of it is told on.
func TestSecrets(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "the daemon's own")
	spec := program("API_KEY", "s3cr3t", toolstest.Var, "broken")
	spec.Hidden = scrub.New([]byte("s3cr3t"))
	_, err := mcp.New("1", "").Start(within(t), spec)
	refused(t, err, fsys.Unavailable, "the server ended with status 3: I will not serve, my key is [secret]")

	env := call(t, open(t, program("API_KEY", "s3cr3t")), "env", `{}`)
	if strings.Contains(env, "the daemon's own") || !strings.Contains(env, "API_KEY=s3cr3t") || !strings.Contains(env, "PATH=") {
		t.Errorf("the environment of a server: %s", env)
	}
	url := over(t)
	for at, want := range map[string]string{url: "Unauthorized", url + "/away": "Redirect"} {
		_, err := mcp.New("1", "").Start(within(t), tools.Spec{URL: at, Headers: map[string]string{"X-Key": "wr0ng-key"}, Hidden: scrub.New([]byte("wr0ng-key"))})
		refused(t, err, fsys.Unavailable, want)
		if strings.Contains(err.Error(), "wr0ng-key") {
			t.Errorf("a secret is in %v", err)
		}
	}
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// gone waits until a process has ended that is not this one's child.
func gone(t *testing.T, pid int) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for ctx := within(t); alive(pid) && !zombie(pid); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("process %d goes on", pid)
		}
	}
}

// zombie reports whether a process has ended and nobody has asked how.
func zombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}

func TestNothingIsLeft(t *testing.T) {
	for _, kind := range []string{"yes", "stubborn"} {
		s := open(t, program(toolstest.Var, kind))
		var res sdk.CallToolResult
		if err := json.Unmarshal([]byte(call(t, s, "fork", `{}`)), &res); err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(res.Content[0].(*sdk.TextContent).Text)
		if err != nil || !alive(pid) {
			t.Fatalf("no child %d: %v", pid, err)
		}
		s.Close(within(t))
		gone(t, pid)
	}
}

// A server that does not answer is given up with its starter, and ended.
func TestSilent(t *testing.T) {
	began := t.TempDir() + "/began"
	ctx, cancel := context.WithTimeoutCause(within(t), time.Second, fsys.E(fsys.Timeout, "too slow"))
	defer cancel()
	_, err := mcp.New("1", "").Start(ctx, program(toolstest.Var, "silent", "AGENT9_TEST_STARTED", began))
	refused(t, err, fsys.Timeout, "too slow")
	b, err := os.ReadFile(began)
	if err != nil {
		t.Skip("it did not even begin in time")
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	gone(t, pid)
}

func TestNoProgram(t *testing.T) {
	_, err := mcp.New("1", "").Start(within(t), tools.Spec{Command: []string{"/no/such/program"}})
	refused(t, err, fsys.Unavailable, "could not be started: ")
}
