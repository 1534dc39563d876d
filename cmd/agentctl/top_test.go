package main

import (
	"strings"
	"testing"
	"time"

	"agent9/cmd/internal/plain"
)

func TestTopOnce(t *testing.T) {
	c := realDaemon(t)
	c.ok("", "create", "alice", "bob", "carol")
	c.ok("", "stop", "bob")
	c.says(nil, "budget", "alice", "--approval", "100microusd")
	c.ok("agents/alice/compute/jobs/1\n", "ask", "alice", "-d", "--max-cost", "500microusd", "may I?")
	dir := strings.TrimSpace(c.run("run", "carol", "--keep", "-d", "true").out)
	c.says([]string{
		"3 agents: 2 active, 1 stopped   jobs and sandboxes 2   ticks 0   messages 0   waiting for agreement 1\n",
		"held $0.0005",
		"job 1      alice  awaiting-approval", "echo echo\n",
		"session 1  carol  ", "unsafe-host",
		"alice  active   0      1     1     0      $0.00  $0.00  $0.9995\n",
		"bob    stopped  0      0     0     0      $0.00  $0.00  $1.00\n",
	}, "top", "--once")
	var board struct {
		Totals totals
		Work   []work
		Agents []map[string]any
	}
	mustJSON(t, c.says(nil, "top", "--json"), &board)
	if board.Totals.Jobs != 2 || board.Totals.Held != 500 || len(board.Work) != 2 || len(board.Agents) != 3 || board.Agents[0]["pubkey"] == "" {
		t.Errorf("top --json: %+v", board)
	}
	own := console{t: t, addr: c.addr, env: strings.TrimSpace(c.says(nil, "token", "alice"))}
	own.says([]string{"1 agent: 1 active", "job 1  alice  awaiting-approval"}, "top", "--once")
	c.in = "kill\n"
	c.says(nil, "put", dir+"/ctl")
}

func TestSince(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, row := range []struct {
		w    work
		want string
	}{
		{work{Since: "2030-01-02T03:03:00.000Z"}, "1m5s"},
		{work{Since: "2030-01-02T03:03:00.000Z", Ended: "2030-01-02T03:03:02.000Z"}, "2s"},
		{work{Since: "2031-01-02T03:03:00.000Z"}, "0s"},
		{work{}, "-"},
	} {
		if got := lasted(&row.w, now); got != row.want {
			t.Errorf("lasted(%+v) = %s, want %s", row.w, got, row.want)
		}
	}
}

// What others wrote does not reach the terminal as a command to it.
func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"plain ü 日本": "plain ü 日本", "a\x1b[2Jb": "a [2Jb", "a\nb\tc": "a b c", "\u009b31m": " 31m", "x\u202ey": "x y",
	} {
		if got := plain.Line(text); got != want {
			t.Errorf("plain.Line(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestKeys(t *testing.T) {
	var got []key
	for b := []byte("q\x1b[Aj\x1b[5~x\x1b[1;5C"); len(b) > 0; {
		k, n := keyIn(b)
		got, b = append(got, k), b[n:]
	}
	want := []key{keyQuit, keyUp, keyDown, keyPageUp, keyOther, keyOther}
	if len(got) != len(want) {
		t.Fatalf("keys: %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("key %d is %v, want %v", i, got[i], want[i])
		}
	}
}
