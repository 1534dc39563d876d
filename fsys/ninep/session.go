package ninep

import (
	"context"
	"strings"
	"sync"
	"time"

	"agent9/fsys"
)

// A session is what lies between two Tversions: fids and tags. It is closed
// by another Tversion or the end of the connection, and what its requests do
// after that is undone and not answered.
type session struct {
	conn    *conn
	dialect dialect
	msize   uint32
	ctx     context.Context
	cancel  context.CancelFunc

	// mu guards what follows, every fid, and the state of every request. No
	// service is called with it held.
	mu       sync.Mutex
	fids     map[uint32]*fid
	tags     map[uint16]*request // that a reply is due for
	flushing int                 // Tflushes among them
	ended    bool
}

func newSession(c *conn, d dialect, msize uint32) *session {
	s := &session{
		conn: c, dialect: d, msize: msize,
		fids: map[uint32]*fid{}, tags: map[uint16]*request{},
	}
	s.ctx, s.cancel = context.WithCancel(c.ctx)
	return s
}

// dialectOf accepts what a client may call a dialect: 9P2000.L with any
// extension of it, and 9P2000 with any other.
func dialectOf(version string) (d dialect, ok bool) {
	base, suffix, dotted := strings.Cut(version, ".")
	if base != "9P2000" {
		return plan9, false
	}
	if dotted && (suffix == "L" || strings.HasPrefix(suffix, "L.")) {
		return linux, true
	}
	return plan9, true
}

// end closes the session and every handle that no request uses; the others
// are closed as their requests end.
func (s *session) end() { s.drop()() }

// cancelAll cancels every request that is under way.
func (s *session) cancelAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.tags {
		r.part()
	}
}

// partingClunk is how long a Tclunk may go on whose client hung up without
// waiting for the answer.
const partingClunk = time.Second

// part cancels r, as nobody waits for it any longer; a Tclunk of what was
// written before, which is an orderly end, in a while. The session's mu is
// held.
func (r *request) part() {
	if r.op != tclunk || r.ctx == nil || r.fid == nil || len(r.fid.ops) > 0 {
		r.cancel()
		return
	}
	r.orderly = true
	ctx := r.ctx // r may be used again
	time.AfterFunc(partingClunk, func() { ctx.cancel(context.Canceled) })
}

// drop closes the session: nothing of it is answered any more. What it
// returns closes the handles, and may take as long as services let it.
func (s *session) drop() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.cancel()
	for _, r := range s.tags {
		r.part()
	}
	var unused []*fid
	for _, f := range s.fids {
		f.gone = true
		if len(f.ops) == 0 && f.state != fidReserved {
			unused = append(unused, f)
		}
	}
	clear(s.fids)
	clear(s.tags)
	return func() {
		for _, f := range unused {
			s.discard(f)
		}
	}
}

// inUse reports whether a reply with this tag is due.
func (s *session) inUse(tag uint16) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tags[tag] != nil
}

// flushGrace is how long the outcome of a flushed request is waited for. A
// service that minds its context ends at once, and if it had something to say
// after all (a read that got data, a write that took effect) the client hears
// it before Rflush. One that does not is left behind.
const flushGrace = 4 * time.Millisecond

// flush takes a Tflush (flush(5)).
func (s *session) flush(r *request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.tags[r.m.OldTag]
	if old == nil {
		s.conn.out.put(r.encode(nil))
		return
	}
	s.tags[r.m.Tag] = r
	s.flushing++
	old.flushes = append(old.flushes, r)
	if old.op == tflush {
		return // answered after it, which is soon
	}
	if old.flushed = true; old.committed {
		return
	}
	old.cancel()
	if s.flushing > s.conn.srv.MaxRequests {
		s.abandon(old)
	} else if len(old.flushes) == 1 {
		time.AfterFunc(flushGrace, func() {
			s.mu.Lock()
			s.abandon(old)
			s.mu.Unlock()
			s.conn.out.flush()
		})
	}
}

// abandon answers the flushes of r now; r will not be answered any more. Not
// if it has been answered, or is just about to.
func (s *session) abandon(r *request) {
	if r.finished || r.committed || r.dropped || s.ended {
		return
	}
	r.dropped = true
	delete(s.tags, r.m.Tag)
	s.answerFlushes(r)
}

// answerFlushes sends Rflush for each Tflush of r, in their order, as r has
// been answered or never will be.
func (s *session) answerFlushes(r *request) {
	for _, fl := range r.flushes {
		delete(s.tags, fl.m.Tag)
		s.flushing--
		s.conn.out.put(fl.encode(nil))
		s.answerFlushes(fl)
	}
	r.flushes = nil
}

// commit makes a change to the fids that r's reply will tell of. It does
// nothing if r is not to be answered any more, and then returns Canceled.
func (s *session) commit(r *request, change func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.dropped || s.ended {
		return fsys.Canceled
	}
	if err := change(); err != nil {
		return err
	}
	r.committed = true
	return nil
}
