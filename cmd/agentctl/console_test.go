package main

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"
)

// limit is how long a test waits for what must happen.
const limit = 90 * time.Second

// A console is where agentctl runs in a test.
type console struct {
	t    *testing.T
	addr string
	in   string
	env  string // token
}

type output struct {
	status   int
	out, err string
}

func (c console) run(args ...string) output {
	c.t.Helper()
	var out, errOut bytes.Buffer
	all := append([]string{"agentctl", "--addr", c.addr, "--token", c.env, "--wait", "0s"}, args...)
	status := run(c.t.Context(), all, strings.NewReader(c.in), &out, &errOut)
	return output{status, out.String(), errOut.String()}
}

// want runs agentctl and compares what it says.
func (c console) want(want output, args ...string) {
	c.t.Helper()
	if got := c.run(args...); got != want {
		c.t.Errorf("agentctl %q:\ngot  %+v\nwant %+v", args, got, want)
	}
}

func (c console) ok(out string, args ...string) {
	c.t.Helper()
	c.want(output{0, out, ""}, args...)
}

// fails wants a failure that is told in these words; TestExitStatus knows
// which status is whose.
func (c console) fails(message string, args ...string) {
	c.t.Helper()
	got := c.run(args...)
	if status := got.status; status == 0 || status == exitUsage || status == exitInterrupted {
		c.t.Errorf("agentctl %q: exit status %d, want that of a failure", args, status)
	}
	if want := (output{got.status, "", "agentctl: " + message + "\n"}); got != want {
		c.t.Errorf("agentctl %q:\ngot  %+v\nwant %+v", args, got, want)
	}
}

// A screen shows what was written so far to whoever waits for it.
type screen struct {
	mu    sync.Mutex
	b     []byte
	wrote chan struct{}
}

func newScreen() *screen { return &screen{wrote: make(chan struct{}, 1)} }

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	s.b = append(s.b, p...)
	s.mu.Unlock()
	select {
	case s.wrote <- struct{}{}:
	default:
	}
	return len(p), nil
}

// await waits until the screen shows exactly want.
func (s *screen) await(t *testing.T, want string) {
	t.Helper()
	for end := time.After(limit); ; {
		s.mu.Lock()
		got := string(s.b)
		s.mu.Unlock()
		if got == want {
			return
		}
		select {
		case <-s.wrote:
		case <-end:
			t.Fatalf("the screen shows %q, want %q", got, want)
		}
	}
}

// start runs agentctl until the returned function interrupts it, which
// returns the exit status.
func (c console) start(args ...string) (s *screen, interrupt func() int) {
	ctx, cancel := context.WithCancel(c.t.Context())
	s = newScreen()
	status := make(chan int, 1)
	go func() {
		status <- run(ctx, append([]string{"agentctl", "--addr", c.addr}, args...), strings.NewReader(c.in), s, s)
	}()
	return s, func() int {
		c.t.Helper()
		cancel()
		select {
		case n := <-status:
			return n
		case <-time.After(limit):
			c.t.Fatal("an interrupted command goes on")
			return 0
		}
	}
}
