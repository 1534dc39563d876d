package agents

import (
	"encoding/binary"
	"testing"

	"agent9/conformance/daemon"
	"agent9/fsys"
)

// What one client sends, or does not take, is nothing to the others.
func TestMalformedFrames(t *testing.T) {
	d, _, alice := daemon.OneAgent(t)
	long := make([]byte, 1<<16)
	size := func(n uint32) []byte { return append(daemon.U32(n), 120, 1, 0, 9, 9, 9, 9) }
	for name, bytes := range map[string][]byte{
		"shorter than a header": daemon.U32(3),
		"4 GB":                  size(1<<32 - 1),
		"longer than msize":     size(1 << 20),
		"a type that is none":   daemon.Frame(255, daemon.U32(1)),
		"a reply":               daemon.Frame(121),
		"cut in a string":       daemon.Frame(110, daemon.U32(1), daemon.U32(2), daemon.U16(1), daemon.U16(500), []byte("x")),
		"65535 names":           daemon.Frame(110, daemon.U32(1), daemon.U32(2), daemon.U16(1<<16-1)),
		"a count of 4 GB":       daemon.Frame(118, daemon.U32(1), daemon.U64(0), daemon.U32(1<<32-1), []byte("x")),
		"more than its fields":  daemon.Frame(120, daemon.U32(1), long[:100]),
		"not UTF-8":             daemon.Frame(110, daemon.U32(1), daemon.U32(2), daemon.U16(1), daemon.Str("\xff\xfe")),
		"HTTP":                  []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"zeros":                 long,
	} {
		for _, session := range []bool{false, true} {
			before := residentKiB(t, d)
			w := daemon.RawDial(t, d)
			if session {
				w.Session("/agents/alice")
			}
			w.Conn.Write(bytes) // which fails when the daemon has hung up
			w.Conn.Write(daemon.Frame(120, daemon.U32(99)))
			for {
				typ, _ := w.Receive()
				if typ == 0 || typ == 7 || typ == 107 {
					break // an error, or the end
				}
			}
			w.Conn.Close()
			if grown := residentKiB(t, d) - before; grown > 32<<10+garbage>>10 {
				t.Errorf("%s: the daemon has grown by %d KiB", name, grown)
			}
			daemon.Has(t, "status after "+name, alice.Read("status"), `"name":"alice"`)
		}
	}
	daemon.Equal(t, "inbox", alice.List("inbox"), daemon.InboxFiles)
}

// A client that asks for much and never reads the answers is waited for, with
// a bounded amount of memory.
func TestClientThatNeverReads(t *testing.T) {
	d, _, alice := daemon.OneAgent(t)
	alice.Make("goals", "big", string(make([]byte, 1<<20)))
	before := residentKiB(t, d)
	w := daemon.RawDial(t, d)
	w.Session("/agents/alice")
	w.Send(110, daemon.U32(1), daemon.U32(2), daemon.U16(2), daemon.Str("goals"), daemon.Str("big"))
	w.Receive()
	w.Send(12, daemon.U32(2), daemon.U32(0)) // Tlopen
	w.Receive()
	read := daemon.Frame(116, daemon.U32(2), daemon.U64(0), daemon.U32(1<<16-24))
	stuck := make(chan struct{})
	go func() { // until the test ends
		defer close(stuck)
		for tag := uint16(2); ; tag++ {
			binary.LittleEndian.PutUint16(read[5:], tag%60000)
			if _, err := w.Conn.Write(read); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		w.Conn.Close()
		<-stuck
	})
	for range 50 { // meanwhile the others are served
		alice.Write("inbox/new", "go on")
		daemon.Has(t, "next", alice.Read("inbox/next"), "go on")
	}
	// What waits for one client is at most 64 MiB, which garbage and a race
	// detector make more of; what was asked for is gigabytes.
	if grown := residentKiB(t, d) - before; grown > 768<<10 {
		t.Errorf("the daemon has grown by %d KiB", grown)
	}
	d.Signal(15)
	d.Ends(daemon.Bound)
}

// Many requests that wait on one connection are bounded, and do not keep
// others from theirs.
func TestClientThatOnlyWaits(t *testing.T) {
	d, r, alice := daemon.OneAgent(t)
	waiter := d.At("/agents/alice")
	h := waiter.Open("logs/trace", fsys.Read)
	var refusals int
	done := make(chan error)
	const asked = 2000
	for range asked {
		go func() {
			_, err := fsys.ReadAt(daemon.Within(t), h, make([]byte, 10), 0)
			done <- err
		}()
	}
	for fsys.CodeOf(<-done) == fsys.Busy { // over the limit
		if refusals++; refusals == asked-1024 {
			break
		}
	}
	daemon.Equal(t, "requests that were refused", refusals, asked-1024)
	daemon.Has(t, "status", alice.Read("status"), "alice")
	r.Mkdir("agents", "bob")
	alice.Write("inbox/new", "an event")
	for range 1024 {
		if err := <-done; err != nil {
			t.Fatalf("a read that waited: %v", err)
		}
	}
}
