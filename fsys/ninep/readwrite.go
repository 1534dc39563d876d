package ninep

import (
	"context"
	"time"

	"agent9/fsys"
)

// tailRoom is how much a read that waits at the end of a Stream gets at most:
// many may wait, and what they wait for is small.
const tailRoom = 4096 - readHeader

// read serves Tread.
func (r *request) read() error {
	f, m := r.fid, &r.m
	if m.Offset > 1<<63-1-maxMsize {
		return fsys.E(fsys.Invalid, "an offset out of range")
	}
	n := int(min(m.Count, r.s.msize-readHeader))
	switch {
	case f.kind == fsys.Directory && r.s.dialect == linux:
		return fsys.IsDir
	case f.kind == fsys.Directory:
		return r.readDir()
	case f.kind == fsys.Stream:
		return r.readStream(n)
	}
	p, err := r.newData(n)
	if err != nil {
		return err
	}
	if f.kind == fsys.Message && r.att.options.wait > 0 {
		defer r.limitWait()()
	}
	return r.readInto(p)
}

// readInto reads into p, which newData returned.
func (r *request) readInto(p []byte) error {
	n, err := fsys.ReadAt(r.ctx, r.fid.handle, p, int64(r.m.Offset))
	if n < 0 || n > len(p) {
		return fsys.E(fsys.Internal, "the service read more than was asked for")
	}
	r.setData(n)
	if n > 0 || err == nil || fsys.IsEOF(err) || r.ctx.Err() == context.DeadlineExceeded {
		return nil
	}
	return err
}

// readStream reads what is there, and else waits, unless the Tread goes on
// with a read(2) that has got something already.
func (r *request) readStream(n int) error {
	f, m := r.fid, &r.m
	clip := r.s.msize - ioHeader
	ambiguous := r.s.dialect == linux && !r.att.options.plain
	r.s.mu.Lock()
	continued := f.tail.follows(m.Offset, m.Count, clip, ambiguous)
	f.tail = continuation{} // until it is answered
	r.s.mu.Unlock()

	if err := r.readTail(n, continued); err != nil {
		return err
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if !r.flushed {
		f.tail.answered(m.Offset, m.Count, uint32(len(r.data.b)-readHeader), continued)
	}
	return nil
}

func (r *request) readTail(n int, continued bool) error {
	p, err := r.newData(n)
	if err != nil {
		return err
	}
	if continued || n > tailRoom {
		got, err := fsys.ReadAt(notNow{r.ctx}, r.fid.handle, p, int64(r.m.Offset))
		switch {
		case got < 0 || got > len(p):
			return fsys.E(fsys.Internal, "the service read more than was asked for")
		case got > 0 || err == nil || fsys.IsEOF(err):
			r.setData(got)
			return nil
		case fsys.CodeOf(err) != fsys.Canceled:
			return err
		case r.ctx.Err() != nil:
			return err
		case continued:
			r.setData(0)
			return nil
		}
		r.data.free()
		r.data = nil
		if p, err = r.newData(tailRoom); err != nil {
			return err
		}
	}
	if r.att.options.wait > 0 {
		defer r.limitWait()()
	}
	return r.readInto(p)
}

// limitWait ends r's context after the longest wait that the attach allows.
// What it returns stops that.
func (r *request) limitWait() (stop func()) {
	ctx := r.ctx
	t := time.AfterFunc(r.att.options.wait, func() { ctx.cancel(context.DeadlineExceeded) })
	return func() {
		if !t.Stop() {
			ctx.Done() // the timer has ctx: it must not be used again
		}
	}
}

// notNow is a context that has ended: a read with it gets what is there.
type notNow struct{ context.Context }

func (notNow) Done() <-chan struct{} { return closedChan }
func (notNow) Err() error            { return context.Canceled }

var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// write serves Twrite.
func (r *request) write() error {
	m := &r.m
	if m.Offset > 1<<63-1-maxMsize {
		return fsys.E(fsys.Invalid, "an offset out of range")
	}
	if r.fid.kind == fsys.Directory {
		return fsys.IsDir
	}
	n, err := fsys.WriteAt(r.ctx, r.fid.handle, m.Data, int64(m.Offset))
	if err != nil {
		return err
	}
	if n < 0 || n > len(m.Data) {
		return fsys.E(fsys.Internal, "the service wrote more than it was given")
	}
	m.Count = uint32(n)
	return nil
}

// clunk serves Tclunk. What was written becomes whole: Sync, then Close, and
// the first error of the two is the answer.
func (r *request) clunk() error {
	if err := r.quiesce(); err != nil {
		return err
	}
	r.s.mu.Lock()
	inOrder := !r.att.revoked && !r.s.ended
	r.s.mu.Unlock()
	return r.s.close(r.ctx, r.fid, inOrder)
}

// quiesce waits until nothing uses the handle of r's fid, which is gone. If
// r is cancelled before, the last user will close the handle, and r must not.
func (r *request) quiesce() error {
	s, f := r.s, r.fid
	s.mu.Lock()
	if len(f.ops) == 0 {
		s.mu.Unlock()
		return nil
	}
	idle := make(chan struct{})
	f.idle = idle
	s.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-r.ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.idle == nil {
		return nil
	}
	f.idle, f.owned = nil, false
	return fsys.Canceled
}
