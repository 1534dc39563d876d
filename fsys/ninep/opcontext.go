package ninep

import (
	"context"
	"sync"
)

// An opContext is the context of one request, a child of its attach's. Its
// Done channel is made when somebody asks for it, so a request that nobody
// waits in costs none. The session cancels it: see session.cancel.
type opContext struct {
	context.Context // the attach's, for deadline and values

	mu   sync.Mutex
	done chan struct{}
	err  error
	over func() // is called when it is cancelled, with the session's mu held perhaps
	lent bool   // Done or Value was asked for, perhaps by something that outlives the request
}

// whenOver has f called when c is cancelled, or at once if it has been; nil
// takes that back.
func (c *opContext) whenOver(f func()) {
	c.mu.Lock()
	over := c.err != nil
	c.over = nil
	if !over {
		c.over = f
	}
	c.mu.Unlock()
	if over && f != nil {
		f()
	}
}

func (c *opContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lent = true
	if c.done == nil {
		c.done = make(chan struct{})
		if c.err != nil {
			close(c.done)
		}
	}
	return c.done
}

func (c *opContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *opContext) Value(key any) any {
	c.mu.Lock()
	c.lent = true
	c.mu.Unlock()
	return c.Context.Value(key)
}

// cancel ends c with err, context.Canceled or context.DeadlineExceeded; only
// the first call counts.
func (c *opContext) cancel(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	if c.done != nil {
		close(c.done)
	}
	over := c.over
	c.over = nil
	c.mu.Unlock()
	if over != nil {
		over()
	}
}

// end says that the request is over, and reports whether nothing can hold c
// any longer.
func (c *opContext) end() (free bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.lent {
		c.err, c.done = nil, nil
		return true
	}
	if c.err == nil {
		c.err = context.Canceled
		if c.done != nil {
			close(c.done)
		}
	}
	return false
}
