package web_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/fsys/export/web"
)

// An event is one of a stream of server-sent events.
type event struct {
	kind, id string
	data     string
}

// bytes is what of the stream the event stands for.
func (e event) bytes(t testing.TB) string {
	switch e.kind {
	case "":
		return e.data + "\n"
	case "part":
		return e.data
	case "base64":
		b, err := base64.StdEncoding.DecodeString(e.data)
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
	return ""
}

// nextEvent reads an event as the standard of HTML says.
func nextEvent(r *bufio.Reader) (e event, err error) {
	some := false
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return e, err
		}
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && some:
			return e, nil
		case name == "event":
			e.kind = value
		case name == "id":
			e.id = value
		case name == "data":
			e.data, some = value, true
		}
	}
}

// TestEventsResume reads a stream that grows, of whatever bytes, with
// connections that are cut at any place: nothing is missing and nothing comes
// twice.
func TestEventsResume(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"a line\n", "part", " of a line\n", "ünï✓\n", "\xe2", "\x9c", "\x93\n", "\xff\n", "\r\n", "\n", "{\"a\":1}\n", "\x00", strings.Repeat("long ", 40_000) + "\n", "data: x\n\n"}
	var log fsys.Memory
	tape := fsys.NewTape(&log)
	var want strings.Builder
	grow := func() {
		for range rnd.IntN(4) {
			p := pieces[rnd.IntN(len(pieces))]
			log.Append([]byte(p))
			want.WriteString(p)
		}
		tape.Grown()
	}
	url := serveTree(t, fsys.NewTable(fsys.Entry{Name: "log", Node: tape}))
	var got strings.Builder
	last := ""
	const rounds = 60
	for round := range rounds + 1 {
		if last := round == rounds; !last {
			grow()
		} else {
			want.WriteString("\xe2\x9c") // half a character
			log.Append([]byte("\xe2\x9c"))
			tape.End()
		}
		r := request(t, "GET", url+"/log", "", "Accept: text/event-stream")
		if last != "" {
			r.Header.Set("Last-Event-ID", last)
		}
		ctx, cut := context.WithTimeout(t.Context(), patience)
		res, err := http.DefaultTransport.RoundTrip(r.WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		events := bufio.NewReader(res.Body)
		// Half a character is held back until the rest of it is there.
		for n := rnd.IntN(6); round == rounds || n > 0 && got.Len() < want.Len()-2; n-- {
			e, err := nextEvent(events)
			if err != nil {
				t.Fatal(err)
			}
			got.WriteString(e.bytes(t))
			if last = e.id; last != strconv.Itoa(got.Len()) {
				t.Fatalf("the id is %s after %d bytes", last, got.Len())
			}
			if e.kind == "end" {
				break
			}
		}
		cut()
		res.Body.Close()
	}
	if got.String() != want.String() {
		t.Errorf("%d bytes came, not the %d that there are", got.Len(), want.Len())
	}
	// An EventSource that comes back after the end is told to stay away.
	res, _ := do(t, request(t, "GET", url+"/log?watch=1", "", "Last-Event-ID: "+strconv.Itoa(want.Len())))
	if res.StatusCode != 204 {
		t.Errorf("after the end: %d", res.StatusCode)
	}
}

// Events of streams that begin anew for each open have no id to come back
// with.
func TestEventsOfALiveStreamHaveNoID(t *testing.T) {
	var feed fsys.Feed
	var log fsys.Memory
	log.Append([]byte("before\n"))
	tape := fsys.NewTape(&log)
	url := serveTree(t, fsys.NewTable(fsys.Entry{Name: "feed", Node: &feed}, fsys.Entry{Name: "live", Node: tape.Live()}))
	for _, name := range []string{"feed", "live"} {
		res, err := http.DefaultTransport.RoundTrip(request(t, "GET", url+"/"+name+"?watch=1", ""))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		feed.Publish([]byte("now\n"))
		log.Append([]byte("now\n"))
		tape.Grown()
		if e, err := nextEvent(bufio.NewReader(res.Body)); err != nil || e != (event{data: "now"}) {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
}

func TestHeartbeat(t *testing.T) {
	tape := fsys.NewTape(new(fsys.Memory))
	url := serve(t, &web.Server{Attach: attach(fsys.NewTable(fsys.Entry{Name: "log", Node: tape})), Heartbeat: time.Millisecond})
	res, err := http.DefaultTransport.RoundTrip(request(t, "GET", url+"/log", "", "Accept: text/event-stream"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	p := make([]byte, 6)
	if _, err := io.ReadFull(res.Body, p); err != nil || string(p) != ":\n\n:\n\n" {
		t.Errorf("%q, %v", p, err)
	}
}

// A waiter is a file whose reads and requests wait until they are cancelled.
type waiter struct {
	kind          fsys.Kind
	entered, left chan struct{}
}

func newWaiter(k fsys.Kind) *waiter {
	return &waiter{k, make(chan struct{}, 4000), make(chan struct{}, 4000)}
}

func (w *waiter) Stat(context.Context) (fsys.Info, error) {
	return fsys.Info{Kind: w.kind, Perm: 0o666}, nil
}

func (w *waiter) Open(context.Context, fsys.Flag) (fsys.Handle, error) { return waiting{w}, nil }

type waiting struct{ w *waiter }

func (waiting) Close() error { return nil }

func (h waiting) WriteAt(_ context.Context, p []byte, _ int64) (int, error) { return len(p), nil }

func (h waiting) ReadAt(ctx context.Context, _ []byte, _ int64) (int, error) {
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	h.w.entered <- struct{}{}
	<-ctx.Done()
	h.w.left <- struct{}{}
	return 0, context.Cause(ctx)
}

func receive[T any](t testing.TB, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("%s: nothing after %v", what, patience)
	}
	return v
}

// A client that goes away cancels what it waited for.
func TestWhoGoesAwayCancels(t *testing.T) {
	stream, message := newWaiter(fsys.Stream), newWaiter(fsys.Message)
	url := serveTree(t, fsys.NewTable(fsys.Entry{Name: "stream", Node: stream}, fsys.Entry{Name: "message", Node: message}))
	for _, c := range []struct {
		method, path, body string
		w                  *waiter
	}{
		{"GET", "/stream", "", stream},
		{"GET", "/stream?watch=1", "", stream},
		{"POST", "/stream", "", stream},
		{"POST", "/message", "request", message},
	} {
		ctx, goAway := context.WithCancel(t.Context())
		go func() { // until goAway
			res, err := http.DefaultTransport.RoundTrip(request(t, c.method, url+c.path, c.body).WithContext(ctx))
			if err == nil {
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
		}()
		receive(t, c.w.entered, c.method+c.path)
		goAway()
		receive(t, c.w.left, "the end of "+c.method+c.path)
	}
}

// A grant that ends cuts off what uses it.
func TestRevokedWhileItWaits(t *testing.T) {
	w := newWaiter(fsys.Message)
	done := make(chan struct{})
	url := serve(t, &web.Server{Attach: func(context.Context, web.Peer, string) (web.Grant, error) {
		return web.Grant{Root: fsys.NewTable(fsys.Entry{Name: "w", Node: w}), Done: done}, nil
	}})
	status := make(chan int, 1)
	go func() {
		res, err := http.DefaultTransport.RoundTrip(request(t, "POST", url+"/w", "x"))
		if err != nil {
			status <- 0
			return
		}
		res.Body.Close()
		status <- res.StatusCode
	}()
	receive(t, w.entered, "the request")
	close(done)
	if got := receive(t, status, "the answer"); got != 401 {
		t.Errorf("status %d", got)
	}
}

// When the end of a grant has returned to who ended it, nothing of the tree is
// told any more, and nothing is done.
func TestRevokedIsAtOnce(t *testing.T) {
	for range 50 {
		done := make(chan struct{})
		goals := stored(t)
		url := serve(t, &web.Server{Attach: func(context.Context, web.Peer, string) (web.Grant, error) {
			return web.Grant{Root: fsys.NewTable(fsys.Entry{Name: "f", Node: fsys.Const("text")}, fsys.Entry{Name: "goals", Node: goals}), Done: done}, nil
		}})
		conn := dial(t, url)
		send(t, conn, `{"id":1,"op":"open","path":"/f"}`)
		if got := next(t, conn); !strings.Contains(got, `"kind":"file"`) {
			t.Fatal(got)
		}
		// A body that is under way when the grant ends is not what is written.
		body, slow := io.Pipe()
		r := request(t, "PUT", url+"/goals/late", "")
		r.Body = body
		status := make(chan int, 1)
		go func() {
			res, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				status <- 0
				return
			}
			res.Body.Close()
			status <- res.StatusCode
		}()
		io.WriteString(slow, "so far")
		close(done)
		send(t, conn, `{"id":2,"op":"read","file":1}`)
		if _, got, err := conn.Read(t.Context()); err == nil && !strings.Contains(string(got), `"forbidden"`) {
			t.Errorf("a read: %s", got)
		}
		io.WriteString(slow, " and more")
		slow.Close()
		if got := receive(t, status, "the answer"); got != 401 && got != 0 {
			t.Errorf("PUT: status %d", got)
		}
		if _, err := fsys.Walk(t.Context(), goals, "late"); fsys.CodeOf(err) != fsys.NotExist {
			t.Errorf("the file was written: %v", err)
		}
		conn.CloseNow()
	}
}

// Shutdown ends events in order, says so to who waits, and leaves nothing.
func TestShutdown(t *testing.T) {
	w := newWaiter(fsys.Message)
	var log fsys.Memory
	log.Append([]byte("one\n"))
	s := &web.Server{Attach: attach(fsys.NewTable(fsys.Entry{Name: "log", Node: fsys.NewTape(&log)}, fsys.Entry{Name: "w", Node: w}))}
	url := serve(t, s)
	res, err := http.DefaultTransport.RoundTrip(request(t, "GET", url+"/log?watch=1", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := http.DefaultTransport.RoundTrip(request(t, "GET", url+"/log", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Body.Close()
	status := make(chan int, 1)
	go func() {
		res, err := http.DefaultTransport.RoundTrip(request(t, "POST", url+"/w", "x"))
		if err != nil {
			status <- 0
			return
		}
		res.Body.Close()
		status <- res.StatusCode
	}()
	receive(t, w.entered, "the request")
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if text, err := io.ReadAll(res.Body); err != nil || string(text) != "id: 4\ndata: one\n\n" {
		t.Errorf("events: %q, %v", text, err)
	}
	if text, err := io.ReadAll(raw.Body); err == nil || string(text) != "one\n" {
		t.Errorf("a stream that was cut off looks whole: %q, %v", text, err)
	}
	if got := receive(t, status, "the answer"); got != 502 {
		t.Errorf("who waited was answered %d", got)
	}
}

func TestBounds(t *testing.T) {
	w := newWaiter(fsys.Message)
	url := serve(t, &web.Server{MaxBody: 1000, MaxRequests: 2, ReadTimeout: 50 * time.Millisecond, Attach: attach(fsys.NewTable(
		fsys.Entry{Name: "w", Node: w}, fsys.Entry{Name: "new", Node: echo()},
	))})
	if res, body := do(t, request(t, "POST", url+"/new", strings.Repeat("x", 1001))); res.StatusCode != 413 {
		t.Errorf("a long body: %d %s", res.StatusCode, body)
	}
	r := request(t, "POST", url+"/new", "")
	r.Body, r.ContentLength = io.NopCloser(io.LimitReader(zeros{}, 1001)), -1
	if res, body := do(t, r); res.StatusCode != 413 {
		t.Errorf("a long body of unknown length: %d %s", res.StatusCode, body)
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /new HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: 10\r\n\r\nabc", token)
	if res, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || res.StatusCode != 408 {
		t.Errorf("a body that does not come: %v, %v", res, err)
	}
	ctx, goAway := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if res, err := http.DefaultTransport.RoundTrip(request(t, "POST", url+"/w", "x").WithContext(ctx)); err == nil {
				res.Body.Close()
			}
		})
		receive(t, w.entered, "a request")
	}
	if res, body := do(t, request(t, "POST", url+"/new", "x")); res.StatusCode != 409 {
		t.Errorf("a third request: %d %s", res.StatusCode, body)
	}
	goAway()
	wg.Wait()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// Readers that read nothing cost what a connection costs, however much they
// do not read, and do not outlast their patience.
func TestSlowReaders(t *testing.T) {
	const readers, most = 1000, 128 << 10 // both ends of the connection, under the race detector
	var log fsys.Memory
	tape := fsys.NewTape(&log)
	s := &web.Server{Attach: attach(fsys.NewTable(fsys.Entry{Name: "log", Node: tape})), WriteTimeout: time.Second}
	gone := make(chan struct{}, readers)
	s.Observe = func(string, int, time.Duration) { gone <- struct{}{} }
	url := serve(t, s)
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	before := inUse()
	for range readers {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Skipf("no %d connections on this machine: %v", readers, err)
		}
		conns = append(conns, conn)
		conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		fmt.Fprintf(conn, "GET /log?watch=1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", token)
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	log.Append(bytes.Repeat([]byte(strings.Repeat("x", 999)+"\n"), 4<<10)) // 4 MB for each
	tape.Grown()
	if each := (inUse() - before - 4<<20) / readers; each > most {
		t.Errorf("%d bytes for each reader, want at most %d", each, most)
	} else {
		t.Logf("%d bytes for each reader", each)
	}
	for range readers {
		receive(t, gone, "the end of a reader that does not read")
	}
}

func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
