package daemon

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
	Conn net.Conn
}

func RawDial(t *testing.T, d *Daemon) *wire {
	t.Helper()
	return RawDialTo(t, "unix", d.Sock())
}

func RawDialTo(t *testing.T, network, address string) *wire {
	t.Helper()
	conn, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(Limit))
	return &wire{t, conn}
}

func U16(n uint16) []byte { return binary.LittleEndian.AppendUint16(nil, n) }

func U32(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }

func U64(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

func Str(s string) []byte { return append(U16(uint16(len(s))), s...) }

// Frame is a message with tag 1.
func Frame(typ byte, parts ...[]byte) []byte {
	b := append(U32(0), typ, 1, 0)
	for _, p := range parts {
		b = append(b, p...)
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)))
	return b
}

func (w *wire) Send(typ byte, parts ...[]byte) {
	w.t.Helper()
	if _, err := w.Conn.Write(Frame(typ, parts...)); err != nil {
		w.t.Fatal(err)
	}
}

// Receive returns the next message; type 0 is the end of the connection.
func (w *wire) Receive() (typ byte, body []byte) {
	w.t.Helper()
	head := make([]byte, 7)
	if _, err := io.ReadFull(w.Conn, head); err != nil {
		return 0, nil
	}
	body = make([]byte, binary.LittleEndian.Uint32(head)-7)
	if _, err := io.ReadFull(w.Conn, body); err != nil {
		w.t.Fatal(err)
	}
	return head[4], body
}

// Session agrees on 9P2000.L, and attaches fid 1.
func (w *wire) Session(aname string) {
	w.t.Helper()
	w.Send(100, U32(1<<16), Str("9P2000.L"))
	if typ, _ := w.Receive(); typ != 101 {
		w.t.Fatalf("Tversion: got a message of type %d", typ)
	}
	w.Send(104, U32(1), U32(1<<32-1), Str("none"), Str(aname), U32(1<<32-1))
	if typ, body := w.Receive(); typ != 105 {
		w.t.Fatalf("Tattach: got a message of type %d: % x", typ, body)
	}
}
