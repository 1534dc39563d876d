package ninep

import (
	"context"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agent9/fsys"
)

// TestEveryTagIsAnsweredOnce sends requests at random, flushes some, uses tags
// again as soon as it may, and checks what may be checked from outside: each
// tag is answered once, by its reply or by the Rflush of a Tflush of it, and
// never after; and every handle is closed once, after its last use.
func TestEveryTagIsAnsweredOnce(t *testing.T) {
	both(t, func(t *testing.T, d dialect) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		root := &chaos{}
		s, addr := serveTree(t, root, func(s *Server) { s.MaxRequests = 40 })
		w := connect(t, addr, d, "")
		c := &chaosClient{wire: w, rnd: rand.New(rand.NewPCG(seed, 1)), due: map[uint16]message{}, settled: sync.NewCond(new(sync.Mutex))}
		go c.receive()
		for range 3000 {
			c.sendOne()
		}
		c.flushAll()
		if c.bad != "" {
			t.Error(c.bad)
		}
		w.conn.Close()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Fatal(err)
		}
		if o, c := root.opened.Load(), root.closed.Load(); o != c || o == 0 || root.misused.Load() > 0 {
			t.Errorf("%d handles opened, %d closed, %d misused", o, c, root.misused.Load())
		}
	})
}

type chaosClient struct {
	*wire
	rnd     *rand.Rand
	settled *sync.Cond // guards what follows; something was answered
	due     map[uint16]message
	ended   bool
	bad     string
}

func (c *chaosClient) receive() {
	for {
		b, err := c.in.next(maxMsize)
		c.settled.L.Lock()
		var m message
		if err == nil {
			err = decodeMessage(b, c.dialect, &m)
		}
		if c.ended = err != nil; c.ended {
			c.settled.Broadcast()
			c.settled.L.Unlock()
			return
		}
		req, ok := c.due[m.Tag]
		switch {
		case !ok:
			c.bad = "an answer to a tag that was not due: " + m.Type.String()
		case m.error() == nil && m.Type != req.Type+1:
			c.bad = req.Type.String() + " was answered by " + m.Type.String()
		}
		delete(c.due, m.Tag)
		if m.Type == rflush {
			delete(c.due, req.OldTag) // if it has not been answered it never will be
		}
		c.settled.Broadcast()
		c.settled.L.Unlock()
	}
}

// sendOne sends a random request on a tag that is free.
func (c *chaosClient) sendOne() {
	c.settled.L.Lock()
	for len(c.due) >= 50 {
		c.settled.Wait()
	}
	m := c.random()
	for m.Tag = uint16(c.rnd.IntN(60)); ; m.Tag = uint16(c.rnd.IntN(60)) {
		if _, used := c.due[m.Tag]; !used && !c.flushing(m.Tag) {
			break
		}
	}
	c.due[m.Tag] = m
	c.settled.L.Unlock()
	c.write(encode(c.t, c.dialect, &m))
}

// flushing reports whether a Tflush of tag is under way, which a new request
// must not run into.
func (c *chaosClient) flushing(tag uint16) bool {
	for _, m := range c.due {
		if m.Type == tflush && m.OldTag == tag {
			return true
		}
	}
	return false
}

func (c *chaosClient) random() message {
	fid, other := uint32(1+c.rnd.IntN(20)), uint32(1+c.rnd.IntN(20))
	names := [][]string{{}, {"file"}, {"dir", "file"}, {"dir", "..", "slow"}, {"nothing"}}
	switch c.rnd.IntN(12) {
	case 0, 1:
		return message{Type: twalk, NewFid: fid, Names: names[c.rnd.IntN(len(names))]}
	case 2, 3:
		return openMessage(c.dialect, fid, fsys.Read|fsys.Write)
	case 4, 5, 6:
		return message{Type: tread, Fid: fid, Offset: uint64(c.rnd.IntN(5)), Count: uint32(c.rnd.IntN(6000))}
	case 7:
		return message{Type: twrite, Fid: fid, Data: make([]byte, c.rnd.IntN(3000))}
	case 8:
		return message{Type: tclunk, Fid: fid}
	case 9:
		return message{Type: twalk, Fid: fid, NewFid: other, Names: names[c.rnd.IntN(2)]}
	}
	for tag := range c.due {
		return message{Type: tflush, OldTag: tag}
	}
	return message{Type: tremove, Fid: fid}
}

func (c *chaosClient) flushAll() {
	c.settled.L.Lock()
	var flushes []message
	next := uint16(1000)
	for tag, m := range c.due {
		if m.Type != tflush {
			next++
			flushes = append(flushes, message{Type: tflush, Tag: next, OldTag: tag})
		}
	}
	for _, m := range flushes {
		c.due[m.Tag] = m
	}
	c.settled.L.Unlock()
	for _, m := range flushes {
		c.write(encode(c.t, c.dialect, &m))
	}
	late := time.AfterFunc(patience, func() { c.conn.Close() })
	defer late.Stop()
	c.settled.L.Lock()
	defer c.settled.L.Unlock()
	for len(c.due) > 0 && !c.ended {
		c.settled.Wait()
	}
	if len(c.due) > 0 {
		c.bad = "not every tag was answered"
	}
}

// chaos is a tree whose every name leads to itself, as a directory or a file.
type chaos struct{ opened, closed, misused atomic.Int64 }

func (c *chaos) Stat(context.Context) (fsys.Info, error) {
	return fsys.Info{Kind: fsys.Directory, Perm: 0o777}, nil
}
func (c *chaos) Open(context.Context, fsys.Flag) (fsys.Handle, error) { return nil, fsys.IsDir }
func (c *chaos) List(context.Context) ([]fsys.Entry, error)           { return nil, nil }
func (c *chaos) Walk(_ context.Context, name string) (fsys.Node, error) {
	switch name {
	case "dir":
		return c, nil
	case "file":
		return chaosFile{c, fsys.File}, nil
	case "slow":
		return chaosFile{c, fsys.Stream}, nil
	}
	return nil, fsys.NotExist
}

type chaosFile struct {
	*chaos
	kind fsys.Kind
}

func (f chaosFile) Stat(context.Context) (fsys.Info, error) {
	return fsys.Info{Kind: f.kind, Perm: 0o666}, nil
}

func (f chaosFile) Open(context.Context, fsys.Flag) (fsys.Handle, error) {
	f.opened.Add(1)
	return &chaosHandle{chaosFile: f}, nil
}

type chaosHandle struct {
	chaosFile
	gone atomic.Bool
}

func (h *chaosHandle) use() {
	if h.gone.Load() {
		h.misused.Add(1)
	}
}

func (h *chaosHandle) ReadAt(ctx context.Context, p []byte, _ int64) (int, error) {
	h.use()
	defer h.use()
	if h.kind == fsys.File {
		return len(p) / 2, nil
	}
	<-ctx.Done()
	return 0, context.Cause(ctx)
}

func (h *chaosHandle) WriteAt(_ context.Context, p []byte, _ int64) (int, error) {
	h.use()
	return len(p), nil
}

func (h *chaosHandle) Sync(context.Context) error {
	h.use()
	return nil
}

func (h *chaosHandle) Close() error {
	h.closed.Add(1)
	if h.gone.Swap(true) {
		h.misused.Add(1)
	}
	return io.EOF // an error of Close goes nowhere but to an Rclunk
}
