package web_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"agent9/fsys"
	"agent9/fsys/export/web"
)

// raw sends bytes as they are and returns the status of each answer until the
// server hangs up or has nothing more to say.
func raw(t *testing.T, url, text string) (statuses []int) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	go io.WriteString(conn, text) // ends with the connection
	answers := bufio.NewReader(conn)
	for {
		res, err := http.ReadResponse(answers, nil)
		if err != nil {
			return statuses
		}
		io.Copy(io.Discard, res.Body)
		statuses = append(statuses, res.StatusCode)
		if res.Close {
			return statuses
		}
	}
}

// What two servers in a row could take for different requests is refused, and
// what follows it is not read.
func TestSmuggledRequests(t *testing.T) {
	goals := stored(t)
	url := serveTree(t, fsys.NewTable(fsys.Entry{Name: "README", Node: fsys.Const("x")}, fsys.Entry{Name: "goals", Node: goals}, fsys.Entry{Name: "new", Node: echo()}))
	head := "Host: localhost\r\nAuthorization: Bearer " + token + "\r\n"
	smuggled := "PUT /goals/smuggled HTTP/1.1\r\n" + head + "Content-Length: 1\r\nConnection: close\r\n\r\nx"
	for _, c := range []struct {
		what, text string
		status     int
	}{
		{"two lengths", "POST /new HTTP/1.1\r\n" + head + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nx" + smuggled, 400},
		{"a negative length", "POST /new HTTP/1.1\r\n" + head + "Content-Length: -1\r\n\r\n" + smuggled, 400},
		{"a length with a sign", "POST /new HTTP/1.1\r\n" + head + "Content-Length: +1\r\n\r\nx" + smuggled, 400},
		{"an unknown coding", "POST /new HTTP/1.1\r\n" + head + "Transfer-Encoding: gzip\r\n\r\n" + smuggled, 501},
		{"a coding twice", "POST /new HTTP/1.1\r\n" + head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + smuggled, 501},
		{"a bad chunk", "POST /new HTTP/1.1\r\n" + head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n" + smuggled, 499},
		{"a space before the colon", "POST /new HTTP/1.1\r\nHost: localhost\r\nContent-Length : 1\r\n\r\nx" + smuggled, 400},
		{"a header that goes on", "GET /README HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\x00: c\r\n\r\n" + smuggled, 400},
		{"two hosts", "GET /README HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n" + smuggled, 400},
		{"no host", "GET /README HTTP/1.1\r\n\r\n" + smuggled, 400},
		{"another host in the line", "GET http://evil.example/README HTTP/1.1\r\n" + head + "Connection: close\r\n\r\n", 421},
		{"no host, HTTP/1.0", "GET /README HTTP/1.0\r\nAuthorization: Bearer " + token + "\r\n\r\n", 421},
		{"a control character in the path", "GET /READ\x01ME HTTP/1.1\r\n" + head + "\r\n" + smuggled, 400},
		{"a header of 100 KB", "GET /README HTTP/1.1\r\n" + head + "X: " + strings.Repeat("x", 100<<10) + "\r\n\r\n" + smuggled, 431},
		{"10,000 headers", "GET /README HTTP/1.1\r\n" + head + strings.Repeat("X: xxxx\r\n", 10_000) + "\r\n" + smuggled, 431},
		{"a path of 100 KB", "GET /" + strings.Repeat("x", 100<<10) + " HTTP/1.1\r\n" + head + "\r\n" + smuggled, 431},
		{"HTTP/2 at once", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + smuggled, 421},
	} {
		if got := raw(t, url, c.text); len(got) != 1 || got[0] != c.status {
			t.Errorf("%s: answers %v, want one %d", c.what, got, c.status)
		}
		if _, err := fsys.Walk(t.Context(), goals, "smuggled"); fsys.CodeOf(err) != fsys.NotExist {
			t.Fatalf("%s: what followed was done: %v", c.what, err)
		}
	}
	if got := raw(t, url, "GET /README HTTP/1.1\r\n"+head+"\r\n"+smuggled); len(got) != 2 || got[0] != 200 || got[1] != 201 {
		t.Errorf("two requests in order: %v", got)
	}
}

// A body that comes by the byte keeps nobody waiting for long, however long it
// is said to be.
func TestSlowBody(t *testing.T) {
	s := &web.Server{MaxBody: 1 << 20, ReadTimeout: 300 * time.Millisecond, Attach: attach(fsys.NewTable(fsys.Entry{Name: "new", Node: echo()}))}
	url := serve(t, s)
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /new HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", token, 1<<20)
	stop := make(chan struct{})
	defer close(stop)
	go func() { // until stop
		drip := time.NewTicker(20 * time.Millisecond)
		defer drip.Stop()
		for {
			select {
			case <-drip.C:
				io.WriteString(conn, "x")
			case <-stop:
				return
			}
		}
	}()
	conn.SetReadDeadline(time.Now().Add(patience))
	if res, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || res.StatusCode != 408 {
		t.Errorf("a body by the byte: %v, %v", res, err)
	}
	if res, body := do(t, request(t, "POST", url+"/new", "x")); res.StatusCode != 200 {
		t.Errorf("after it: %d %s", res.StatusCode, body)
	}
}

func TestOffsets(t *testing.T) {
	url := serveTree(t, office(t))
	for _, query := range []string{"?wait=0s", "?watch=1&wait=0s"} {
		for id, want := range map[string]int{
			"0": 200, "3": 200, "7": 200, "8": 416, "9223372036854775807": 416, "9223372036854775808": 400,
			"-1": 400, "x": 400, "1.5": 400, "0x7": 400, " 7": 200, strings.Repeat("9", 1000): 400,
		} {
			res, body := do(t, request(t, "GET", url+"/quiet"+query, "", "Last-Event-ID: "+id))
			if res.StatusCode != want && !(id == "7" && res.StatusCode == 204) {
				t.Errorf("%s, Last-Event-ID %.30q: %d %s, want %d", query, id, res.StatusCode, body, want)
			}
			if len(body) > 400 {
				t.Errorf("an answer of %d bytes", len(body))
			}
		}
	}
	for _, wait := range []string{"x", "-1s", "1", "99999999999999h"} {
		if res, body := do(t, request(t, "GET", url+"/quiet?wait="+wait, "")); res.StatusCode != 400 {
			t.Errorf("wait %s: %d %s", wait, res.StatusCode, body)
		}
	}
	// What would be far away is not made up of nothing.
	do(t, request(t, "PUT", url+"/goals/f", "x"))
	for _, offset := range []string{"9223372036854775807", "1000000000000000"} {
		if res, body := do(t, request(t, "PATCH", url+"/goals/f?offset="+offset, "x")); res.StatusCode < 400 {
			t.Errorf("PATCH at %s: %d %s", offset, res.StatusCode, body)
		}
	}
	// HEAD looks, and reads nothing.
	for _, path := range []string{"/quiet", "/quiet?watch=1", "/new", "/ctl"} {
		if res, body := do(t, request(t, "HEAD", url+path, "", "Accept: text/event-stream")); res.StatusCode != 200 || body != "" {
			t.Errorf("HEAD %s: %d %q", path, res.StatusCode, body)
		}
	}
}

// What a WebSocket is sent by mistake is answered, and harms nothing.
func TestSocketMistakes(t *testing.T) {
	url := serveTree(t, office(t))
	conn := dial(t, url)
	send(t, conn, `{"id":1,"op":"open","path":"/README"}`)
	next(t, conn)
	for _, c := range []struct{ frame, want string }{
		{``, "the message is not a JSON frame"},
		{`[]`, "the message is not a JSON frame"},
		{`{"id":2,"op":"stat","pth":"/"}`, "the message is not a JSON frame"},
		{`{"id":"two"}`, "the message is not a JSON frame"},
		{`{"id":2}`, "unknown op"},
		{`{"id":2,"op":"launch"}`, "unknown op"},
		{`{"id":2,"op":"read"}`, "read needs a file"},
		{`{"id":2,"op":"read","file":99}`, `"bad-handle"`},
		{`{"id":1,"op":"open","path":"/README"}`, "this file number is in use"},
		{`{"id":2,"op":"read","file":1,"offset":-1}`, `"invalid"`},
		{`{"id":2,"op":"write","file":1,"data":"x"}`, `"bad-handle"`},
		{`{"id":2,"op":"write","file":1,"base64":"?"}`, `"invalid"`},
		{`{"id":2,"op":"open","path":"/README","mode":"rq"}`, "mode must consist of"},
		{`{"id":2,"op":"stat","path":"/../README"}`, "a name cannot be"},
		{`{"id":2,"op":"stat","path":"/agents//alice"}`, "a name cannot be empty"},
		{`{"id":2,"op":"stat","path":"/README\u0000"}`, "a name cannot contain"},
		{`{"id":2,"op":"mkdir"}`, `"forbidden"`},
		{`{"id":2,"op":"rename","path":"/goals","to":"a/b"}`, "a name cannot contain"},
		{`{"id":2,"op":"truncate","path":"/goals","size":-1}`, `"is-directory"`},
		{`{"id":2,"op":"setattr","path":"/goals","mtime":"soon"}`, "mtime must be a time"},
		{`{"id":2,"op":"credit","of":1}`, ""}, // of what has ended
		{`{"id":2,"op":"read","file":1,"count":-5}`, `hello`},
		{`{"id":2,"op":"read","file":1,"count":9000000000}`, `hello`},
	} {
		send(t, conn, c.frame)
		if c.want == "" {
			continue
		}
		if got := next(t, conn); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", c.frame, got, c.want)
		}
	}
	if err := conn.Write(t.Context(), websocket.MessageBinary, []byte(`{"id":2,"op":"stat","path":"/"}`)); err != nil {
		t.Fatal(err)
	}
	if got := next(t, conn); !strings.Contains(got, "the message is not a JSON frame") {
		t.Errorf("a binary frame: %s", got)
	}
	conn.Write(t.Context(), websocket.MessageText, make([]byte, 2<<20+1))
	var closed websocket.CloseError
	if _, _, err := conn.Read(t.Context()); !errors.As(err, &closed) || closed.Code != websocket.StatusMessageTooBig {
		t.Errorf("too large a frame: %v", err)
	}
}

// A client that sends more than is done with is not read any further.
func TestSocketHoldsNoMore(t *testing.T) {
	w := blocked{make(chan int, 100)}
	conn := dial(t, serveTree(t, fsys.NewTable(fsys.Entry{Name: "w", Node: w})))
	send(t, conn, `{"id":1,"op":"open","path":"/w","mode":"w"}`)
	next(t, conn)
	conn.CloseRead(t.Context()) // answers pings
	part := base64.StdEncoding.EncodeToString(make([]byte, 1<<20))
	ctx, giveUp := context.WithCancel(t.Context())
	sending := make(chan struct{})
	go func() {
		defer close(sending)
		for id := 2; ; id++ {
			if conn.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"id":%d,"op":"write","file":1,"base64":"%s"}`, id, part)) != nil {
				return
			}
		}
	}()
	held := receive(t, w.held, "a write") + receive(t, w.held, "a second write")
	select {
	case <-w.held:
		t.Errorf("a third write is held besides %d bytes", held)
	case <-time.After(100 * time.Millisecond):
	}
	giveUp()
	<-sending
}

// A client that has gone while nothing more of it was read, and one that reads
// nothing, are cut off.
func TestSocketIsCutOff(t *testing.T) {
	gone := make(chan struct{}, 10)
	log := new(fsys.Memory)
	log.Append(make([]byte, 8<<20))
	w := blocked{make(chan int, 2000)}
	s := &web.Server{WriteTimeout: time.Second, Heartbeat: time.Second}
	s.Attach = attach(fsys.NewTable(fsys.Entry{Name: "w", Node: w}, fsys.Entry{Name: "log", Node: fsys.NewTape(log)}))
	s.Observe = func(string, int, time.Duration) { gone <- struct{}{} }
	url := serve(t, s)

	conn := dial(t, url)
	send(t, conn, `{"id":1,"op":"open","path":"/w","mode":"w"}`)
	next(t, conn)
	for id := range 1100 {
		if conn.Write(t.Context(), websocket.MessageText, fmt.Appendf(nil, `{"id":%d,"op":"write","file":1,"data":"x"}`, id+2)) != nil {
			break // cut off already
		}
	}
	conn.CloseNow()
	receive(t, gone, "the end of who has gone")

	conn = dial(t, url)
	send(t, conn, `{"id":1,"op":"open","path":"/log"}`)
	next(t, conn)
	send(t, conn, `{"id":2,"op":"watch","file":1,"credit":99999999}`)
	receive(t, gone, "the end of who reads nothing")
}

// blocked is a file whose writes wait, and says how much each holds.
type blocked struct{ held chan int }

func (blocked) Stat(context.Context) (fsys.Info, error) {
	return fsys.Info{Kind: fsys.Stream, Perm: 0o222}, nil
}

func (b blocked) Open(context.Context, fsys.Flag) (fsys.Handle, error) { return b, nil }

func (blocked) Close() error { return nil }

func (b blocked) WriteAt(ctx context.Context, p []byte, _ int64) (int, error) {
	b.held <- len(p)
	<-ctx.Done()
	return 0, context.Cause(ctx)
}
