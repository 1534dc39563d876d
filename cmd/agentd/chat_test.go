package main

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/creack/pty"
)

// A chatter is agentctl chat as a process.
type chatter struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser

	mu   sync.Mutex
	text strings.Builder // both outputs
}

func (c *chatter) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.Write(p)
}

func (c *chatter) seen() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

// sees waits until the words are on the screen.
func (c *chatter) sees(words string) {
	c.t.Helper()
	defer func() {
		if c.t.Failed() {
			c.t.Logf("the screen shows:\n%s", c.seen())
		}
	}()
	eventually(c.t, "the screen shows "+words, func() bool { return strings.Contains(c.seen(), words) })
}

func (c *chatter) says(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// ends waits for the process and returns its exit status.
func (c *chatter) ends() int {
	c.t.Helper()
	c.cmd.Wait()
	return c.cmd.ProcessState.ExitCode()
}

func chatCommand(d *daemon, args ...string) *exec.Cmd {
	cmd := ctlCommand(d.t, "unix:"+d.sock(), append([]string{"chat"}, args...)...)
	cmd.Env = append(os.Environ(), "AGENT9_TOKEN=")
	return cmd
}

// chats starts agentctl chat with a pipe for its input.
func (d *daemon) chats(args ...string) *chatter {
	d.t.Helper()
	c := &chatter{t: d.t, cmd: chatCommand(d, args...)}
	c.cmd.Stdout, c.cmd.Stderr = c, c
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		d.t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	return c
}

// Two are in a session, one comes later, the daemon is killed, and both see
// all of it.
func TestChat(t *testing.T) {
	d := startDaemon(t)
	d.root().mkdir("agents", "alice")
	a := d.chats("alice", "--title", "plans")
	a.sees("session 1 plans\n")
	a.says("good morning")
	a.sees("operator> good morning\ngood morning\n")
	b := d.chats("alice", "1")
	b.sees("session 1 plans\n")
	b.says("hello from b")
	for _, c := range []*chatter{a, b} {
		c.sees("operator> hello from b\nhello from b\n")
	}
	d.kill()
	for _, c := range []*chatter{a, b} {
		c.sees("the connection was lost; trying again\n")
	}
	d.start()
	for _, c := range []*chatter{a, b} {
		c.sees("connected again\n")
	}
	a.says("back again")
	for _, c := range []*chatter{a, b} {
		c.sees("connected again\noperator> back again\nback again\n")
	}
	if strings.Contains(b.seen(), "morning") {
		t.Errorf("who came later sees what was over: %s", b.seen())
	}
	b.says("the last word")
	b.in.Close() // which waits for the answer
	equal(t, "status", b.ends(), 0)
	b.sees("operator> the last word\nthe last word\n")
	a.says("/pause")
	a.sees("[paused by operator]\n")
	a.says("/nonsense")
	a.sees("unknown command nonsense")
	a.says("/end")
	a.sees("[ended by operator: the session was ended]\n")
	equal(t, "status", a.ends(), 1) // because of the nonsense

	out, ok := ctl(t, "unix:"+d.sock(), "", "chat", "alice", "--list")
	equal(t, "list", ok, true)
	has(t, "list", out, "SESSION  STATE  PROMPTS  WAITING", "1        ended  4        0", "plans")
	out, ok = ctl(t, "unix:"+d.sock(), "once more", "chat", "alice", "1", "--json")
	equal(t, "json", ok, true)
	has(t, "json", out, `"role":"user","prompt":5,"author":"operator","text":"once more"`, `"text":"once more","from":`)
	_, ok = ctl(t, "unix:"+d.sock(), "", "chat", "alice", "1", "--all")
	equal(t, "all", ok, true)
	_, ok = ctl(t, "unix:"+d.sock(), "", "chat", "alice", "7")
	equal(t, "a session that is not there", ok, false)
}

// In a terminal an interrupt cancels the answer, and the next one, or the end
// of the input, leaves.
func TestChatInATerminal(t *testing.T) {
	s, d := withSpeaker(t)
	s.gate = make(chan struct{})
	cmd := chatCommand(d, "alice")
	file, err := pty.Start(cmd)
	if err != nil {
		t.Skipf("no terminal here: %v", err)
	}
	c := &chatter{t: t, cmd: cmd, in: file}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		io.Copy(c, file) // until the terminal is closed
	}()
	t.Cleanup(func() {
		file.Close()
		<-copied
	})
	c.sees("session 1\r\n> ")
	c.says("one and two")
	c.sees("> one and two\r\none ")
	io.WriteString(file, "\x03") // as Ctrl-C does
	c.sees("[prompt 1: cancelled by operator]\r\n> ")
	c.says("three and four")
	c.sees("> three and four\r\nthree ")
	close(s.gate)
	c.sees("three and four\r\n> ")
	io.WriteString(file, "\x04") // as Ctrl-D does
	equal(t, "status", c.ends(), 0)
	has(t, "status", d.at("/agents/alice").read("sessions/1/status"), `"state":"idle"`)

	idle := d.chats("alice", "1")
	idle.sees("session 1")
	idle.cmd.Process.Signal(syscall.SIGINT)
	equal(t, "status", idle.ends(), 0)
}
