package main

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/fsys/ninep"
	"agent9/namespace/budget"
	"agent9/providers/models"
	"agent9/providers/models/echo"
	"agent9/services/host"
	"agent9/services/identity"
	"agent9/store/mem"
)

// daemon serves the real services, on a store in memory.
func daemon(t *testing.T) (addr string) {
	t.Helper()
	ctx := t.Context()
	st := mem.New()
	ring, err := identity.RingFromFile(ctx, st, filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	limit := budget.Micros(1_000_000)
	h, err := host.Open(ctx, host.Options{
		Store: st, Ring: ring, Now: time.Now, Limits: budget.Limits{PerDay: &limit},
		Providers: []*models.Runner{models.NewRunner("echo", echo.New(echo.Config{}))},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close(context.WithoutCancel(t.Context())) })
	return serveOn(t, &ninep.Server{Attach: func(ctx context.Context, _ ninep.Peer, _, aname string) (ninep.Grant, error) {
		if aname == "" {
			return ninep.Grant{Root: h.Root(), Caller: fsys.Operator}, nil
		}
		root, name, done, err := h.Token(ctx, t.Context(), aname)
		return ninep.Grant{Root: root, Caller: fsys.Caller(name), Done: done}, err
	}})
}

// serveOn serves s on a Unix socket until the test ends, and returns its
// address.
func serveOn(t *testing.T, s *ninep.Server) (addr string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error("shutdown:", err)
		}
		if err := <-done; err != nil {
			t.Error("serve:", err)
		}
	})
	return "unix:" + path
}

// The commands understand what the real services write.
func TestDaemon(t *testing.T) {
	c := console{t: t, addr: daemon(t)}
	c.ok("", "create", "alice")
	c.ok("NAME   STATE   INBOX  JOBS  SPENT  LEFT\nalice  active  0      0     $0.00  $1.00\n", "list")
	if got := c.run("status", "alice"); !strings.HasPrefix(got.out, "name        alice\nstate       active\n") || !strings.HasSuffix(got.out, "left        $1.00\n") {
		t.Errorf("status: %+v", got)
	}
	id := strings.TrimSpace(c.run("send", "alice", "--type", "greeting", "good morning").out)
	if got := jsonOf(t, c.run("cat", "agents/alice/inbox/next").out); got["id"] != id || got["body"] != "good morning" ||
		got["type"] != "greeting" || got["from"] != "operator" {
		t.Errorf("the message that was taken: %v, want id %s", got, id)
	}
	c.fails("agents/alice/inbox/"+id+": No such file or directory", "ls", "agents/alice/inbox/"+id)
	c.in = "learn Plan 9\n"
	c.ok("", "put", "agents/alice/goals/first")
	c.ok("learn Plan 9\n", "cat", "agents/alice/goals/first")
	if got := c.run("logs", "alice"); !strings.Contains(got.out, "  inbox.received  id="+id+"  from=operator  type=greeting") {
		t.Errorf("logs: %+v", got)
	}
	c.in = "{\"nonsense\":true}"
	if got := c.run("put", "agents/alice/config"); got.status != 6 || !strings.Contains(got.err, "nonsense") {
		t.Errorf("a config that is refused: %+v, want the reason", got)
	}
	if got := c.run("check"); got.status != 0 {
		t.Errorf("check: %+v", got)
	}

	secret := strings.TrimSpace(c.run("token", "alice", "r", "1h").out)
	if got := c.run("token", "--list", "--json"); !strings.Contains(got.out, `"agent":"alice"`) {
		t.Errorf("token --list: %+v", got)
	}
	own := console{t: t, addr: c.addr, env: secret}
	own.ok("learn Plan 9\n", "cat", "goals/first")
	if got := own.run("send", "hi"); got.status != 5 || !strings.Contains(got.err, "inbox/new: ") {
		t.Errorf("send with a token for reading: %+v", got)
	}
	if got := c.run("delete", "alice"); got.status != 10 || !strings.Contains(got.err, "stop") {
		t.Errorf("delete of an agent that runs: %+v", got)
	}
	c.ok("", "delete", "--stop", "alice")
	c.ok("", "ls", "agents")
	c.ok("", "token", "--list", "--json")
}
