package ninep

import (
	"sync"
	"time"

	"agent9/fsys"
	"agent9/fsys/share"
)

// A hello is how long a connection has to say whose it is, that is to attach.
// The time that the server takes to answer does not count.
type hello struct {
	mu    sync.Mutex
	until time.Time
	timer *time.Timer
	asks  int  // attaches under way
	known bool // one was granted, or it is over
}

var errNoHello = fsys.E(fsys.Timeout, "the client did not attach in time")

// greet hangs up at the end of that time.
func (c *conn) greet() {
	h := &c.hello
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer = time.AfterFunc(time.Until(h.until), func() {
		h.mu.Lock()
		late := !h.known && h.asks == 0
		h.mu.Unlock()
		if late {
			c.hangUp(errNoHello)
		}
	})
}

func (c *conn) greeted() {
	c.hello.mu.Lock()
	defer c.hello.mu.Unlock()
	c.hello.known = true
	c.hello.timer.Stop()
}

// asked says that an attach begins or has ended.
func (c *conn) asked(begins bool) {
	h := &c.hello
	h.mu.Lock()
	defer h.mu.Unlock()
	if begins {
		h.asks++
		return
	}
	if h.asks--; h.asks == 0 && !h.known {
		h.timer.Reset(max(0, time.Until(h.until)))
	}
}

// join makes the connection that of who is by, if it is nobody's yet and there
// is room for it.
func (c *conn) join(by string) error {
	h := &c.hello
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known {
		return nil
	}
	if !c.data.Join(by) || !c.in.room.Join(by) {
		return share.ErrFull
	}
	if c.visit != nil && !c.visit.Known(by, by != c.srv.By) {
		return share.ErrManyConns
	}
	h.known = true
	h.timer.Stop()
	return nil
}
