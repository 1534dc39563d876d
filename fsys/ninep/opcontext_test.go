package ninep

import (
	"context"
	"testing"

	"agent9/fsys"
)

func TestOpContext(t *testing.T) {
	parent := fsys.WithCaller(t.Context(), "alice")
	c := &opContext{Context: parent}
	c.cancel(context.Canceled)
	if !c.end() || c.Err() != nil {
		t.Error("one that nobody has seen is not as new after its request")
	}
	c.cancel(context.DeadlineExceeded)
	c.cancel(context.Canceled)
	await(t, c.Done(), "Done of a context that has ended")
	if c.Err() != context.DeadlineExceeded || context.Cause(c) != context.DeadlineExceeded {
		t.Errorf("ended by %v", c.Err())
	}
	if c.end() {
		t.Error("one whose Done was asked for may be used again")
	}

	c = &opContext{Context: parent}
	if fsys.CallerOf(c) != "alice" || c.end() {
		t.Error("one whose Value was asked for may be used again")
	}

	c = &opContext{Context: parent}
	child, cancel := context.WithCancel(c)
	defer cancel()
	if child.Err() != nil {
		t.Error("a child has ended too early")
	}
	c.end() // what outlives the request sees that it is over
	await(t, child.Done(), "the child to end")
}
