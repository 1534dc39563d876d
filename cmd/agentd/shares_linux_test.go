package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"agent9/conformance/daemon"
	"agent9/fsys/share"
)

// A crowd is what the clients of one token do against a daemon that serves
// 9P and HTTP over TCP.
type crowd struct {
	t           *testing.T
	n           int // connections
	token       string
	ninep, http string // addresses
	mine        []net.Conn
}

func (c *crowd) dial(at string) net.Conn {
	conn, err := net.Dial("tcp", at)
	if err != nil {
		c.t.Fatal(err)
	}
	c.mine = append(c.mine, conn)
	conn.SetDeadline(time.Now().Add(daemon.Limit))
	return conn
}

// attached returns a client of 9P, or nil if the daemon has no room for it.
func (c *crowd) attached(uname string) *rough {
	r := &rough{c.t, c.dial(c.ninep)}
	r.Write(packet(tversion, 0xffff, uint32(1<<20), "9P2000"))
	r.answer()
	r.Write(packet(tattach, 1, uint32(0), nobody, uname, c.token))
	if r.answer() != tattach+1 {
		return nil
	}
	return r
}

// ask begins a request over HTTP.
func (c *crowd) ask(line string, headers ...string) net.Conn {
	conn := c.dial(c.http)
	fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n%s\r\n", line, c.token, strings.Join(headers, ""))
	return conn
}

// push writes p as far as it is taken in a while.
func push(conn net.Conn, p []byte) {
	conn.SetWriteDeadline(time.Now().Add(2 * time.Second))
	conn.Write(p)
}

// deepNames lead to a file below agents/alice/goals, by names that take much.
var deepNames = append([]string{"goals"}, slices.Repeat([]string{strings.Repeat("d", 250)}, 15)...)

var crowds = []struct {
	name string
	do   func(c *crowd)
}{
	{"attaches with long names", func(c *crowd) {
		long := strings.Repeat("n", 60_000)
		for range c.n {
			r := c.attached(long)
			for fid := uint32(1); r != nil && fid < 200; fid++ {
				r.Write(packet(tattach, 1, fid, nobody, long, c.token))
				if r.answer() != tattach+1 {
					break
				}
			}
		}
	}},
	{"listings that stay open", func(c *crowd) {
		for range c.n {
			r := c.attached("")
			for fid := uint32(1); r != nil && fid < 100; fid++ {
				r.Write(walk(fid, "goals"))
				r.answer()
				r.Write(packet(topen, 1, fid, uint8(0)))
				r.answer()
				r.Write(packet(tread, 1, fid, uint64(0), uint32(8000)))
				if r.answer() != tread+1 {
					break
				}
			}
		}
	}},
	{"names that are walked to", func(c *crowd) {
		deep := make([]string, 15)
		for i := range deep {
			deep[i] = []string{"goals", ".."}[i%2]
		}
		for range c.n {
			r := c.attached("")
			for fid := uint32(1); r != nil && fid < 500; fid++ {
				r.Write(walk(fid, deep...))
				if r.answer() != twalk+1 {
					break
				}
			}
		}
	}},
	{"long names that lead to fids", func(c *crowd) {
		for range c.n {
			r := c.attached("")
			for fid := uint32(1); r != nil && fid < 500; fid++ {
				r.Write(walk(fid, deepNames...))
				if r.answer() != twalk+1 {
					break
				}
			}
		}
	}},
	{"half frames over WebSocket", func(c *crowd) {
		const size = 1_900_000
		head := binary.BigEndian.AppendUint64([]byte{0x81, 0x80 | 127}, size)
		frame := append(append(head, 0, 0, 0, 0), strings.Repeat("x", size-1)...)
		for range c.n {
			conn := c.ask("GET /agents/alice", "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n")
			push(conn, frame)
		}
	}},
	{"bodies that are never whole", func(c *crowd) {
		part := make([]byte, 4<<20)
		for range c.n {
			push(c.ask("POST /agents/alice/inbox/new", "Content-Length: 16000000\r\n"), part)
		}
	}},
	{"bodies that are only promised", func(c *crowd) {
		for range c.n {
			c.ask("POST /agents/alice/inbox/new", "Content-Length: 16000000\r\n")
		}
	}},
	{"heads that never end", func(c *crowd) {
		for range c.n {
			push(c.dial(c.http), []byte("GET / HTTP/1.1\r\nHost: localhost\r\nX: "+strings.Repeat("x", 60_000)))
		}
	}},
}

// kept is what the daemon says that clients make it keep, in bytes.
func kept(root *daemon.Tree) (n int) {
	metrics := root.Read("metrics")
	for _, k := range share.Kinds() {
		n += number(metrics, fmt.Sprintf("\nagent9_client_bytes{kind=%q}", k))
	}
	return n
}

// However many connections who has a token opens, and whatever is half done on
// them, it gets its share of --max-memory, the daemon says what it keeps, and
// others and the operator go on.
func TestNobodyTakesItAll(t *testing.T) {
	const megabytes = 64
	s := theScale()
	n := 60
	if s.full {
		n = 1_000
	}
	openFiles(t, uint64(2*n)+500)
	d := daemon.New(t, "--max-memory", fmt.Sprint(megabytes), "--listen", "tcp:127.0.0.1:0", "--http", "127.0.0.1:0")
	d.With = func(c *exec.Cmd) { c.Env = append(c.Env, freesVar+"=1") }
	d.Start()
	root := d.Root()
	root.Mkdir("agents", "alice")
	root.Mkdir("agents", "bob")
	for i := range 200 {
		root.Make("agents/alice/goals", fmt.Sprintf("%0200d", i), "")
	}
	dir := "agents/alice/goals"
	for _, name := range deepNames[1:] {
		root.Mkdir(dir, name)
		dir += "/" + name
	}
	_, at, _ := strings.Cut(d.Text(), "listening on tcp:")
	at, _, _ = strings.Cut(at, "\n")
	url := daemon.HttpAt.FindStringSubmatch(d.Text())[1]
	bob, err := daemon.Attach(t, "tcp", at, root.Ask("ctl", "token bob"))
	if err != nil {
		t.Fatal(err)
	}
	calm := s.witness(bob, "status").end(t)
	free(d, root)
	before, keptBefore := uses(d, t, root), kept(root)
	for _, a := range crowds {
		t.Run(a.name, func(t *testing.T) {
			c := &crowd{t: t, n: n, token: root.Ask("ctl", "token alice"), ninep: at, http: url}
			defer func() {
				for _, conn := range c.mine {
					conn.Close()
				}
			}()
			w := s.witness(bob, "status")
			a.do(c)
			free(d, root)
			during, says := uses(d, t, root), kept(root)
			beside := w.end(t)
			grown := (during.heap - before.heap) << 10
			t.Logf("a client that behaves well: %s; kept %d kB, the heap grew by %d kB, the process by %d kB",
				beside.over(calm), (says-keptBefore)>>10, grown>>10, during.resident-before.resident)
			if says > megabytes<<20*3/4 {
				t.Errorf("one token has %d bytes of %d MB", says, megabytes)
			}
			if grown > 2*(says-keptBefore)+32<<20 {
				t.Errorf("the daemon says that it keeps %d bytes more, and its heap grew by %d", says-keptBefore, grown)
			}
			if most := before.resident + 2*megabytes<<10 + 64*n; during.resident > most && !daemon.Slowed {
				t.Errorf("the daemon has %d kB, want at most %d", during.resident, most)
			}
			if _, err := daemon.Attach(t, "unix", d.Sock(), ""); err != nil {
				t.Errorf("the operator: %v", err)
			}
		})
		daemon.Eventually(t, "all is given back after "+a.name, func() bool { return kept(root) < keptBefore+1<<20 })
	}
}

// A body is refused before it comes where it cannot be taken, and who does not
// say who it is, is gone.
func TestRefusedBeforeTheBody(t *testing.T) {
	d, url, operator := daemon.StartWeb(t, "--listen", "tcp:127.0.0.1:0")
	daemon.Create(t, operator, "alice")
	_, at, _ := strings.Cut(d.Text(), "listening on tcp:")
	at, _, _ = strings.Cut(at, "\n")
	url = strings.TrimPrefix(url, "http://")
	var silent []net.Conn
	for _, hello := range []struct{ at, says string }{
		{at, ""}, {at, string(packet(tversion, 0xffff, uint32(8192), "9P2000"))}, {at, "\x13\x00"}, {url, ""}, {url, "GET / HT"},
	} {
		conn, err := net.Dial("tcp", hello.at)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, hello.says)
		silent = append(silent, conn)
	}
	c := &crowd{t: t, token: daemon.TokenFor(t, operator, "alice r,/goals:rw"), http: url}
	for _, r := range []struct {
		line string
		want int
	}{
		{"POST /agents/alice/nothing", 404},
		{"POST /agents/alice/inbox/new", 403},
		{"PUT /agents/alice/nothing/there", 404},
		{"PUT /agents/alice/config", 403},
		{"PATCH /agents/alice/goals/none", 404},
		{"POST /agents/bob/v1/chat/completions", 404},
		{"POST /agents/alice/v1/chat/completions", 403},
	} {
		conn := c.ask(r.line, "Content-Length: 1000000\r\n")
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || res.StatusCode != r.want {
			t.Errorf("%s: %v, %v, want %d", r.line, res, err, r.want)
		}
		conn.Close()
	}
	for i, conn := range silent {
		conn.SetReadDeadline(time.Now().Add(daemon.Limit))
		if _, err := io.Copy(io.Discard, conn); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("connection %d that says nothing is not hung up on: %v", i, err)
		}
	}
}
