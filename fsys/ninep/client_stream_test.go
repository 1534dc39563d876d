package ninep_test

import (
	"testing"

	"agent9/fsys"
	"agent9/fsys/ninep"
)

// asked is data that tells when somebody has seen how much there is.
type asked struct {
	fsys.Memory
	size chan int64
}

func (a *asked) Size() int64 {
	n := a.Memory.Size()
	select {
	case a.size <- n:
	default:
	}
	return n
}

// TestStreamDoesNotEndEarly reads a stream as fread(3) does: after a short
// read, for the rest. The server may take that for the same read(2).
func TestStreamDoesNotEndEarly(t *testing.T) {
	for _, version := range []string{"9P2000.L", "9P2000"} {
		for _, count := range []int{10, 64 << 10, 1 << 20} {
			m := &asked{size: make(chan int64, 1)}
			tape := fsys.NewTape(m)
			m.Append([]byte("1234"))
			_, root := attach(t, serveNode(t, fsys.NewTable(fsys.Entry{Name: "log", Node: tape})), ninep.DialVersion(version), ninep.DialMsize(64<<10))
			h, err := fsys.OpenPath(t.Context(), root, "log", fsys.Read)
			if err != nil {
				t.Fatal(err)
			}
			p := make([]byte, count)
			if n, err := fsys.ReadAt(t.Context(), h, p, 0); n != 4 || err != nil {
				t.Fatalf("%d, %v", n, err)
			}
			for i, rest := range []int{count - 4, count} {
				off := int64(4 + 4*i)
				for len(m.size) > 0 {
					<-m.size
				}
				got := make(chan error, 1)
				go func() {
					_, err := fsys.ReadAt(t.Context(), h, p[:rest], off)
					got <- err
				}()
				for <-m.size != off {
				}
				m.Append([]byte("5678"))
				tape.Grown()
				if err := <-got; err != nil {
					t.Errorf("%s: %d bytes after 4 of %d: %v", version, rest, count, err)
				}
			}
			tape.End()
			if n, err := fsys.ReadAt(t.Context(), h, p, 12); n != 0 || !fsys.IsEOF(err) {
				t.Errorf("at the end: %d, %v", n, err)
			}
			h.Close()
		}
	}
}
