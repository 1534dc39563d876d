package agents

import (
	"agent9/conformance/daemon"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
)

func chatCommand(d *daemon.Daemon, args ...string) *exec.Cmd {
	cmd := daemon.CtlCommand(d.T, "unix:"+d.Sock(), append([]string{"chat"}, args...)...)
	cmd.Env = append(os.Environ(), "AGENT9_TOKEN=")
	return cmd
}

// chats starts agentctl chat with a pipe for its input.
func chats(d *daemon.Daemon, args ...string) *daemon.Chatter {
	d.T.Helper()
	c := &daemon.Chatter{T: d.T, Cmd: chatCommand(d, args...)}
	c.Cmd.Stdout, c.Cmd.Stderr = c, c
	var err error
	if c.In, err = c.Cmd.StdinPipe(); err != nil {
		d.T.Fatal(err)
	}
	if err := c.Cmd.Start(); err != nil {
		d.T.Fatal(err)
	}
	return c
}

// Two are in a session, one comes later, the daemon is killed, and both see
// all of it.
func TestChat(t *testing.T) {
	d := daemon.Start(t)
	d.Root().Mkdir("agents", "alice")
	a := chats(d, "alice", "--title", "plans")
	a.Sees("session 1 plans\n")
	a.Says("good morning")
	a.Sees("operator> good morning\ngood morning\n")
	b := chats(d, "alice", "1")
	b.Sees("session 1 plans\n")
	b.Says("hello from b")
	for _, c := range []*daemon.Chatter{a, b} {
		c.Sees("operator> hello from b\nhello from b\n")
	}
	d.Kill()
	for _, c := range []*daemon.Chatter{a, b} {
		c.Sees("the connection was lost; trying again\n")
	}
	d.Start()
	for _, c := range []*daemon.Chatter{a, b} {
		c.Sees("connected again\n")
	}
	a.Says("back again")
	for _, c := range []*daemon.Chatter{a, b} {
		c.Sees("connected again\noperator> back again\nback again\n")
	}
	if strings.Contains(b.Seen(), "morning") {
		t.Errorf("who came later sees what was over: %s", b.Seen())
	}
	b.Says("the last word")
	b.In.Close() // which waits for the answer
	daemon.Equal(t, "status", b.Ends(), 0)
	b.Sees("operator> the last word\nthe last word\n")
	a.Says("/pause")
	a.Sees("[paused by operator]\n")
	a.Says("/nonsense")
	a.Sees("unknown command nonsense")
	a.Says("/end")
	a.Sees("[ended by operator: the session was ended]\n")
	daemon.Equal(t, "status", a.Ends(), 1) // because of the nonsense

	out, ok := daemon.Ctl(t, "unix:"+d.Sock(), "", "chat", "alice", "--list")
	daemon.Equal(t, "list", ok, true)
	daemon.Has(t, "list", out, "SESSION  STATE  PROMPTS  WAITING", "1        ended  4        0", "plans")
	out, ok = daemon.Ctl(t, "unix:"+d.Sock(), "once more", "chat", "alice", "1", "--json")
	daemon.Equal(t, "json", ok, true)
	daemon.Has(t, "json", out, `"role":"user","prompt":5,"author":"operator","text":"once more"`, `"text":"once more","from":`)
	_, ok = daemon.Ctl(t, "unix:"+d.Sock(), "", "chat", "alice", "1", "--all")
	daemon.Equal(t, "all", ok, true)
	_, ok = daemon.Ctl(t, "unix:"+d.Sock(), "", "chat", "alice", "7")
	daemon.Equal(t, "a session that is not there", ok, false)
}

// In a terminal an interrupt cancels the answer, and the next one, or the end
// of the input, leaves.
func TestChatInATerminal(t *testing.T) {
	s, d := daemon.WithSpeaker(t)
	s.Gate = make(chan struct{})
	cmd := chatCommand(d, "alice")
	file, err := pty.Start(cmd)
	if err != nil {
		t.Skipf("no terminal here: %v", err)
	}
	c := &daemon.Chatter{T: t, Cmd: cmd, In: file}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		io.Copy(c, file) // until the terminal is closed
	}()
	t.Cleanup(func() {
		file.Close()
		<-copied
	})
	c.Sees("session 1\r\n> ")
	c.Says("one and two")
	c.Sees("> one and two\r\none ")
	io.WriteString(file, "\x03") // as Ctrl-C does
	c.Sees("[prompt 1: cancelled by operator]\r\n> ")
	c.Says("three and four")
	c.Sees("> three and four\r\nthree ")
	close(s.Gate)
	c.Sees("three and four\r\n> ")
	io.WriteString(file, "\x04") // as Ctrl-D does
	daemon.Equal(t, "status", c.Ends(), 0)
	daemon.Has(t, "status", d.At("/agents/alice").Read("sessions/1/status"), `"state":"idle"`)

	idle := chats(d, "alice", "1")
	idle.Sees("session 1")
	idle.Cmd.Process.Signal(syscall.SIGINT)
	daemon.Equal(t, "status", idle.Ends(), 0)
}
