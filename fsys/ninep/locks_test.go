package ninep

import (
	"testing"

	"agent9/fsys"
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
	a.open(1, fsys.Read, "f")
	b.open(1, fsys.Read, "f")
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
	a.open(1, fsys.Read, "f")
	waits = a.send(lock)
	b.conn.Close() // gives them up too
	if m := a.recv(); m.Tag != waits || m.Status != lockSuccess {
		t.Errorf("after a hang-up: %v, status %d", m.Type, m.Status)
	}
	a.clunk(1)
	s.locks.mu.Lock()
	defer s.locks.mu.Unlock()
	if n := len(s.locks.files); n > 0 {
		t.Errorf("%d files still have locks", n)
	}
}
