package daemon

import (
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// A chatter is agentctl chat as a process.
type Chatter struct {
	T   *testing.T
	Cmd *exec.Cmd
	In  io.WriteCloser

	mu   sync.Mutex
	text strings.Builder // both outputs
}

func (c *Chatter) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.Write(p)
}

func (c *Chatter) Seen() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

// Sees waits until the words are on the screen.
func (c *Chatter) Sees(words string) {
	c.T.Helper()
	defer func() {
		if c.T.Failed() {
			c.T.Logf("the screen shows:\n%s", c.Seen())
		}
	}()
	Eventually(c.T, "the screen shows "+words, func() bool { return strings.Contains(c.Seen(), words) })
}

func (c *Chatter) Says(line string) {
	c.T.Helper()
	if _, err := io.WriteString(c.In, line+"\n"); err != nil {
		c.T.Fatal(err)
	}
}

// Ends waits for the process and returns its exit status.
func (c *Chatter) Ends() int {
	c.T.Helper()
	c.Cmd.Wait()
	return c.Cmd.ProcessState.ExitCode()
}
