package main

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"
)

// A wire is a connection on which a test sends what it likes.
type wire struct {
	t    *testing.T
	conn net.Conn
}

func rawDial(t *testing.T, d *daemon) *wire {
	t.Helper()
	return rawDialTo(t, "unix", d.sock())
}

func rawDialTo(t *testing.T, network, address string) *wire {
	t.Helper()
	conn, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(limit))
	return &wire{t, conn}
}

func u16(n uint16) []byte { return binary.LittleEndian.AppendUint16(nil, n) }
func u32(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }
func u64(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
func str(s string) []byte { return append(u16(uint16(len(s))), s...) }

// frame is a message with tag 1.
func frame(typ byte, parts ...[]byte) []byte {
	b := append(u32(0), typ, 1, 0)
	for _, p := range parts {
		b = append(b, p...)
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)))
	return b
}

func (w *wire) send(typ byte, parts ...[]byte) {
	w.t.Helper()
	if _, err := w.conn.Write(frame(typ, parts...)); err != nil {
		w.t.Fatal(err)
	}
}

// receive returns the next message; type 0 is the end of the connection.
func (w *wire) receive() (typ byte, body []byte) {
	w.t.Helper()
	head := make([]byte, 7)
	if _, err := io.ReadFull(w.conn, head); err != nil {
		return 0, nil
	}
	body = make([]byte, binary.LittleEndian.Uint32(head)-7)
	if _, err := io.ReadFull(w.conn, body); err != nil {
		w.t.Fatal(err)
	}
	return head[4], body
}

// session agrees on 9P2000.L, and attaches fid 1.
func (w *wire) session(aname string) {
	w.t.Helper()
	w.send(100, u32(1<<16), str("9P2000.L"))
	if typ, _ := w.receive(); typ != 101 {
		w.t.Fatalf("Tversion: got a message of type %d", typ)
	}
	w.send(104, u32(1), u32(1<<32-1), str("none"), str(aname), u32(1<<32-1))
	if typ, body := w.receive(); typ != 105 {
		w.t.Fatalf("Tattach: got a message of type %d: % x", typ, body)
	}
}
