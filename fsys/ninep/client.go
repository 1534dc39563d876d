package ninep

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os/user"
	"sync"
	"time"

	"agent9/fsys"
)

// A Client is a connection to a 9P server. Its methods, and those of the
// nodes and handles that come from it, may be called by many goroutines at
// once: requests share the connection, and a reply that waits delays no other.
//
// Cancelling the context of a call makes it return at once; a Tflush follows,
// and what the request did all the same is undone as far as 9P can (a file
// that was opened is clunked). When the connection ends, every call fails
// with fsys.Unavailable.
type Client struct {
	conn    net.Conn
	dialect dialect
	msize   uint32
	life    context.Context // for what outlasts a call; never cancelled
	running sync.WaitGroup  // send and receive
	done    chan struct{}   // closed when the connection has ended

	calls callTable
	out   sendQueue
	held  heldFids
}

// A DialOption says how to connect.
type DialOption func(*dialOptions)

type dialOptions struct {
	version string
	msize   uint32
	tls     *tls.Config
}

// DialVersion asks for "9P2000.L" or "9P2000", and for nothing else. Without
// it 9P2000.L is tried first.
func DialVersion(version string) DialOption {
	return func(o *dialOptions) { o.version = version }
}

// DialMsize sets the largest message in bytes that the client asks for, from
// 4 KiB to 4 MiB; the server may lower it. The default is 1 MiB.
func DialMsize(n uint32) DialOption {
	return func(o *dialOptions) { o.msize = min(max(n, minMsize), maxMsize) }
}

// DialTLS runs 9P inside TLS. Dial checks the server's name if config has no
// ServerName; NewClient leaves that to config.
func DialTLS(config *tls.Config) DialOption {
	return func(o *dialOptions) { o.tls = config }
}

// Dial connects to a server and agrees on a version. network and addr are as
// for net.Dial. ctx bounds the dialling only.
func Dial(ctx context.Context, network, addr string, opts ...DialOption) (*Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, &fsys.Error{Code: fsys.Unavailable, Reason: err.Error(), Err: err}
	}
	host, _, _ := net.SplitHostPort(addr)
	return NewClient(ctx, conn, append(opts, serverName(host))...)
}

func serverName(host string) DialOption {
	return func(o *dialOptions) {
		if o.tls != nil && o.tls.ServerName == "" {
			o.tls = o.tls.Clone()
			o.tls.ServerName = host
		}
	}
}

// NewClient agrees on a version with the server at the other end of conn,
// which is the client's from then on, also if NewClient fails. ctx bounds the
// agreeing only.
func NewClient(ctx context.Context, conn net.Conn, opts ...DialOption) (*Client, error) {
	o := dialOptions{msize: 1 << 20}
	for _, opt := range opts {
		opt(&o)
	}
	c := &Client{conn: conn, life: context.WithoutCancel(ctx), done: make(chan struct{})}
	c.calls.init()
	c.out.init()
	c.held.init(c)
	frames, err := c.agree(ctx, o)
	if err != nil {
		conn.Close()
		return nil, err
	}
	c.running.Go(c.send)
	c.running.Go(func() { c.receive(frames) })
	return c, nil
}

// agree does what comes before the first request: TLS and Tversion.
func (c *Client) agree(ctx context.Context, o dialOptions) (*frameReader, error) {
	conn := c.conn
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if o.tls != nil {
		secure := tls.Client(conn, o.tls)
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, ended(ctx, "TLS", err)
		}
		c.conn = secure
	}
	frames := newFrameReader(c.conn)
	versions := []string{o.version}
	if o.version == "" {
		versions = []string{linux.String(), plan9.String()}
	}
	for _, v := range versions {
		got, err := c.version(frames, v, o.msize)
		if fsys.CodeOf(err) == fsys.Busy {
			return nil, fsys.E(fsys.Busy, "the server has too many connections")
		}
		if err != nil {
			return nil, ended(ctx, "Tversion", err)
		}
		if got != v && (o.version != "" || got != plan9.String()) {
			continue
		}
		if got == linux.String() {
			c.dialect = linux
		}
		if !stop() {
			return nil, context.Cause(ctx)
		}
		return frames, nil
	}
	return nil, fsys.E(fsys.Unsupported, "the server does not speak "+versions[len(versions)-1])
}

// version offers one version and returns the server's answer, "unknown" if
// that was an error.
func (c *Client) version(frames *frameReader, version string, msize uint32) (string, error) {
	b, err := appendMessage(nil, plan9, &message{Type: tversion, Tag: noTag, Msize: msize, Version: version})
	if err != nil {
		return "", err
	}
	if _, err := c.conn.Write(b); err != nil {
		return "", err
	}
	if b, err = frames.next(msize); err != nil {
		return "", err
	}
	var m message
	if t := messageType(b[4]); t == rerror || t == rlerror {
		if err := refusal(b, t); fsys.CodeOf(err) == fsys.Busy {
			return "", err // it would speak this
		}
		return "unknown", nil
	}
	if err := decodeMessage(b, plan9, &m); err != nil {
		return "", err
	}
	if m.Type != rversion || m.Msize > msize || m.Msize < minMsize && m.Version != "unknown" {
		return "", fsys.E(fsys.Unavailable, fmt.Sprintf("an invalid reply to Tversion: %v, msize %d", m.Type, m.Msize))
	}
	c.msize = m.Msize
	return m.Version, nil
}

// refusal returns the error that answers Tversion.
func refusal(b []byte, t messageType) error {
	var m message
	if t == rlerror {
		if err := decodeMessage(b, linux, &m); err != nil {
			return err
		}
		return errorOfErrno(m.Ecode)
	}
	if err := decodeMessage(b, plan9, &m); err != nil {
		return err
	}
	return errorOfText(m.Ename)
}

// ended says why the connection could not be used, which is ctx if that did
// it.
func ended(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &fsys.Error{Code: fsys.Unavailable, Reason: doing + ": " + err.Error(), Err: err}
}

// Version returns the version of 9P that is spoken.
func (c *Client) Version() string { return c.dialect.String() }

// Msize returns the size of the largest message, in bytes.
func (c *Client) Msize() uint32 { return c.msize }

// Done is closed when the connection has ended, by Close or by itself.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err says why the connection ended; nil before Done. An error of the
// connection itself is below it.
func (c *Client) Err() error {
	c.calls.mu.Lock()
	defer c.calls.mu.Unlock()
	return c.calls.err
}

// Attach returns the root of the tree aname as the user uname: what the
// server lets this connection see. With an empty uname it is who runs this
// process.
func (c *Client) Attach(ctx context.Context, uname, aname string) (*Remote, error) {
	if uname == "" {
		uname = "none"
		if u, err := user.Current(); err == nil {
			uname = u.Username
		}
	}
	fid := c.calls.newFid()
	r, err := c.do(ctx, message{Type: tattach, Fid: fid, Afid: noFid, Uname: uname, Aname: aname, NUname: noUID})
	if err != nil {
		return nil, err
	}
	defer r.free()
	root := &Remote{c: c, kind: kindOf(r.Qid.Type)}
	root.adopt(fid)
	return root, nil
}

// Close hangs up. What is open is closed without Sync; calls that wait fail.
// When Close returns, none of the client's goroutines is left.
func (c *Client) Close() error {
	c.end(fsys.E(fsys.Unavailable, "the connection was closed"))
	c.running.Wait()
	return nil
}
