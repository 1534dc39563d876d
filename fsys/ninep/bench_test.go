package ninep

import (
	"io"
	"net"
	"path/filepath"
	"testing"

	"agent9/fsys"
)

// BenchmarkPingPong is what BenchmarkRead64 is measured against: the same
// numbers of bytes both ways over the same kind of socket, and nothing else.
func BenchmarkPingPong(b *testing.B) {
	l, err := net.Listen("unix", filepath.Join(b.TempDir(), "s"))
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	const ask, answer = 23, readHeader + 64
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		in, out := make([]byte, ask), make([]byte, answer)
		for {
			if _, err := io.ReadFull(c, in); err != nil {
				return
			}
			if _, err := c.Write(out); err != nil {
				return
			}
		}
	}()
	c, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	pingPong(b, c, make([]byte, ask), answer)
	c.Close()
	<-done
}

func pingPong(b *testing.B, c net.Conn, ask []byte, answer int) {
	in := make([]byte, answer)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Write(ask); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, in); err != nil {
			b.Fatal(err)
		}
	}
}

func warmReader(t testing.TB) (w *wire, ask []byte) {
	_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "f", Node: fsys.Const(string(make([]byte, 64)))}))
	w = connect(t, addr, linux, "")
	w.open(1, fsys.Read, "f")
	return w, encode(t, linux, &message{Type: tread, Tag: 1, Fid: 1, Count: 64})
}

func BenchmarkRead64(b *testing.B) {
	w, ask := warmReader(b)
	pingPong(b, w.conn, ask, readHeader+64)
}

func BenchmarkGetattr(b *testing.B) {
	w, _ := warmReader(b)
	ask := encode(b, linux, &message{Type: tgetattr, Tag: 1, Fid: 1, Valid: getBasic})
	pingPong(b, w.conn, ask, len(encode(b, linux, &message{Type: rgetattr})))
}

func TestNoAllocationsOnceWarm(t *testing.T) {
	w, read := warmReader(t)
	stat := encode(t, linux, &message{Type: tgetattr, Tag: 1, Fid: 1, Valid: getBasic})
	in := make([]byte, 4096)
	for name, c := range map[string]struct {
		ask    []byte
		answer int
	}{
		"read":    {read, readHeader + 64},
		"getattr": {stat, len(encode(t, linux, &message{Type: rgetattr}))},
	} {
		got := testing.AllocsPerRun(2000, func() {
			if _, err := w.conn.Write(c.ask); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(w.conn, in[:c.answer]); err != nil {
				t.Fatal(err)
			}
		})
		// What the collector takes out of the pools comes back now and then.
		if got >= 0.5 && !raceEnabled {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}
