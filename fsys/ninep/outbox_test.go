package ninep

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"agent9/fsys/share"
)

func putBytes(o *outbox, n int) {
	f := newFrame(n)
	o.put(f)
}

// Reading requests stops while too much is unsent, and goes on after.
func TestOutboxHoldsUpReading(t *testing.T) {
	server, client := net.Pipe()
	o := &outbox{conn: server, timeout: patience, limit: 1000, small: maxSmall, broken: func(error) {}}
	putBytes(o, 400) // which takes a frame of 512
	if err := o.wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	putBytes(o, 1) // which takes as much
	ctx, cancel := context.WithCancel(t.Context())
	go o.flush()
	if _, err := io.ReadFull(client, make([]byte, 1)); err != nil { // it is writing, and goes on only if we read
		t.Fatal(err)
	}
	waited := make(chan error)
	go func() { waited <- o.wait(ctx) }()
	cancel()
	if err := await(t, waited, "the wait to end with its context"); err != context.Canceled {
		t.Errorf("with 1024 bytes unsent: %v", err)
	}
	go func() { waited <- o.wait(t.Context()) }()
	if _, err := io.ReadFull(client, make([]byte, 400)); err != nil {
		t.Fatal(err)
	}
	if err := await(t, waited, "the wait to end when all is sent"); err != nil {
		t.Error(err)
	}
}

// Of small replies, less may wait than of others.
func TestOutboxOfSmallReplies(t *testing.T) {
	const n = 4096
	o := &outbox{limit: 1 << 20, small: 2 * n}
	a, _ := (*share.Pool)(nil).Open("", share.Terms{Limit: 1 << 20})
	for range 10 {
		o.put(tryFrame(a, n))
	}
	small := func() {
		f := tryFrame(a, n)
		f.small = true
		o.put(f)
	}
	small()
	if !o.hasRoom() {
		t.Error("replies with data stop reading as small ones do")
	}
	small()
	if o.hasRoom() {
		t.Error("any number of small replies may wait")
	}
	var all burden
	for _, f := range o.queue {
		all.add(f)
	}
	if o.sent(all, nil); o.unsent != (burden{}) || !o.hasRoom() {
		t.Errorf("%+v is left when all is sent", o.unsent)
	}
}

func TestOutboxGivesUp(t *testing.T) {
	server, _ := net.Pipe()
	broken := make(chan error, 10)
	o := &outbox{conn: server, timeout: 10 * time.Millisecond, limit: 1000, small: maxSmall, broken: func(err error) { broken <- err }}
	putBytes(o, 5000)
	o.flush()
	if err := await(t, broken, "the timeout"); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("broken: %v", err)
	}
	putBytes(o, 5000)
	o.flush()
	if err := o.wait(t.Context()); err == nil || len(broken) > 0 || len(o.queue) > 0 {
		t.Errorf("after that: %v, told %d more times, %d queued", err, len(broken), len(o.queue))
	}
}
