//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agent9/conformance/daemon"
	"agent9/fsys"
)

// A rough is a client that writes what it likes, and takes answers or not.
type rough struct {
	t *testing.T
	net.Conn
}

// until reads answers up to one of the type, and reports whether it came.
func (r *rough) until(kind byte) bool {
	for {
		switch r.answer() {
		case kind:
			return true
		case 0:
			return false
		}
	}
}

// packet is a message with the tag, of fields by their size: uint8, 16, 32, 64,
// and strings.
func packet(kind byte, tag uint16, fields ...any) []byte {
	b := binary.LittleEndian.AppendUint16([]byte{0, 0, 0, 0, kind}, tag)
	for _, f := range fields {
		switch f := f.(type) {
		case string:
			b = append(binary.LittleEndian.AppendUint16(b, uint16(len(f))), f...)
		default:
			b, _ = binary.Append(b, binary.LittleEndian, f)
		}
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)))
	return b
}

// Types of messages of 9P2000.
const (
	tversion, tauth, tattach, tflush, twalk = 100, 102, 104, 108, 110
	topen, tread, twrite, tclunk, rerror    = 112, 116, 118, 120, 107
)

const nobody = ^uint32(0)

func roughly(d *daemon.Daemon, t *testing.T) *rough {
	t.Helper()
	var c net.Conn
	daemon.Eventually(t, "the daemon accepts connections as fast as they come", func() (ok bool) {
		var err error
		if c, err = net.Dial("unix", d.Sock()); err != nil && !errors.Is(err, syscall.EAGAIN) {
			t.Fatal(err)
		}
		return err == nil
	})
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(daemon.Limit))
	return &rough{t, c}
}

// answer returns the type of the next answer; 0 is the end.
func (r *rough) answer() byte {
	var head [7]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0
	}
	n := int64(binary.LittleEndian.Uint32(head[:])) - 7
	if m, err := io.CopyN(io.Discard, r, n); err != nil || m != n {
		return 0
	}
	return head[4]
}

// must sends a message that is answered as it should be.
func (r *rough) must(b []byte) {
	r.t.Helper()
	if _, err := r.Write(b); err != nil {
		r.t.Fatal(err)
	}
	if got := r.answer(); got != b[4]+1 {
		r.t.Fatalf("message %d is answered by %d", b[4], got)
	}
}

// begin agrees on a version and attaches as fid 0.
func begin(d *daemon.Daemon, t *testing.T) *rough {
	t.Helper()
	r := roughly(d, t)
	r.must(packet(tversion, 0xffff, uint32(1<<20), "9P2000"))
	r.must(packet(tattach, 1, uint32(0), nobody, "mallory", ""))
	return r
}

func (r *rough) open(fid uint32, names ...string) {
	r.t.Helper()
	r.must(walk(fid, names...))
	r.must(packet(topen, 1, fid, uint8(0)))
}

func walk(fid uint32, names ...string) []byte {
	fields := []any{uint32(0), fid, uint16(len(names))}
	for _, n := range names {
		fields = append(fields, n)
	}
	return packet(twalk, 1, fields...)
}

// pour writes until nothing more is taken, or n times, and never reads.
func (r *rough) pour(n int, message func(i int) []byte) {
	r.SetWriteDeadline(time.Now().Add(time.Second))
	for i := range n {
		if _, err := r.Write(message(i)); err != nil {
			return
		}
	}
}

// together begins n clients, has all of them do the same at once, and waits.
func together(n int, begin func() *rough, do func(*rough)) {
	var wg sync.WaitGroup
	for range n {
		r := begin()
		wg.Go(func() { do(r) })
	}
	wg.Wait()
}

// A scale is how many hostile clients there are and how much they ask for.
type scale struct {
	conns       int // at once, all that the daemon takes
	outstanding int // reads that wait, each connection having as many as it may
	rounds      int // of what is done again and again
	samples     int // requests of a client that behaves well, at least, beside each of them
	megabytes   int // --max-memory
	full        bool
}

// hostileVar has TestHostileClients at its full size, which takes some minutes
// and is part of make soak.
const hostileVar = "AGENT9_HOSTILE"

func theScale() scale {
	if os.Getenv(hostileVar) == "full" {
		return scale{conns: 10_000, outstanding: 1 << 15, rounds: 20, samples: 3_000, megabytes: 512, full: true}
	}
	return scale{conns: 300, outstanding: 4 << 10, rounds: 1, samples: 200, megabytes: 64}
}

// bound is what the daemon may have more than at rest, in kB, as
// docs/protocol.md states it: twice --max-memory, and 300 KiB for each
// connection.
func (s scale) bound() int { return 2*s.megabytes<<10 + 300*s.conns }

// rest is what it may have more when the clients have gone, in kB: Go keeps
// something of each goroutine that ever was.
func (s scale) rest() int { return 32<<10 + s.outstanding }

// openFiles makes n open files possible here and in the daemon, or skips t.
func openFiles(t *testing.T, n uint64) {
	t.Helper()
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if was.Max >= n { // Go sets Cur to it, in the daemon too
		return
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
		t.Skipf("%d open files are needed, ulimit -Hn is %d, and it cannot be raised: %v", n, was.Max, err)
	}
	t.Cleanup(func() { // where it was raised, it can be lowered
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
			t.Error(err)
		}
	})
}

// use is what the daemon uses; memory is in kB: what the system has given to
// it, and what its heap and stacks take of that.
type use struct{ resident, heap, files, goroutines, conns, fids, requests int }

func uses(d *daemon.Daemon, t *testing.T, root *daemon.Tree) (u use) {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d/", d.Cmd.Process.Pid)
	status, err := os.ReadFile(proc + "status")
	if err != nil {
		t.Fatal(err)
	}
	u.resident = number(string(status), "VmRSS:")
	fds, err := os.ReadDir(proc + "fd")
	if err != nil {
		t.Fatal(err)
	}
	u.files = len(fds)
	metrics := root.Read("metrics")
	of := func(name string) int { return number(metrics, "\n"+name) }
	u.heap = (of("go_memstats_heap_inuse_bytes") + of("go_memstats_stack_inuse_bytes")) >> 10
	u.goroutines = of("agent9_goroutines")
	u.conns, u.fids, u.requests = of("agent9_9p_connections"), of("agent9_9p_fids"), of("agent9_9p_requests")
	return u
}

// number returns what follows name in text, as a whole number.
func number(text, name string) int {
	_, rest, _ := strings.Cut(text, name)
	if f := strings.Fields(rest); len(f) > 0 {
		n, _ := strconv.ParseFloat(f[0], 64)
		return int(n)
	}
	return 0
}

// A witness is a client that behaves well beside others. It walks to a small
// file, opens it, reads it and clunks it, again and again.
type witness struct {
	stop, enough, done chan struct{}
	took               []time.Duration
	err                error
}

// witness begins with root, which nobody else uses until it ends.
func (s scale) witness(root *daemon.Tree, path string) *witness {
	w := &witness{stop: make(chan struct{}), enough: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for {
			start := time.Now()
			if _, w.err = root.TryRead(path); w.err != nil {
				return
			}
			if w.took = append(w.took, time.Since(start)); len(w.took) == s.samples {
				close(w.enough)
			}
			select {
			case <-w.stop:
				return
			default:
			}
		}
	}()
	return w
}

// latency is the median and the 99th percentile of what a request took.
type latency struct{ median, p99 time.Duration }

// end waits for enough requests, all of which must have been answered.
func (w *witness) end(t *testing.T) latency {
	t.Helper()
	select {
	case <-w.enough:
	case <-w.done:
	}
	close(w.stop)
	<-w.done
	if w.err != nil {
		t.Fatalf("a client that behaves well is refused after %d requests: %v", len(w.took), w.err)
	}
	slices.Sort(w.took)
	return latency{w.took[len(w.took)/2], w.took[len(w.took)*99/100]}
}

// mostOver is how many times as long as without attacks the slowest hundredth
// of a client's requests may take beside them, at the full size of the test,
// where they and the daemon share the processors.
const mostOver = 500

func (p latency) over(calm latency) string {
	return fmt.Sprintf("median × %.1f, p99 × %.1f", float64(p.median)/float64(calm.median), float64(p.p99)/float64(calm.p99))
}

// waiting is a read that nothing ends.
func waiting(tag uint16) []byte {
	return packet(tread, tag, uint32(1), uint64(1)<<40, uint32(100))
}

// An attack is what hostile clients do at once.
type attack struct {
	name string
	do   func(t *testing.T, d *daemon.Daemon, s scale)
}

var attacks = []attack{
	{"clients that never read", func(t *testing.T, d *daemon.Daemon, s scale) {
		together(10, func() *rough {
			r := begin(d, t)
			r.open(1, "README")
			return r
		}, func(r *rough) {
			r.pour(50_000, func(i int) []byte { return packet(tread, uint16(i%60_000), uint32(1), uint64(0), uint32(1<<20)) })
		})
	}},
	{"clients that never read small answers", func(t *testing.T, d *daemon.Daemon, s scale) {
		var some []byte
		for i := range uint16(1_000) {
			some = append(some, packet(tflush, i, uint16(0xfff0))...)
		}
		together(min(s.conns/3, 1_000), func() *rough { return begin(d, t) }, func(r *rough) {
			r.pour(300, func(int) []byte { return some })
		})
	}},
	{"clients that read slowly", func(t *testing.T, d *daemon.Daemon, s scale) {
		together(50, func() *rough {
			r := begin(d, t)
			r.open(1, "README")
			for i := range uint16(100) {
				if _, err := r.Write(packet(tread, i, uint32(1), uint64(0), uint32(1<<16))); err != nil {
					t.Fatal(err)
				}
			}
			return r
		}, func(r *rough) {
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			b := make([]byte, 1)
			for range 100 {
				if n, err := r.Read(b); err != nil || n == 0 {
					t.Error("a client that reads slowly is hung up on")
					return
				}
				<-tick.C
			}
		})
	}},
	{"as many connections as there may be", func(t *testing.T, d *daemon.Daemon, s scale) {
		for range s.conns - 10 {
			r := begin(d, t)
			r.open(1, "events")
			if _, err := r.Write(waiting(7)); err != nil {
				t.Fatal(err)
			}
		}
		refused := 0
		for range 60 {
			r := roughly(d, t)
			r.Write(packet(tversion, 0xffff, uint32(8192), "9P2000"))
			if got := r.answer(); got == rerror || got == 0 {
				refused++
				continue
			}
			r.Write(packet(tattach, 1, uint32(0), nobody, "mallory", "")) // else it would make room for the next one
			r.answer()
		}
		if refused < 50 {
			t.Errorf("of 60 connections too many, %d were refused", refused)
		}
	}},
	{"fids without end", func(t *testing.T, d *daemon.Daemon, s scale) {
		r := begin(d, t)
		const some = 1 << 10
		for fid := uint32(1); fid < 1<<17; fid += some {
			var walks []byte
			for i := range uint32(some) {
				walks = append(walks, packet(twalk, uint16(i), uint32(0), fid+i, uint16(0))...)
			}
			r.Write(walks)
			for range some {
				switch r.answer() {
				case rerror:
					return
				case 0:
					t.Fatalf("the connection ended after %d fids", fid)
				}
			}
		}
		t.Fatal("there is no end of fids")
	}},
	{"as many reads that wait as there may be", func(t *testing.T, d *daemon.Daemon, s scale) {
		const each = 1024
		watch := d.As(t).Root()
		before := uses(d, t, watch)
		for range s.outstanding / each {
			r := begin(d, t)
			r.open(1, "events")
			var reads []byte
			for tag := range uint16(each) {
				reads = append(reads, waiting(tag)...)
			}
			if _, err := r.Write(reads); err != nil {
				t.Fatal(err)
			}
		}
		var u use
		daemon.Eventually(t, fmt.Sprintf("%d reads wait", s.outstanding), func() bool {
			u = uses(d, t, watch)
			return u.requests >= s.outstanding
		})
		t.Logf("each takes %.1f KiB", float64(u.heap-before.heap)/float64(s.outstanding))
	}},
	{"tags without end", func(t *testing.T, d *daemon.Daemon, s scale) {
		together(4, func() *rough {
			r := begin(d, t)
			r.open(1, "events")
			return r
		}, func(r *rough) {
			r.pour(0xffff, func(i int) []byte { return waiting(uint16(i)) })
		})
	}},
	{"a storm of walks", func(t *testing.T, d *daemon.Daemon, s scale) {
		deep := []string{"agents", "alice", "inbox", "..", "..", "..", "agents", "alice", "logs", "..", "..", ".."}
		together(4, func() *rough { return begin(d, t) }, func(r *rough) {
			for range 1_000 * s.rounds {
				r.Write(walk(5, deep...))
				r.answer()
				r.Write(packet(tclunk, 1, uint32(5)))
				r.answer()
				r.Write(packet(tauth, 2, uint32(9), "u", ""))
				if r.answer() != rerror {
					t.Error("Tauth was not refused")
					return
				}
			}
		})
	}},
	{"a storm of flushes", func(t *testing.T, d *daemon.Daemon, s scale) {
		together(4, func() *rough {
			r := begin(d, t)
			r.open(1, "events")
			return r
		}, func(r *rough) {
			for i := range 1_000 * s.rounds {
				tag := uint16(i % 30_000)
				r.Write(append(waiting(tag), packet(tflush, 30_000+tag, tag)...))
				if !r.until(tflush + 1) {
					t.Error("a Tflush was not answered")
					return
				}
			}
		})
	}},
	{"a storm of versions", func(t *testing.T, d *daemon.Daemon, s scale) {
		together(4, func() *rough { return begin(d, t) }, func(r *rough) {
			for range 200 * s.rounds {
				r.Write(packet(tversion, 0xffff, uint32(8192), "9P2000"))
				if !r.until(tversion + 1) {
					t.Error("a Tversion was not answered")
					return
				}
				r.Write(packet(tattach, 1, uint32(0), nobody, "mallory", ""))
				r.answer()
				r.Write(walk(1, "events"))
				r.answer()
				r.Write(packet(topen, 1, uint32(1), uint8(0)))
				r.answer()
				r.Write(waiting(3))
			}
		})
	}},
	{"frames of 4 MiB, and of the largest size", func(t *testing.T, d *daemon.Daemon, s scale) {
		huge := packet(twrite, 1, uint32(1), uint64(0), uint32(4<<20-23))
		huge = append(huge, make([]byte, 4<<20-len(huge))...)
		binary.LittleEndian.PutUint32(huge, 4<<20)
		for range 20 * s.rounds {
			r := begin(d, t)
			r.Write(huge)
			if r.answer() != 0 {
				t.Fatal("a frame of 4 MiB was taken")
			}
			r.Close()
		}
		large := append(packet(twrite, 1, uint32(1), uint64(0), uint32(1<<20-23)), make([]byte, 1<<20-23)...)
		binary.LittleEndian.PutUint32(large, 1<<20)
		together(4, func() *rough { return begin(d, t) }, func(r *rough) {
			for range 50 * s.rounds {
				r.Write(large)
				if r.answer() != rerror { // the fid is not open
					t.Error("a large frame was not refused")
					return
				}
			}
		})
	}},
	{"clients that write slowly", func(t *testing.T, d *daemon.Daemon, s scale) {
		together(min(s.conns-10, 1_000), func() *rough { return begin(d, t) }, func(r *rough) {
			big := packet(twrite, 1, uint32(1), uint64(0), uint32(1<<20-100))
			binary.LittleEndian.PutUint32(big, 1<<20-50)
			r.pour(1, func(int) []byte { return append(big, make([]byte, 900_000)...) })
		})
	}},
	{"requests that are never whole", func(t *testing.T, d *daemon.Daemon, s scale) {
		r := begin(d, t)
		for fid := uint32(1); fid < 200; fid++ {
			r.Write(walk(fid, "agents", "alice", "inbox", "new"))
			r.answer()
			r.Write(packet(topen, 1, fid, uint8(1)))
			r.answer()
			b := append(packet(twrite, 1, fid, uint64(0), uint32(900_000)), append([]byte("["), make([]byte, 899_999)...)...)
			binary.LittleEndian.PutUint32(b, uint32(len(b)))
			if _, err := r.Write(b); err != nil || r.answer() == rerror {
				return
			}
		}
		t.Error("180 MB of unfinished requests were taken")
	}},
	{"half-closed and broken off", func(t *testing.T, d *daemon.Daemon, s scale) {
		for i := range 100 * s.rounds {
			r := begin(d, t)
			r.open(1, "events")
			r.Write(waiting(3))
			if i%2 == 0 {
				r.Conn.(*net.UnixConn).CloseWrite()
			} else {
				r.Write([]byte{200, 0, 0, 0, twrite, 1})
			}
		}
	}},
}

// Whatever clients do, the daemon stays within its memory, serves others, and
// is afterwards what it was before.
func TestHostileClients(t *testing.T) {
	s := theScale()
	openFiles(t, uint64(s.conns)+500)
	d := daemon.New(t, "--max-connections", strconv.Itoa(s.conns), "--max-memory", strconv.Itoa(s.megabytes))
	d.With = func(c *exec.Cmd) { c.Env = append(c.Env, freesVar+"=1") }
	d.Start()
	root := d.Root()
	root.Mkdir("agents", "alice")
	// What the first of all requests leaves is not the attackers'.
	calm := s.witness(root, "version").end(t)
	free(d, root)
	before := uses(d, t, root)
	t.Logf("before: %+v; of a request the median is %v, the p99 %v", before, calm.median, calm.p99)

	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			w := s.witness(d.As(t).Root(), "version")
			a.do(t, d, s)
			during := uses(d, t, root)
			beside := w.end(t)
			t.Logf("a client that behaves well: %s; %+v", beside.over(calm), during)
			if s.full && beside.p99 > mostOver*calm.p99 {
				t.Errorf("its 99th percentile is more than %d times what it is when all is calm", mostOver)
			}
			if most := before.heap + s.bound(); during.heap > most {
				t.Errorf("the heap and the stacks have %d kB, want at most %d", during.heap, most)
			}
			if most := before.resident + s.bound(); during.resident > most && !daemon.Slowed {
				t.Errorf("the daemon has %d kB, want at most %d", during.resident, most)
			}
		})
		var u use
		daemon.Eventually(t, "everything is as before "+a.name, func() bool {
			c, err := net.Dial("unix", d.Sock())
			if err != nil {
				return false
			}
			c.Close()
			free(d, root)
			u = uses(d, t, root)
			return u.files <= before.files+3 && u.goroutines <= before.goroutines+10 &&
				u.conns <= before.conns+1 && u.fids < 50 && u.requests <= before.requests+1 && // its own last clunks among them
				u.heap <= before.heap+s.rest() && (daemon.Slowed || u.resident <= before.resident+s.rest())
		})
		t.Logf("after %s: %+v", a.name, u)
	}
	after := uses(d, t, root)
	t.Logf("after: %+v", after)
	if got, err := root.TryRead("version"); err != nil || got == "" {
		t.Error(err)
	}
	if _, err := daemon.Attach(t, "unix", d.Sock(), ""); err != nil {
		t.Errorf("afterwards: %v (%v)", err, fsys.CodeOf(err))
	}
}
