package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agent9/fsys"
)

// Nobody types anything, and the prompt comes back all the same.
func TestInterruptedInput(t *testing.T) {
	h := newHost(t, "alice")
	c := console{t: t, addr: h.serve()}
	typed, keyboard := io.Pipe()
	defer keyboard.Close()
	ctx, cancel := context.WithCancel(t.Context())
	status := make(chan int, 1)
	go func() {
		status <- run(ctx, []string{"agentctl", "--addr", c.addr, "put", "agents/alice/inbox/new"}, typed, io.Discard, io.Discard)
	}()
	if _, err := keyboard.Write([]byte("hello")); err != nil { // it is waited for
		t.Fatal(err)
	}
	cancel()
	select {
	case n := <-status:
		if n != 130 {
			t.Errorf("exit status %d, want 130", n)
		}
	case <-time.After(limit):
		t.Fatal("an interrupted command goes on")
	}
}

// What comes is shown as it comes, and an interrupt ends the wait and the job.
func TestInterrupt(t *testing.T) {
	h := newHost(t, "alice")
	c := console{t: t, addr: h.serve()}
	s, interrupt := c.start("ask", "alice", "why?")
	h.say("be", false)
	s.await(t, "be")
	h.say("cause", false)
	s.await(t, "because")
	if n := interrupt(); n != 130 {
		t.Errorf("exit status %d, want 130", n)
	}
	if h.mu.Lock(); h.state != "cancelled" {
		t.Errorf("the job is %s, want cancelled", h.state)
	}
	h.mu.Unlock()

	for _, args := range [][]string{
		{"cat", "agents/alice/logs/trajectory"},
		{"logs", "-f", "alice", "--json"},
		{"logs", "alice", "--errors", "-f", "--json"},
	} {
		s, interrupt := c.start(args...)
		h.log("alice", `{"event":"refused"}`)
		s.await(t, strings.Repeat("{\"event\":\"refused\"}\n", len(h.agents["alice"].logged())))
		if n := interrupt(); n != 130 {
			t.Errorf("%q: exit status %d, want 130", args, n)
		}
	}
}

func (a *agent) all(context.Context) ([]byte, error) {
	b := make([]byte, a.log.Size())
	_, err := a.log.ReadAt(b, 0)
	if fsys.IsEOF(err) {
		err = nil
	}
	return b, err
}

func (a *agent) logged() []string {
	b := make([]byte, a.log.Size())
	a.log.ReadAt(b, 0)
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

func TestLogs(t *testing.T) {
	h := newHost(t, "alice")
	c := console{t: t, addr: h.serve()}
	h.log("alice", "one")
	h.log("alice", "two")
	c.ok("recent\n", "logs", "alice")
	c.ok("one\ntwo\n", "logs", "--all", "alice")
	c.ok("one\ntwo\n", "logs", "alice", "--errors")

	var last string
	for i := range 2000 {
		last = fmt.Sprintf("line %d of many", i)
		h.log("alice", last)
	}
	s, interrupt := c.start("logs", "-f", "alice")
	defer interrupt()
	for end := time.After(limit); ; {
		s.mu.Lock()
		shown := string(s.b)
		s.mu.Unlock()
		if strings.HasSuffix(shown, last+"\n") {
			first, _, _ := strings.Cut(shown, "\n")
			if len(shown) > lastEvents || !strings.HasPrefix(first, "line ") || !strings.HasSuffix(first, " of many") {
				t.Errorf("-f begins with %q and shows %d bytes", first, len(shown))
			}
			return
		}
		select {
		case <-s.wrote:
		case <-end:
			t.Fatal("-f does not show the last line")
		}
	}
}

func TestFiles(t *testing.T) {
	h := newHost(t, "alice")
	c := console{t: t, addr: h.serve()}
	const goals = "agents/alice/goals/"
	c.ok("README\nagents\nctl\ntokens\n", "ls")
	c.ok("agents/alice/status\n", "ls", "agents/alice/status")
	c.in = "first\n"
	c.ok("", "put", goals+"one")
	c.in = "second\n"
	c.ok("", "put", "--append", goals+"one", "-")
	c.ok("first\nsecond\n", "cat", goals+"one")
	c.ok("second\n", "cat", "--offset", "6", goals+"one")
	c.in = "short\n"
	c.ok("", "put", "/"+goals+"one")
	c.ok("short\nshort\n", "cat", goals+"one", goals+"one")
	file := filepath.Join(t.TempDir(), "big")
	big := strings.Repeat("0123456789", 300_000)
	if err := os.WriteFile(file, []byte(big), 0o600); err != nil {
		t.Fatal(err)
	}
	c.ok("", "put", goals+"big", file)
	c.ok(big, "cat", goals+"big")
	if got := c.run("ls", "-l", goals); got.status != 0 || !strings.Contains(got.out, " 3000000 ") || !strings.HasPrefix(got.out, "-rw-") {
		t.Errorf("ls -l: %+v", got)
	}
	if got := c.run("ls", "-l", "agents/alice"); !strings.Contains(got.out, "mrw-rw-rw-") || !strings.Contains(got.out, "drwx") {
		t.Errorf("ls -l: %+v", got)
	}
	c.fails("nowhere: No such file or directory", "cat", "nowhere")
	c.want(output{3, "short\n", "agentctl: x: No such file or directory\n"}, "cat", "x", goals+"one")
	c.fails("agents: Is a directory", "cat", "agents")
	c.fails("agents/alice/status: this file is read-only", "put", "agents/alice/status")
	c.fails("agents/new: files cannot be created in this directory", "put", "agents/new")

	c.ok("", "mkdir", goals+"d")
	c.fails(goals+"d: File exists", "mkdir", goals+"d")
	c.ok("", "mkdir", "-p", goals+"d/e/f", goals+"d")
	c.fails(goals+"one/x: Not a directory", "mkdir", goals+"one/x")
	c.fails(goals+"d: Directory not empty", "rm", goals+"d")
	c.ok("", "rm", "-r", goals+"d")
	c.ok("", "rm", goals+"big", goals+"one")
	c.fails(goals+"one: No such file or directory", "rm", goals+"one")
	c.ok("", "rm", "-f", goals+"one")
	c.ok("", "ls", goals)
}

func TestPutMessage(t *testing.T) {
	h := newHost(t, "alice")
	c := console{t: t, addr: h.serve()}
	c.in = "plain text\n"
	c.ok("m1\n", "put", "agents/alice/inbox/new")
	if got := h.seen(&h.sent)[0]; got != "plain text" {
		t.Errorf("sent %q", got)
	}
	c.in = "stop\n"
	c.ok("", "put", "agents/alice/ctl")
	c.in = "dance\n"
	c.fails("agents/alice/ctl: unknown command dance", "put", "agents/alice/ctl")
}
