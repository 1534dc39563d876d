package fsys

import "context"

// AtOnce returns a context that has ended and has the values of ctx: a read of
// a Stream with it gets what is there, or else fails with Canceled.
func AtOnce(ctx context.Context) context.Context { return atOnce{ctx} }

type atOnce struct{ context.Context }

func (atOnce) Done() <-chan struct{} { return closedChan }
func (atOnce) Err() error            { return context.Canceled }

var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
