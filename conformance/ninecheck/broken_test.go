package ninecheck_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"agent9/conformance/ninecheck"
)

// A fault changes a frame of the server into what the client gets instead;
// ask is the type of the client's last request.
type fault func(ask byte, reply []byte) [][]byte

const (
	rversion, rattach, rwalk, rflush, rread, rclunk, rstat = 101, 105, 111, 109, 117, 121, 125
	rgetattr, rreaddir, rlerror, rlopen                    = 25, 41, 7, 13
)

// on is a fault of one type of reply.
func on(kind byte, change func([]byte) [][]byte) fault {
	return func(_ byte, b []byte) [][]byte {
		if b[4] != kind {
			return [][]byte{b}
		}
		return change(b)
	}
}

func edit(kind byte, change func([]byte)) fault {
	return on(kind, func(b []byte) [][]byte {
		change(b)
		return [][]byte{b}
	})
}

func twice(b []byte) [][]byte { return [][]byte{b, b} }
func never([]byte) [][]byte   { return nil }

// okay answers kind's request with success where the server refuses it.
func okay(ask byte, body ...byte) fault {
	return func(last byte, b []byte) [][]byte {
		if b[4] != rlerror || last != ask {
			return [][]byte{b}
		}
		f := append([]byte{0, 0, 0, 0, ask + 1, b[5], b[6]}, body...)
		binary.LittleEndian.PutUint32(f, uint32(len(f)))
		return [][]byte{f}
	}
}

// A broken server is found out: for each fault, the check that says so and
// words of what it says.
func TestBroken(t *testing.T) {
	t.Parallel()
	qid := make([]byte, 13)
	for name, b := range map[string]struct {
		fault fault
		check string
		says  string
	}{
		"two Rversions":     {on(rversion, twice), "version/answered", "no request has that waits"},
		"no Rversion":       {on(rversion, never), "version/answered", "no answer to Tversion"},
		"large msize":       {edit(rversion, func(b []byte) { b[10] = 1 }), "version/msize", "although the client said"},
		"small msize":       {edit(rversion, sayNothing), "version/unknown", "nothing can be said"},
		"wrong tag":         {edit(rgetattr, func(b []byte) { b[6] ^= 0x40 }), "attach/root", "which no request has"},
		"wrong type":        {edit(rgetattr, func(b []byte) { b[4] = rreaddir }), "attach/root", "malformed"},
		"wrong reply":       {edit(rclunk, func(b []byte) { b[4] = rflush }), "walk/clone", "Tclunk is answered with Rflush"},
		"no such type":      {edit(rclunk, func(b []byte) { b[4] = 222 }), "walk/clone", "is no message"},
		"replies twice":     {on(rgetattr, twice), "tag/outstanding", "no request has that waits"},
		"one byte more":     {on(rgetattr, func(b []byte) [][]byte { b = append(b, 0); b[0]++; return [][]byte{b} }), "attach/root", "follow the fields"},
		"one byte less":     {on(rgetattr, func(b []byte) [][]byte { b[0]--; return [][]byte{b[:len(b)-1]} }), "attach/root", "shorter than its fields"},
		"the root's qid":    {edit(rattach, func(b []byte) { b[15] ^= 1 }), "attach/root", "and the root's status"},
		"the walk's qids":   {edit(rwalk, otherQid), "walk/qids", "the walk says"},
		"the open's qid":    {edit(rlopen, func(b []byte) { b[15] ^= 1 }), "walk/qids", "and the open"},
		"iounit":            {edit(rlopen, func(b []byte) { b[23] = 1 }), "open/iounit", "iounit is"},
		"size":              {edit(rgetattr, func(b []byte) { b[7+8+13+4+4+4+8+8] ^= 1 }), "read/counts", "the status says"},
		"valid":             {edit(rgetattr, func(b []byte) { b[7] = 0 }), "getattr/mask", "is missing"},
		"no errno":          {edit(rlerror, func(b []byte) { clear(b[7:11]) }), "walk/first", "which is no errno"},
		"another errno":     {edit(rlerror, func(b []byte) { b[7] = 1 }), "walk/first", "not ENOENT"},
		"unknown fids":      {okay(120), "fid/unknown", "there is no such fid"},
		"walks to nowhere":  {okay(110, append([]byte{1, 0}, qid...)...), "walk/first", "there is no such name"},
		"too much data":     {on(rread, padded), "read/counts", "where"},
		"entries cut":       {on(rreaddir, cut), "dir/pieces", "cut off"},
		"flush unanswered":  {on(rflush, never), "flush/unknown", "no answer to Tflush"},
		"flush of a wait":   {on(rflush, never), "flush/blocked", "no answer to Tflush"},
		"flush of a flush":  {on(rflush, never), "flush/flush", "no answer to Tflush"},
		"hostile walks":     {okay(110, 0, 0), "hostile/counts", "is answered with Rwalk"},
		"nothing is locked": {edit(53, func(b []byte) { b[7] = 0 }), "lock/conflict", "two clients have locked"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := failed(t, b.fault, b.check, ninecheck.Linux)
			if !strings.Contains(found, b.says) {
				t.Errorf("%s does not say %q:\n%s", b.check, b.says, found)
			}
		})
	}
}

// sayNothing is an msize of 0 for a version that is not known.
func sayNothing(b []byte) {
	if strings.HasSuffix(string(b), "unknown") {
		clear(b[7:11])
	}
}

// otherQid changes the last qid of an Rwalk.
func otherQid(b []byte) {
	if len(b) > 9 {
		b[len(b)-1] ^= 1
	}
}

// padded adds a byte to the data of an Rread.
func padded(b []byte) [][]byte {
	if len(b) == 11 {
		return [][]byte{b}
	}
	b = append(b, '!')
	binary.LittleEndian.PutUint32(b, uint32(len(b)))
	binary.LittleEndian.PutUint32(b[7:], uint32(len(b)-11))
	return [][]byte{b}
}

// cut takes a byte off the data of an Rreaddir.
func cut(b []byte) [][]byte {
	if len(b) == 11 {
		return [][]byte{b}
	}
	b = b[:len(b)-1]
	binary.LittleEndian.PutUint32(b, uint32(len(b)))
	binary.LittleEndian.PutUint32(b[7:], uint32(len(b)-11))
	return [][]byte{b}
}

// failed runs one check on a server with a fault and returns what it says.
func failed(t *testing.T, f fault, check, dialect string) string {
	dial, _ := serve(t)
	results, err := ninecheck.Run(t.Context(), ninecheck.Options{
		Dial: func(ctx context.Context) (net.Conn, error) {
			server, err := dial(ctx)
			if err != nil {
				return nil, err
			}
			return between(server, f), nil
		},
		Dialects: []string{dialect}, Only: check, Write: "stored", Stream: "log", Hostile: true, Limit: time.Second, Quiet: quiet,
	})
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, r := range results {
		r.Print(&all)
		if r.Verdict == ninecheck.Fail && len(r.Findings) > 0 && len(r.Findings[0].Frames) == 0 && r.Check != "attach/begin" {
			t.Errorf("%s shows no frames", r.Check)
		}
	}
	return all.String()
}

// between returns the client's end of a connection on which f changes what
// the server says.
func between(server net.Conn, f fault) net.Conn {
	near, far := net.Pipe()
	asks := make(chan byte, 1)
	go func() { // ends when the client or the server hangs up
		defer server.Close()
		for {
			b, err := frame(far)
			if err != nil {
				return
			}
			select {
			case <-asks:
			default:
			}
			asks <- b[4]
			if _, err := server.Write(b); err != nil {
				return
			}
		}
	}()
	go func() { // ends when the client or the server hangs up
		defer far.Close()
		last := byte(0)
		for {
			b, err := frame(server)
			if err != nil {
				return
			}
			select {
			case last = <-asks:
			default:
			}
			for _, out := range f(last, b) {
				if _, err := far.Write(out); err != nil {
					return
				}
			}
		}
	}()
	return near
}

func frame(r io.Reader) ([]byte, error) {
	b := make([]byte, 4)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, err
	}
	b = append(b, make([]byte, max(3, int(binary.LittleEndian.Uint32(b))-4))...)
	_, err := io.ReadFull(r, b[4:])
	return b, err
}
