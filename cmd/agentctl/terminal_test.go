//go:build unix

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

// A tty is a terminal in which agentctl runs as a process of its own.
type tty struct {
	*screen
	t    *testing.T
	f    *os.File
	cmd  *exec.Cmd
	done chan error
}

// open runs agentctl in a terminal.
func (c console) open(rows, cols uint16, env []string, args ...string) *tty {
	c.t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"--addr", c.addr}, args...)...)
	cmd.Env = append(append(os.Environ(), asProgram+"=1", "TERM=xterm", "AGENT9_TOKEN="), env...)
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: rows, Cols: cols})
	if err != nil {
		c.t.Skip("no terminal here: ", err)
	}
	t := &tty{newScreen(), c.t, f, cmd, make(chan error, 1)}
	go io.Copy(t.screen, f) // ends with the terminal
	go func() { t.done <- cmd.Wait() }()
	c.t.Cleanup(func() {
		cmd.Process.Kill()
		f.Close()
	})
	return t
}

func (t *tty) types(keys string) {
	t.t.Helper()
	if _, err := io.WriteString(t.f, keys); err != nil {
		t.t.Fatal(err)
	}
}

// forget takes away what the screen has shown so far.
func (t *tty) forget() {
	t.mu.Lock()
	t.b = nil
	t.mu.Unlock()
}

func (t *tty) ends(status int) {
	t.t.Helper()
	select {
	case <-t.done:
		if got := t.cmd.ProcessState.ExitCode(); got != status {
			t.t.Errorf("exit status %d, want %d; the screen shows %q", got, status, t.text())
		}
	case <-time.After(limit):
		t.t.Fatalf("it does not end; the screen shows %q", t.text())
	}
}

func TestTop(t *testing.T) {
	c := realDaemon(t)
	for i := range 40 {
		c.ok("", "create", fmt.Sprintf("agent%02d", i))
	}
	top := c.open(24, 100, nil, "top")
	top.awaitPart(t, "\x1b[?1049h", "40 agents: 40 active", "agent00  active", "1-19 of 40", "q quit  s sort: activity")
	if strings.Contains(top.text(), "agent39") {
		t.Error("24 lines show 40 agents")
	}
	top.types("G")
	top.awaitPart(t, "agent39  active", "22-40 of 40")
	top.types("g")
	c.says(nil, "send", "agent33", "hello")
	top.awaitPart(t, "messages 1", "inbox.received")
	top.forget()
	c.says(nil, "budget", "agent07", "--approval", "100microusd")
	c.ok("agents/agent07/compute/jobs/1\n", "ask", "agent07", "-d", "--max-cost", "500microusd", "may I?")
	top.awaitPart(t, "job 1", "awaiting-approval", "waiting for agreement 1", "held $0.0005")
	c.ok("", "approve", "agent07", "1")
	top.awaitPart(t, "done")
	c.ok("", "delete", "--stop", "agent39")
	top.awaitPart(t, "39 agents")
	top.forget()
	top.types("s")
	top.awaitPart(t, "sort: name")
	if err := pty.Setsize(top.f, &pty.Winsize{Rows: 12, Cols: 60}); err != nil {
		t.Fatal(err)
	}
	top.awaitPart(t, "1-7 of 39")
	top.types("q")
	top.ends(0)
	top.awaitPart(t, "\x1b[?25h\x1b[?1049l")
}

func TestTopColours(t *testing.T) {
	c := realDaemon(t)
	c.ok("", "create", "alice")
	top := c.open(24, 100, nil, "top")
	top.awaitPart(t, "\x1b[7m", "alice  active")
	top.types("\x03")
	top.ends(0)
	plain := c.open(24, 100, []string{"NO_COLOR=1"}, "top")
	plain.awaitPart(t, "alice  active", "q quit")
	if got := plain.text(); strings.Contains(got, "m\x1b") || strings.Contains(got, "\x1b[7m") || strings.Contains(got, "\x1b[2m") {
		t.Errorf("with NO_COLOR: %q", got)
	}
	if err := plain.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	plain.ends(exitInterrupted)
	plain.awaitPart(t, "\x1b[?1049l")
}

func TestShellInTerminal(t *testing.T) {
	c := realDaemon(t)
	c.ok("", "create", "alice")
	sh := c.open(30, 90, nil, "shell", "alice", "--", "sh")
	sh.types("PS1=rea'dy> '; stty size; echo $((6*7))\n")
	sh.awaitPart(t, "30 90\r\n", "42\r\n", "ready> ")
	sh.types("sh -c 'echo asl\"\"eep; exec sleep 1000'\n") // it is in the foreground when it says so
	sh.awaitPart(t, "asleep\r\n")
	sh.forget()
	sh.types("\x03")
	sh.awaitPart(t, "ready> ") // an interrupt takes away what was typed before
	sh.types("echo back$((1+1))\n")
	sh.awaitPart(t, "back2")
	if err := pty.Setsize(sh.f, &pty.Winsize{Rows: 20, Cols: 70}); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 100 && !strings.Contains(sh.text(), "20 70"); i++ {
		sh.forget()
		sh.types("stty size; echo asked\n")
		sh.awaitPart(t, "asked\r\n")
	}
	sh.types("exit 5\n")
	sh.ends(5)
}

func TestChatInTerminal(t *testing.T) {
	c := realDaemon(t)
	c.ok("", "create", "alice")
	chat := c.open(24, 80, nil, "chat", "alice")
	chat.types("say this\n")
	chat.awaitPart(t, "say this")
	chat.types("\x04")
	chat.ends(0)
	c.says([]string{"SESSION"}, "chat", "alice", "--list")
}

// Progress is for people only, and leaves nothing behind.
func TestProgress(t *testing.T) {
	var out strings.Builder
	m := &meter{w: &out, width: 40, began: time.Now().Add(-time.Second)}
	m.begin("alice:goals/a\x1b[2J long name that has no room")
	r := m.reader(strings.NewReader(strings.Repeat("x", 5000)))
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Fatal(err)
	}
	m.shown = time.Time{}
	m.show()
	m.done()
	if got := out.String(); !strings.Contains(got, "1 file  5.0 kB  ") || !strings.HasSuffix(got, "\r\x1b[K") || strings.Contains(got, "[2J ") && strings.Contains(got, "\x1b[2J") {
		t.Errorf("progress: %q", got)
	}
	c := realDaemon(t)
	c.ok("", "create", "alice")
	if got := c.run("export", "alice"); got.err != "" {
		t.Errorf("without a terminal: %q", got.err)
	}
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 999949: "999.9 kB", 999999: "1.0 MB", 5e12: "5.0 TB"} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %s, want %s", n, got, want)
		}
	}
}
