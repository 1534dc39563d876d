package ninep

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"agent9/fsys"
)

// A log is a stream that a test makes longer.
type log struct {
	fsys.Memory
	*fsys.Tape
}

func newLog() *log {
	l := new(log)
	l.Tape = fsys.NewTape(&l.Memory)
	return l
}

func (l *log) add(text string) {
	l.Append([]byte(text))
	l.Grown()
}

// Reads that wait for more of a stream cost no goroutine each. Some are
// flushed, and the others get what comes.
func TestParkedReads(t *testing.T) {
	both(t, func(t *testing.T, d dialect) {
		const readers = 1000
		s := newLog()
		_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "s", Node: s}, fsys.Entry{Name: "f", Node: fsys.Const("text")}))
		w := connect(t, addr, d, "")
		for i := range uint32(readers) {
			w.open(1+i, fsys.Read, "s")
		}
		w.open(5000, fsys.Read, "f")
		before := settled(t)
		waiting := map[uint16]bool{}
		for round := range uint64(3) {
			for i := range uint32(readers) {
				waiting[w.send(message{Type: tread, Fid: 1 + i, Offset: round * 5, Count: 100})] = true
			}
			if got := w.read(5000, 0, 100); got != "text" { // the server has taken the reads
				t.Fatalf("read %q", got)
			}
			if round == 0 {
				settles(t, before+10)
			}
			n := 0
			for tag := range waiting {
				if n++; n > readers/2 {
					break
				}
				w.must(message{Type: tflush, OldTag: tag})
				delete(waiting, tag)
			}
			s.add(fmt.Sprintf("part%d", round))
			for len(waiting) > 0 {
				m := w.recv()
				if m.Type != rread || !waiting[m.Tag] || string(m.Data) != fmt.Sprintf("part%d", round) {
					t.Fatalf("got %v %d %q", m.Type, m.Tag, m.Data)
				}
				delete(waiting, m.Tag)
			}
		}
		tag := w.send(message{Type: tread, Fid: 1, Offset: 15, Count: 100})
		s.End()
		if m := w.recv(); m.Type != rread || m.Tag != tag || len(m.Data) > 0 {
			t.Errorf("the end is %v %d %q", m.Type, m.Tag, m.Data)
		}
	})
}

// What is parked when its connection or session ends, or its fid is clunked,
// ends with it, whatever comes at the same moment.
func TestParkedReadsEnd(t *testing.T) {
	rounds := 100
	if testing.Short() {
		rounds = 10
	}
	s := newLog()
	_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "s", Node: s}))
	connect(t, addr, linux, "").conn.Close() // what the server keeps for good is there now
	before := settled(t)
	for round := range rounds {
		w := connect(t, addr, linux, "")
		var first uint16 // the read of fid 1
		for i := range uint32(20) {
			w.open(20-i, fsys.Read, "s")
			first = w.send(message{Type: tread, Fid: 20 - i, Offset: uint64(s.Size()), Count: 100})
		}
		var both sync.WaitGroup
		both.Go(func() {
			for range round % 20 {
				runtime.Gosched()
			}
			s.add("x")
		})
		switch round % 3 {
		case 0:
			w.conn.Close()
		case 1:
			w.conn.Write(encode(t, linux, &message{Type: tversion, Tag: noTag, Msize: 8192, Version: "9P2000.L"}))
			for m := w.recv(); m.Type != rversion; m = w.recv() {
				if m.Type != rread {
					t.Fatalf("got %v", m.Type)
				}
			}
		case 2:
			clunk := w.send(message{Type: tclunk, Fid: 1})
			s.add("y")
			for answers := 0; answers < 21; answers++ {
				if m := w.recv(); m.Type != rread && m.Tag != clunk && m.Tag != first {
					t.Fatalf("got %v %d", m.Type, m.Tag)
				}
			}
		}
		both.Wait()
		w.conn.Close()
	}
	settles(t, before)
}
