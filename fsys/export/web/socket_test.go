package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"

	"agent9/fsys"
	"agent9/fsys/export/web"
	"agent9/fsys/share"
)

func dial(t *testing.T, url string) *websocket.Conn {
	t.Helper()
	// As a browser does it, which cannot send headers.
	conn, _, err := websocket.Dial(t.Context(), strings.Replace(url, "http", "ws", 1), &websocket.DialOptions{Subprotocols: []string{"agent9", "bearer." + token}})
	if err != nil {
		t.Fatal(err)
	}
	if conn.Subprotocol() != "agent9" {
		t.Errorf("the protocol is %q", conn.Subprotocol())
	}
	t.Cleanup(func() { conn.CloseNow() })
	return conn
}

func send(t *testing.T, conn *websocket.Conn, frame string) {
	t.Helper()
	if err := conn.Write(t.Context(), websocket.MessageText, []byte(frame)); err != nil {
		t.Fatal(err)
	}
}

func next(t *testing.T, conn *websocket.Conn) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, text, err := conn.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(string(text), "\n")
}

// TestSocketTranscript is a conversation as the manual shows it.
func TestSocketTranscript(t *testing.T) {
	conn := dial(t, serveTree(t, office(t)))
	for _, c := range []struct{ request, answer string }{
		{`{"id":1,"op":"stat","path":"/README"}`, `{"id":1,"info":{"kind":"file","size":12,"perm":292}}`},
		{`{"id":2,"op":"open","path":"/new","mode":"rw"}`, `{"id":2,"info":{"kind":"message","size":0,"perm":438}}`},
		{`{"id":3,"op":"write","file":2,"data":"{\"a\":1}"}`, `{"id":3,"count":7}`},
		{`{"id":4,"op":"read","file":2}`, `{"id":4,"data":"alice said {\"a\":1}\n"}`},
		{`{"id":5,"op":"close","file":2}`, `{"id":5}`},
		{`{"id":6,"op":"read","file":2}`, `{"id":6,"error":{"code":"bad-handle","reason":"no file with this number is open"}}`},
		{`{"id":7,"op":"open","path":"/goals/g","mode":"wtc"}`, `{"id":7,"info":{"kind":"file"`},
		{`{"id":8,"op":"write","file":7,"data":"abc"}`, `{"id":8,"count":3}`},
		{`{"id":9,"op":"close","file":7}`, `{"id":9}`},
		{`{"id":10,"op":"list","path":"/goals"}`, `{"id":10,"entries":[{"name":"g","kind":"file","size":3,`},
		{`{"id":11,"op":"rename","path":"/goals/g","to":"h"}`, `{"id":11}`},
		{`{"id":12,"op":"remove","path":"/goals/h"}`, `{"id":12}`},
		{`{"id":13,"op":"stat","path":"/goals/../README"}`, `{"id":13,"error":{"code":"invalid","reason":"the path: a name cannot be .."}}`},
		{`{"id":14,"op":"stat","path":"//README"}`, `{"id":14,"error":{"code":"invalid"`},
		{`{"id":15,"op":"open","path":"/bytes"}`, `{"id":15,"info":`},
		{`{"id":16,"op":"read","file":15}`, `{"id":16,"base64":"/wA="}`},
		{`{"id":17,"op":"fly"}`, `{"id":17,"error":{"code":"invalid","reason":"unknown op \"fly\""}}`},
		{`{"id":18,"op":"write","file":15,"data":"x"}`, `{"id":18,"error":{"code":"bad-handle"}}`},
		{`not JSON`, `{"id":0,"error":{"code":"invalid"`},
		{`{"id":19,"colour":"red"}`, `{"id":19,"error":{"code":"invalid"`},
	} {
		send(t, conn, c.request)
		if got := next(t, conn); got != c.answer && !(strings.HasPrefix(got, c.answer) && !strings.HasSuffix(c.answer, "}")) {
			t.Errorf("%s\n got %s\nwant %s", c.request, got, c.answer)
		}
	}
}

// A watch sends no more than its credit, and holds up nothing else.
func TestSocketCredit(t *testing.T) {
	var log fsys.Memory
	for i := range 1000 {
		log.Append(fmt.Appendf(nil, "%09d\n", i))
	}
	tape := fsys.NewTape(&log)
	conn := dial(t, serveTree(t, fsys.NewTable(fsys.Entry{Name: "log", Node: tape}, fsys.Entry{Name: "README", Node: fsys.Const("hello\n")})))
	send(t, conn, `{"id":1,"op":"open","path":"/log"}`)
	next(t, conn)
	send(t, conn, `{"id":2,"op":"watch","file":1,"offset":10,"credit":20}`)
	if got := next(t, conn); got != `{"id":2,"offset":10,"data":"000000001\n000000002\n"}` {
		t.Errorf("got %s", got)
	}
	send(t, conn, `{"id":3,"op":"stat","path":"/README"}`)
	if got := next(t, conn); !strings.HasPrefix(got, `{"id":3,`) {
		t.Errorf("beyond its credit the watch said %s", got)
	}
	send(t, conn, `{"op":"credit","of":2,"credit":10}`)
	if got := next(t, conn); got != `{"id":2,"offset":30,"data":"000000003\n"}` {
		t.Errorf("got %s", got)
	}
	send(t, conn, `{"op":"credit","of":2,"credit":1000000}`)
	tape.End()
	off := int64(40)
	for {
		var f web.Frame
		if err := json.Unmarshal([]byte(next(t, conn)), &f); err != nil {
			t.Fatal(err)
		}
		if f.EOF {
			break
		}
		if f.Offset != off {
			t.Fatalf("the offset is %d, want %d", f.Offset, off)
		}
		off += int64(len(f.Data))
	}
	if off != 10_000 {
		t.Errorf("%d bytes came", off)
	}
}

func TestSocketCancel(t *testing.T) {
	w := newWaiter(fsys.Stream)
	conn := dial(t, serveTree(t, fsys.NewTable(fsys.Entry{Name: "w", Node: w})))
	send(t, conn, `{"id":1,"op":"open","path":"/w"}`)
	next(t, conn)
	send(t, conn, `{"id":2,"op":"read","file":1}`)
	receive(t, w.entered, "the read")
	send(t, conn, `{"op":"cancel","of":2}`)
	if got := next(t, conn); got != `{"id":2,"error":{"code":"canceled"}}` && !strings.Contains(got, `"canceled"`) {
		t.Errorf("got %s", got)
	}
	receive(t, w.left, "the end of the read")
	send(t, conn, `{"id":3,"op":"read","file":1}`)
	receive(t, w.entered, "the read")
	conn.CloseNow()
	receive(t, w.left, "the end of a read whose client has gone")
}

// Shutdown says goodbye.
func TestSocketShutdown(t *testing.T) {
	w := newWaiter(fsys.Stream)
	s := &web.Server{Attach: attach(fsys.NewTable(fsys.Entry{Name: "w", Node: w}))}
	conn := dial(t, serve(t, s))
	send(t, conn, `{"id":1,"op":"open","path":"/w"}`)
	next(t, conn)
	send(t, conn, `{"id":2,"op":"read","file":1}`)
	receive(t, w.entered, "the read")
	ended := make(chan error, 1)
	go func() {
		for {
			if _, _, err := conn.Read(context.Background()); err != nil {
				ended <- err
				return
			}
		}
	}()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	var closed websocket.CloseError
	if err := receive(t, ended, "the end"); !errors.As(err, &closed) || closed.Code != websocket.StatusGoingAway {
		t.Errorf("the end is %v", err)
	}
	receive(t, w.left, "the end of the read")
}

// Who opens many texts at once makes the daemon hold no more of them than it may
// keep, and the rest is refused.
func TestTextsAreNotMadeAtOnce(t *testing.T) {
	const asked = 100
	var making, most atomic.Int32
	goOn := make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(release)
	text := fsys.Text(func(context.Context) ([]byte, error) {
		n := making.Add(1)
		defer making.Add(-1)
		for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
		}
		<-goOn
		return make([]byte, 1<<20), nil
	})
	url := serve(t, &web.Server{Attach: attach(fsys.NewTable(fsys.Entry{Name: "text", Node: text})), Pool: share.NewPool(16<<20, 0)})
	conn := dial(t, url)
	for i := range asked {
		send(t, conn, fmt.Sprintf(`{"id":%d,"op":%q,"path":"/text"}`, i, []string{"open", "stat"}[i%2]))
	}
	for i := range asked - 10 {
		if n := most.Load(); n > 10 {
			t.Fatalf("%d texts are made at once, and %d opens refused", n, i)
		}
		if got := next(t, conn); !strings.Contains(got, `"busy"`) {
			t.Errorf("answers %s", got)
		}
	}
	release()
	if n := most.Load(); n < 2 || n > 10 {
		t.Errorf("%d texts are made at once", n)
	}
}
