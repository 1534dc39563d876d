//go:build linux && !386 && !arm && !mips && !mipsle

package fuse

import (
	"context"
	"testing"
	"time"
)

func isDone(r *request) bool {
	select {
	case <-r.Done():
		return true
	default:
		return false
	}
}

type key struct{}

func TestRequest(t *testing.T) {
	closed := make(chan struct{})
	close(closed)
	mount, unmount := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
	for _, c := range []struct {
		name string
		r    *request
		end  func(*request) // what ends it, if it has not ended by itself
	}{
		{"an interrupt", &request{link: new(link), interrupt: closed}, nil},
		{"a patient one, by its reply", &request{link: new(link), interrupt: closed, patience: time.Hour}, (*request).end},
		{"the reply", &request{link: new(link)}, (*request).end},
		{"the mount", &request{link: new(link), patience: time.Hour}, func(*request) { unmount() }},
	} {
		r := c.r
		r.Context = mount
		if r.Value(key{}) != "value" {
			t.Errorf("%s: the values of the mount are lost", c.name)
		}
		if c.end != nil {
			if r.Err() != nil || isDone(r) {
				t.Errorf("%s: it ends too early: %v", c.name, r.Err())
			}
			c.end(r)
		}
		select {
		case <-r.Done():
		case <-time.After(time.Minute):
			t.Fatalf("%s does not end it", c.name)
		}
		if r.Err() != context.Canceled || context.Cause(r) != context.Canceled {
			t.Errorf("%s: Err %v, Cause %v", c.name, r.Err(), context.Cause(r))
		}
	}
}

// A request that nobody waited on costs no goroutine, and is done all the same.
func TestRequestEndsUnwatched(t *testing.T) {
	r := &request{link: new(link), Context: t.Context(), interrupt: make(chan struct{})}
	r.end()
	if !isDone(r) || r.Err() != context.Canceled {
		t.Errorf("after the reply: %v", r.Err())
	}
}
