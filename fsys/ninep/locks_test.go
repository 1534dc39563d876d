package ninep

import (
	"context"
	"strings"
	"testing"

	"agent9/fsys"
)

const (
	lockRead  = 0
	lockWrite = 1
)

func TestLocks(t *testing.T) {
	d := newDisk()
	d.add(t, "f", "x")
	_, addr := serveTree(t, d)
	a, b := connect(t, addr, linux, ""), connect(t, addr, linux, "")
	for _, w := range []*wire{a, b} {
		w.walk(0, 1, "f")
		w.fails(message{Type: tlock, Fid: 1, Lock: lockRange{Type: lockWrite}}, fsys.BadHandle) // not open
		w.must(openMessage(linux, 1, fsys.Read|fsys.Write))
	}
	lock := func(w *wire, kind uint8, start, length uint64) uint8 {
		t.Helper()
		return w.must(message{Type: tlock, Fid: 1, Lock: lockRange{kind, start, length, 1, "host"}}).Status
	}
	for i, c := range []struct {
		w             *wire
		kind          uint8
		start, length uint64
		want          uint8
	}{
		{a, lockWrite, 0, 10, lockSuccess},
		{b, lockWrite, 9, 1, lockBlocked},
		{b, lockWrite, 10, 0, lockSuccess}, // to the end
		{a, lockRead, 1 << 40, 1, lockBlocked},
		{a, lockWrite, 5, 5, lockSuccess},  // again, by its owner
		{a, lockUnlock, 3, 4, lockSuccess}, // a hole
		{b, lockRead, 3, 4, lockSuccess},
		{b, lockRead, 2, 2, lockBlocked},
		{b, lockRead, 7, 1, lockBlocked},
		{a, lockRead, 7, 3, lockSuccess}, // a write lock becomes a read lock
		{b, lockRead, 7, 1, lockSuccess},
		{b, lockWrite, 7, 1, lockBlocked},
	} {
		if got := lock(c.w, c.kind, c.start, c.length); got != c.want {
			t.Errorf("step %d: status %d, want %d", i, got, c.want)
		}
	}
	a.fails(message{Type: tlock, Fid: 1, Lock: lockRange{Type: 7}}, fsys.Invalid)
	m := a.must(message{Type: tgetlock, Fid: 1, Lock: lockRange{lockWrite, 20, 5, 1, "host"}})
	if l := m.Lock; l.Type != lockWrite || l.Start != 10 || l.Length != 0 || l.ClientID != "host" {
		t.Errorf("what is in the way: %+v", l)
	}
	if m := b.must(message{Type: tgetlock, Fid: 1, Lock: lockRange{lockWrite, 20, 5, 1, "host"}}); m.Lock.Type != lockUnlock {
		t.Errorf("one's own lock is in the way: %+v", m.Lock)
	}
}

func TestLockThatWaits(t *testing.T) {
	d := newDisk()
	d.add(t, "f", "x")
	s, addr := serveTree(t, d)
	a, b := connect(t, addr, linux, ""), connect(t, addr, linux, "")
	lock := message{Type: tlock, Fid: 1, Flags: lockBlock, Lock: lockRange{lockWrite, 0, 0, 1, "host"}}
	a.open(1, fsys.Read|fsys.Write, "f")
	b.open(1, fsys.Read|fsys.Write, "f")
	a.must(lock)
	tag := b.send(lock)
	b.must(message{Type: tflush, OldTag: tag}) // a wait that is interrupted
	waits := b.send(lock)
	a.clunk(1) // gives up its locks
	if m := b.recv(); m.Tag != waits || m.Type != rlock || m.Status != lockSuccess {
		t.Errorf("got %v, status %d", m.Type, m.Status)
	}
	b.send(lock)
	if m := b.recv(); m.Status != lockSuccess {
		t.Errorf("its owner: %+v", m)
	}
	a.open(1, fsys.Read|fsys.Write, "f")
	waits = a.send(lock)
	b.conn.Close() // gives them up too
	if m := a.recv(); m.Tag != waits || m.Status != lockSuccess {
		t.Errorf("after a hang-up: %v, status %d", m.Type, m.Status)
	}
	a.clunk(1)
	if n := s.Locks.Len(); n > 0 {
		t.Errorf("%d files still have locks", n)
	}
}

// A lock needs a fid that is open for it, and an owner whose name is bounded;
// how many there may be is bounded by what the connection may hold.
func TestLocksThatCannotBe(t *testing.T) {
	d := newDisk()
	d.add(t, "f", "x")
	s, addr := serveTree(t, d, func(s *Server) { s.MaxMsize, s.MaxBytes = 8<<10, 128<<10 })
	c := connect(t, addr, linux, "")
	c.open(1, fsys.Read, "f")
	c.open(2, fsys.Write, "f")
	lock := func(fid uint32, kind uint8, start uint64, owner string) message {
		return message{Type: tlock, Fid: fid, Lock: lockRange{kind, start, 1, 1, owner}}
	}
	c.fails(lock(1, lockWrite, 0, "host"), fsys.BadHandle)
	c.fails(lock(2, lockRead, 0, "host"), fsys.BadHandle)
	c.fails(lock(1, lockRead, 0, strings.Repeat("x", 256)), fsys.Invalid)
	c.must(lock(1, lockRead, 0, "host"))
	c.must(lock(2, lockWrite, 1, "host"))
	taken := 0
	for start := uint64(2); ; start++ {
		c.send(lock(1, lockRead, start, strings.Repeat("x", 255)))
		if m := c.recv(); m.Type != rlock {
			break
		}
		taken++
	}
	if taken < 50 || taken > 300 {
		t.Errorf("%d locks were had of 128 KiB", taken)
	}
	c.must(message{Type: tlock, Fid: 1, Lock: lockRange{lockUnlock, 0, 0, 1, strings.Repeat("x", 255)}})
	c.must(lock(1, lockRead, 1000, strings.Repeat("x", 255)))
	c.clunk(1)
	c.clunk(2)
	if n := s.Locks.Len(); n > 0 {
		t.Errorf("%d files have locks", n)
	}
}

// What gives up a lock is never refused for want of room, whatever waits.
func TestUnlockFindsRoom(t *testing.T) {
	d := newDisk()
	d.add(t, "f", "x")
	_, addr := serveTree(t, d, func(s *Server) { s.MaxMsize, s.MaxBytes = 8<<10, 128<<10 })
	c := connect(t, addr, linux, "")
	c.open(1, fsys.Read|fsys.Write, "f")
	lock := func(kind uint8, owner string) message {
		return message{Type: tlock, Fid: 1, Flags: lockBlock, Lock: lockRange{kind, 0, 0, 1, owner}}
	}
	c.must(lock(lockWrite, "host"))
	const most = 40 // 6 KiB each
	for range most {
		c.send(lock(lockWrite, "waits"))
	}
	refused := 0
	for last := c.send(message{Type: tclunk, Fid: 99}); c.recv().Tag != last; refused++ {
	}
	if refused == 0 || refused == most {
		t.Fatalf("%d of %d are refused", refused, most)
	}
	unlock := c.send(lock(lockUnlock, "host"))
	for {
		m := c.recv()
		if m.Tag == unlock {
			if m.Type != rlock || m.Status != lockSuccess {
				t.Errorf("unlocking: %v, %s", m.Type, m.failure())
			}
			return
		}
	}
}

// The locks of a grant that has ended exclude nobody, at once, and its waiters
// get none.
func TestLocksEndWithTheGrant(t *testing.T) {
	d := newDisk()
	d.add(t, "f", "x")
	over := make(chan struct{})
	s := &Server{Attach: func(_ context.Context, _ Peer, _, aname string) (Grant, error) {
		g := Grant{Root: d, ID: fsys.ID{In: "d"}}
		if aname == "token" {
			g.Done = over
		}
		return g, nil
	}}
	addr := serve(t, s)
	a, b := connect(t, addr, linux, "token"), connect(t, addr, linux, "")
	waits := connect(t, addr, linux, "token")
	for _, w := range []*wire{a, b, waits} {
		w.open(1, fsys.Read|fsys.Write, "f")
	}
	lock := message{Type: tlock, Fid: 1, Lock: lockRange{lockWrite, 0, 0, 1, "host"}}
	if m := a.must(lock); m.Status != lockSuccess {
		t.Fatal(m.Status)
	}
	if m := b.must(lock); m.Status != lockBlocked {
		t.Fatalf("another connection has it too: %d", m.Status)
	}
	blocking := lock
	blocking.Flags = lockBlock
	waits.send(blocking)
	close(over)
	if m := b.must(lock); m.Status != lockSuccess {
		t.Errorf("a revoked lock is in the way: %d", m.Status)
	}
	if m := waits.recv(); m.Type == rlock {
		t.Errorf("who waited with a token that ended has it: %d", m.Status)
	}
	a.fails(lock, fsys.Permission)
}
