//go:build unix

package box

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"agent9/fsys"
)

// maxCalls is how many programs may be connected at once; others wait.
const maxCalls = 100

// calls is calls/.
type calls struct {
	socket *net.UnixListener // nil: there is none

	turn fsys.Mutex    // held during accept
	free chan struct{} // one token for every concurrent call

	mu     sync.Mutex
	last   uint64
	byName map[string]*call
}

// listen makes the agent's socket, which everybody in the sandbox may dial.
func listen(path string) (*calls, error) {
	c := &calls{free: make(chan struct{}, maxCalls), byName: map[string]*call{}}
	if path == "" {
		return c, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	c.socket = l
	return c, nil
}

func (c *calls) root() fsys.Node {
	return fsys.NewTableWith(c, fsys.Entry{Name: "new", Node: callsNew{c}})
}

func (c *calls) Walk(_ context.Context, name string) (fsys.Node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if call, ok := c.byName[name]; ok {
		return call.root, nil
	}
	return nil, fsys.NotExist
}

func (c *calls) List(context.Context) ([]fsys.Entry, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var entries []fsys.Entry
	for name, call := range c.byName {
		entries = append(entries, fsys.Entry{Name: name, Node: call.root})
	}
	return entries, nil
}

func (c *calls) close() {
	if c.socket != nil {
		c.socket.Close()
	}
	c.mu.Lock()
	all := c.byName
	c.byName = map[string]*call{}
	c.mu.Unlock()
	for _, call := range all {
		call.conn.Close()
	}
}

// accept waits for a program that dials.
func (c *calls) accept(ctx context.Context) (number string, err error) {
	if c.socket == nil {
		return "", io.EOF
	}
	if err := take(ctx, c.free); err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			<-c.free
		}
	}()
	if err := c.turn.Lock(ctx); err != nil {
		return "", err
	}
	defer c.turn.Unlock()
	var conn *net.UnixConn
	_, err = bounded(ctx, c.socket.SetDeadline, func() (n int, err error) {
		for {
			if conn, err = c.socket.AcceptUnix(); !errors.Is(err, syscall.ECONNABORTED) {
				return 0, err
			}
		}
	})
	switch {
	case err == nil:
		return c.add(conn), nil
	case ctx.Err() != nil:
		return "", err
	case errors.Is(err, net.ErrClosed):
		return "", io.EOF
	}
	return "", fsys.Wrap(fsys.Unavailable, "the agent's socket", err)
}

func (c *calls) add(conn *net.UnixConn) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	number := strconv.FormatUint(c.last, 10)
	c.byName[number] = newCall(c, number, conn)
	return number
}

func (c *calls) forget(number string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.byName[number]; ok {
		delete(c.byName, number)
		<-c.free
	}
}

// callsNew is calls/new.
type callsNew struct{ *calls }

func (callsNew) Stat(context.Context) (fsys.Info, error) {
	return fsys.Info{Kind: fsys.Stream, Perm: 0o444}, nil
}

func (c callsNew) Open(_ context.Context, flag fsys.Flag) (fsys.Handle, error) {
	if flag != fsys.Read {
		return nil, fsys.E(fsys.Permission, "this can only be read")
	}
	return c, nil
}

func (c callsNew) Close() error { return nil }

func (c callsNew) ReadAt(ctx context.Context, p []byte, _ int64) (int, error) {
	const longest = 21
	if len(p) < longest {
		return 0, fsys.E(fsys.Invalid, "there is no room for a number")
	}
	number, err := c.accept(ctx)
	if err != nil {
		return 0, err
	}
	return copy(p, number+"\n"), nil
}
