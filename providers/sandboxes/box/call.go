//go:build unix

package box

import (
	"context"
	"net"

	"agent9/fsys"
)

// A call is calls/<n>: a program that has dialled the agent's socket.
type call struct {
	calls  *calls
	number string
	conn   *net.UnixConn
	root   *fsys.Table
	reads  fsys.Mutex // held during a read
	writes fsys.Mutex
}

func newCall(calls *calls, number string, conn *net.UnixConn) *call {
	c := &call{calls: calls, number: number, conn: conn}
	c.root = fsys.NewTableWith(hangUp{c}, fsys.Entry{Name: "data", Node: c})
	return c
}

type hangUp struct{ c *call }

func (hangUp) Walk(context.Context, string) (fsys.Node, error) { return nil, fsys.NotExist }
func (hangUp) List(context.Context) ([]fsys.Entry, error)      { return nil, nil }
func (h hangUp) Remove(context.Context) error                  { return h.c.Close() }

func (c *call) Stat(context.Context) (fsys.Info, error) {
	return fsys.Info{Kind: fsys.Stream, Perm: 0o666}, nil
}

// Open is for the one who serves the call: the close of what it returns hangs
// up.
func (c *call) Open(context.Context, fsys.Flag) (fsys.Handle, error) { return c, nil }

func (c *call) Close() error {
	c.calls.forget(c.number)
	c.conn.Close()
	return nil
}

func (c *call) ReadAt(ctx context.Context, p []byte, _ int64) (int, error) {
	if err := c.reads.Lock(ctx); err != nil {
		return 0, err
	}
	defer c.reads.Unlock()
	n, err := bounded(ctx, c.conn.SetReadDeadline, func() (int, error) { return c.conn.Read(p) })
	if n > 0 {
		err = nil
	}
	return n, err
}

func (c *call) WriteAt(ctx context.Context, p []byte, _ int64) (int, error) {
	if err := c.writes.Lock(ctx); err != nil {
		return 0, err
	}
	defer c.writes.Unlock()
	n, err := bounded(ctx, c.conn.SetWriteDeadline, func() (int, error) { return c.conn.Write(p) })
	return n, fsys.Wrap(fsys.Unavailable, "the program", err)
}
