package main

import (
	"encoding/binary"
	"testing"

	"agent9/fsys"
)

// What one client sends, or does not take, is nothing to the others.
func TestMalformedFrames(t *testing.T) {
	d, _, alice := oneAgent(t)
	long := make([]byte, 1<<16)
	size := func(n uint32) []byte { return append(u32(n), 120, 1, 0, 9, 9, 9, 9) }
	for name, bytes := range map[string][]byte{
		"shorter than a header": u32(3),
		"4 GB":                  size(1<<32 - 1),
		"longer than msize":     size(1 << 20),
		"a type that is none":   frame(255, u32(1)),
		"a reply":               frame(121),
		"cut in a string":       frame(110, u32(1), u32(2), u16(1), u16(500), []byte("x")),
		"65535 names":           frame(110, u32(1), u32(2), u16(1<<16-1)),
		"a count of 4 GB":       frame(118, u32(1), u64(0), u32(1<<32-1), []byte("x")),
		"more than its fields":  frame(120, u32(1), long[:100]),
		"not UTF-8":             frame(110, u32(1), u32(2), u16(1), str("\xff\xfe")),
		"HTTP":                  []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"zeros":                 long,
	} {
		for _, session := range []bool{false, true} {
			before := residentKiB(t, d)
			w := rawDial(t, d)
			if session {
				w.session("/agents/alice")
			}
			w.conn.Write(bytes) // which fails when the daemon has hung up
			w.conn.Write(frame(120, u32(99)))
			for {
				typ, _ := w.receive()
				if typ == 0 || typ == 7 || typ == 107 {
					break // an error, or the end
				}
			}
			w.conn.Close()
			if grown := residentKiB(t, d) - before; grown > 32<<10+garbage>>10 {
				t.Errorf("%s: the daemon has grown by %d KiB", name, grown)
			}
			has(t, "status after "+name, alice.read("status"), `"name":"alice"`)
		}
	}
	equal(t, "inbox", alice.list("inbox"), inboxFiles)
}

// A client that asks for much and never reads the answers is waited for, with
// a bounded amount of memory.
func TestClientThatNeverReads(t *testing.T) {
	d, _, alice := oneAgent(t)
	alice.make("goals", "big", string(make([]byte, 1<<20)))
	before := residentKiB(t, d)
	w := rawDial(t, d)
	w.session("/agents/alice")
	w.send(110, u32(1), u32(2), u16(2), str("goals"), str("big"))
	w.receive()
	w.send(12, u32(2), u32(0)) // Tlopen
	w.receive()
	read := frame(116, u32(2), u64(0), u32(1<<16-24))
	stuck := make(chan struct{})
	go func() { // until the test ends
		defer close(stuck)
		for tag := uint16(2); ; tag++ {
			binary.LittleEndian.PutUint16(read[5:], tag%60000)
			if _, err := w.conn.Write(read); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		w.conn.Close()
		<-stuck
	})
	for range 50 { // meanwhile the others are served
		alice.write("inbox/new", "go on")
		has(t, "next", alice.read("inbox/next"), "go on")
	}
	// What waits for one client is at most 64 MiB, which garbage and a race
	// detector make more of; what was asked for is gigabytes.
	if grown := residentKiB(t, d) - before; grown > 768<<10 {
		t.Errorf("the daemon has grown by %d KiB", grown)
	}
	d.signal(15)
	d.ends(bound)
}

// Many requests that wait on one connection are bounded, and do not keep
// others from theirs.
func TestClientThatOnlyWaits(t *testing.T) {
	d, r, alice := oneAgent(t)
	waiter := d.at("/agents/alice")
	h := waiter.open("logs/trace", fsys.Read)
	var refusals int
	done := make(chan error)
	const asked = 2000
	for range asked {
		go func() {
			_, err := fsys.ReadAt(within(t), h, make([]byte, 10), 0)
			done <- err
		}()
	}
	for fsys.CodeOf(<-done) == fsys.Busy { // over the limit
		if refusals++; refusals == asked-1024 {
			break
		}
	}
	equal(t, "requests that were refused", refusals, asked-1024)
	has(t, "status", alice.read("status"), "alice")
	r.mkdir("agents", "bob")
	alice.write("inbox/new", "an event")
	for range 1024 {
		if err := <-done; err != nil {
			t.Fatalf("a read that waited: %v", err)
		}
	}
}
