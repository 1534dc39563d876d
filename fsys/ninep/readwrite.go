package ninep

import (
	"context"
	"time"

	"agent9/fsys"
)

// tailRoom is what a read of a Stream has room for at first: many may wait at
// the end, and what they wait for is small.
const tailRoom = 512 - readHeader

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
	p, err := r.room(n)
	if err != nil {
		return err
	}
	if f.kind != fsys.Message {
		return r.readInto(p)
	}
	if r.att.options.wait > 0 {
		defer r.limitWait()()
	}
	done, err := r.conn.data.More(r.ctx, f.kind, f.handle, 0)
	if err != nil {
		return err
	}
	defer done()
	defer r.s.charge(f)
	return r.readInto(p)
}

// messageRoom is what a read of a Message has room for: many may wait, and ask
// for as much as a reply can hold. A client that wants more reads again.
const messageRoom = 32<<10 - readHeader

// littleRoom is what a read has room for when there is no more. It fits into
// what each connection has for itself.
const littleRoom = 8<<10 - readHeader

// room reserves a reply with room for n bytes of file data, or for less: a part
// is better than an error, and often it is all, for clients ask for as much as
// a reply can hold.
func (r *request) room(n int) ([]byte, error) {
	if r.fid.kind == fsys.Message {
		n = min(n, messageRoom)
	}
	if r.data = tryFrame(r.conn.data, readHeader+n); r.data != nil {
		return r.data.b[readHeader:], nil
	}
	return r.newData(min(n, littleRoom))
}

// readInto reads into p, which newData returned.
func (r *request) readInto(p []byte) error {
	n, err := r.readAt(r.ctx, p, 0)
	if n == 0 && err != nil && !fsys.IsEOF(err) && r.ctx.Err() != context.DeadlineExceeded {
		return err
	}
	r.setData(n)
	return nil
}

// readAt reads into p what is skip bytes behind the offset of r.
func (r *request) readAt(ctx context.Context, p []byte, skip int) (int, error) {
	n, err := fsys.ReadAt(ctx, r.fid.handle, p, int64(r.m.Offset)+int64(skip))
	if n < 0 || n > len(p) {
		return 0, fsys.E(fsys.Internal, "the service read more than was asked for")
	}
	return n, err
}

// readStream reads what is there, and else waits, unless the Tread goes on
// with a read(2) that has got something already.
func (r *request) readStream(n int) error {
	f, m := r.fid, &r.m
	clip := r.s.msize - ioHeader
	reader := r.att.options.reader
	ambiguous := reader == v9fsReader || reader == anyReader && r.s.dialect == linux
	continued := false // one that is parked is none
	if r.parked == nil {
		r.s.mu.Lock()
		continued = f.tail.follows(m.Offset, m.Count, clip, ambiguous)
		f.tail = continuation{} // until it is answered
		r.s.mu.Unlock()
	}
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

// readTail reads up to n bytes of a Stream. It waits for the first of them
// unless there is something to end with: a read(2) that this continues.
func (r *request) readTail(n int, continued bool) error {
	var p []byte
	var err error
	if r.parked != nil {
		p, err = r.unpark(), r.ctx.Err()
	} else {
		p, err = r.newData(min(n, tailRoom))
	}
	if err != nil || n == 0 {
		return err
	}
	if !continued && r.att.options.wait == 0 && r.park() {
		return errParked
	}
	if continued || r.att.options.wait == noWait {
		got, err := r.readAt(fsys.AtOnce(r.ctx), p, 0)
		if got == 0 && err != nil && !fsys.IsEOF(err) && fsys.CodeOf(err) != fsys.Canceled {
			return err
		}
		r.setData(got)
	} else {
		if r.att.options.wait > 0 {
			defer r.limitWait()()
		}
		if err := r.readInto(p); err != nil {
			return err
		}
	}
	if got := len(r.data.b) - readHeader; got == len(p) && n > got {
		r.readMore(n, got)
	}
	return nil
}

// readMore adds to the got bytes of the reply what is there already, up to n.
func (r *request) readMore(n, got int) {
	large := tryFrame(r.conn.data, readHeader+n)
	if large == nil {
		return // what there is will do
	}
	copy(large.b, r.data.b)
	r.data.free()
	r.data = large
	more, _ := r.readAt(fsys.AtOnce(r.ctx), large.b[readHeader+got:], got)
	r.setData(got + more)
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

// write serves Twrite.
func (r *request) write() error {
	m := &r.m
	if m.Offset > 1<<63-1-maxMsize {
		return fsys.E(fsys.Invalid, "an offset out of range")
	}
	done, err := r.conn.data.More(r.ctx, r.fid.kind, r.fid.handle, len(m.Data))
	if err != nil {
		return err
	}
	defer done()
	n, err := fsys.WriteAt(r.ctx, r.fid.handle, m.Data, int64(m.Offset))
	r.s.charge(r.fid)
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
	inOrder := r.orderly || !r.s.ended
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
