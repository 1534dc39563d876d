package docker

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"

	"agent9/fsys"
)

// conn is the connection to a run's standard input and output. What the box
// says on standard error is kept for the reason of its end.
type conn struct {
	net.Conn // to the engine
	half     types.CloseWriter
	r        *bufio.Reader
	s        *sandbox
	closed   atomic.Bool

	unfollow  context.CancelFunc
	following sync.WaitGroup

	// of the one reader
	header [8]byte
	have   int    // bytes of header
	left   uint32 // bytes of the frame
	said   beginning
}

// The streams of an engine's frames.
const (
	streamOut    = 1
	streamErr    = 2
	streamEngine = 3 // an error of its own
)

// attach connects to a container that is not started yet. The client waits for
// the engine's answer without a context, so this one hangs up when ctx ends.
func (s *sandbox) attach(ctx context.Context) (*conn, error) {
	type answer struct {
		types.HijackedResponse
		err error
	}
	answers := make(chan answer)
	go func() {
		resp, err := s.p.api.ContainerAttach(ctx, s.id, container.AttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
		select {
		case answers <- answer{resp, err}:
		case <-ctx.Done():
			if err == nil {
				resp.Close()
			}
		}
	}()
	select {
	case a := <-answers:
		if a.err != nil {
			return nil, a.err
		}
		half, _ := a.Conn.(types.CloseWriter)
		return &conn{Conn: a.Conn, half: half, r: a.Reader, s: s}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *conn) Read(p []byte) (int, error) {
	for {
		if err := c.frame(); err != nil {
			return 0, c.ended(err)
		}
		switch {
		case c.left == 0:
			c.have = 0
		case c.header[0] == streamOut:
			n, err := c.r.Read(p[:min(len(p), int(c.left))])
			c.left -= uint32(n)
			if n > 0 {
				err = nil // comes again
			}
			if c.left == 0 {
				c.have = 0
			}
			return n, c.ended(err)
		default:
			var b [512]byte
			n, err := c.r.Read(b[:min(len(b), int(c.left))])
			c.left -= uint32(n)
			c.said.write(b[:n])
			if err != nil {
				return 0, c.ended(err)
			}
		}
	}
}

// killed is the exit code of what SIGKILL ended.
const killed = 128 + 9

// frame reads the header of the next frame unless one is being read. A deadline
// may interrupt it anywhere.
func (c *conn) frame() error {
	for c.have < len(c.header) {
		n, err := c.r.Read(c.header[c.have:])
		c.have += n
		if c.have == len(c.header) {
			c.left = binary.BigEndian.Uint32(c.header[4:])
			if c.header[0] > streamEngine {
				return fsys.E(fsys.Unavailable, "the container engine sent a malformed frame")
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	return n, c.ended(err)
}

// CloseWrite ends the box's standard input, and so the box.
func (c *conn) CloseWrite() error {
	if c.half == nil {
		return fsys.E(fsys.Unsupported, "this connection to the container engine cannot be half-closed")
	}
	return c.half.CloseWrite()
}

// follow begins to measure the run.
func (c *conn) follow() {
	ctx, cancel := context.WithCancel(context.Background())
	c.unfollow = cancel
	c.following.Go(func() { c.s.follow(ctx) })
}

// Close ends the run.
func (c *conn) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	err := c.Conn.Close()
	if c.unfollow != nil {
		c.unfollow()
		c.following.Wait()
	}
	return err
}

// ended says why a connection ended that nobody here closed; io.EOF if the box
// did so in order.
func (c *conn) ended(err error) error {
	var timeout net.Error
	if err == nil || c.closed.Load() || errors.As(err, &timeout) && timeout.Timeout() {
		return err
	}
	ctx, done := context.WithTimeout(context.Background(), lastLook)
	defer done()
	if err := c.s.wait(ctx, container.WaitConditionNotRunning); err != nil {
		return fsys.Wrap(fsys.Unavailable, "the connection to the sandbox broke", c.s.p.fail("the container engine", err))
	}
	state, lost := c.s.state(ctx)
	switch {
	case lost != nil:
		return lost
	case state.ExitCode == 0 && err == io.EOF:
		return io.EOF
	}
	why := fmt.Sprintf("the sandbox ended with exit code %d", state.ExitCode)
	if kills, _ := c.s.oomKills(ctx, newSpan(state)); kills > 0 && state.ExitCode == killed {
		why = "the sandbox ran out of memory"
	}
	if said := strings.TrimSpace(string(c.said.b)); said != "" {
		why += ": " + said
	}
	return fsys.E(fsys.Unavailable, why)
}

// beginning keeps the first of what is written: of a program that comes to a
// bad end, that says most.
type beginning struct{ b []byte }

const maxBeginning = 1024

func (s *beginning) write(p []byte) { s.b = append(s.b, p[:min(len(p), maxBeginning-len(s.b))]...) }

var (
	_ net.Conn          = (*conn)(nil)
	_ types.CloseWriter = (*conn)(nil)
)
