package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"agent9/conformance/daemon"
	"agent9/fsys"
	"agent9/fsys/ninep"
)

// What a token has opened and not finished comes to nothing when the token is
// revoked, however it ends: in order, by a hang-up, or not at all.
func TestRevokedIsOver(t *testing.T) {
	d, url, operator := daemon.StartWeb(t, "--listen", "tcp:127.0.0.1:0", "--compute", "e=echo:")
	daemon.Create(t, operator, "alice")
	r, alice := d.Root(), d.At("/agents/alice")
	alice.Make("goals", "kept", "kept")
	alice.Write("inbox/new", `{"id":"m","body":"for whoever comes"}`)
	ended := func(token, id string) { r.Remove("tokens/" + id) }
	issue := func() (token, id string) {
		before := strings.Fields(r.List("tokens"))
		token = r.Ask("ctl", "token alice rw")
		for _, id = range strings.Fields(r.List("tokens")) {
			if len(before) == 0 || !strings.Contains(strings.Join(before, " "), id) {
				return token, id
			}
		}
		t.Fatal("there is no new token")
		return "", ""
	}
	unchanged := func(what string) {
		t.Helper()
		daemon.Equal(t, what+": the inbox", alice.List("inbox"), daemon.InboxFiles+" m")
		daemon.Equal(t, what+": the goals", alice.List("goals"), "kept")
		daemon.Equal(t, what+": the jobs", alice.List("compute/jobs"), "draft")
	}
	// Of each, one ends in order and one hangs up.
	for _, version := range []string{"9P2000", "9P2000.L"} {
		for _, hangUp := range []bool{false, true} {
			what := fmt.Sprint(version, ", hang-up: ", hangUp)
			token, id := issue()
			c := daemon.Dial(t, "unix", d.Sock(), ninep.DialVersion(version))
			root, err := c.Attach(daemon.Within(t), "", token)
			if err != nil {
				t.Fatal(err)
			}
			own := &daemon.Tree{T: t, Client: c, Root: root}
			var open []fsys.Handle
			if version == "9P2000" && !hangUp {
				own.Mkdir("compute/jobs", "draft")
			}
			for _, path := range []string{"inbox/new", "outbox/new", "compute/new", "compute/jobs/draft/request", "logs/write"} {
				h := own.Open(path, fsys.Read|fsys.Write)
				if _, err := fsys.WriteAt(daemon.Within(t), h, []byte("plain text that ends with the file"), 0); err != nil {
					t.Fatal(path, err)
				}
				open = append(open, h)
			}
			next := own.Open("inbox/next", fsys.Read)
			b := make([]byte, 1<<12)
			if n, err := fsys.ReadAt(daemon.Within(t), next, b, 0); err != nil || !strings.Contains(string(b[:n]), "whoever") {
				t.Fatal(string(b[:n]), err)
			}
			open = append(open, next)
			ended(token, id)
			for _, h := range open {
				if hangUp {
					continue
				}
				h.Close()
			}
			c.Close()
			h := alice.Open("inbox/next", fsys.Read) // it was put back
			if p := alice.Begin(h); true {
				p.Ends(t)
				daemon.Has(t, what+": the message", p.Text, "whoever")
			}
			alice.Client.Close() // and now again
			alice = d.At("/agents/alice")
			daemon.Eventually(t, "the message is back", func() bool { return strings.Contains(alice.List("inbox"), "m") })
			unchanged(what)
		}
	}
	// Remove on clunk, by clunk, by hang-up and by the loss of the session.
	for i, end := range []func(*rough){
		func(c *rough) {
			c.Write(packet(tclunk, 1, uint32(1)))
			daemon.Equal(t, "the clunk is refused", c.answer(), byte(rerror))
		},
		func(c *rough) { c.Close() },
		func(c *rough) { c.must(packet(tversion, 0xffff, uint32(1<<20), "9P2000")) },
	} {
		token, id := issue()
		c := roughly(d, t)
		c.must(packet(tversion, 0xffff, uint32(1<<20), "9P2000"))
		c.must(packet(tattach, 1, uint32(0), nobody, "mallory", token))
		c.must(walk(1, "goals", "kept"))
		c.must(packet(topen, 1, uint32(1), uint8(0x40)))
		ended(token, id)
		end(c)
		daemon.Eventually(t, "the connection is over", func() bool { c.Close(); return true })
		unchanged(fmt.Sprint("ORCLOSE ", i))
	}
	// The same by a WebSocket.
	for _, op := range []string{"close", "sync", "read", ""} {
		token, id := issue()
		conn, _, err := websocket.Dial(daemon.Within(t), strings.Replace(url, "http", "ws", 1)+"/agents/alice/", &websocket.DialOptions{Subprotocols: []string{"agent9", "bearer." + token}})
		if err != nil {
			t.Fatal(err)
		}
		if got := daemon.Exchange(t, conn, `{"id":1,"op":"open","path":"/inbox/new","mode":"rw"}`); !strings.Contains(got, "message") {
			t.Fatal(got)
		}
		if got := daemon.Exchange(t, conn, `{"id":2,"op":"write","file":1,"data":"plain text"}`); !strings.Contains(got, `"count":10`) {
			t.Fatal(got)
		}
		ended(token, id)
		if op != "" {
			daemon.Exchange(t, conn, `{"id":3,"op":"`+op+`","file":1}`)
		}
		conn.CloseNow()
		unchanged("WebSocket: " + op)
	}
	// A body that comes afterwards.
	token, id := issue()
	body := &slowBody{first: "half", second: make(chan string)}
	req, err := http.NewRequestWithContext(daemon.Within(t), "PUT", url+"/agents/alice/goals/half", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	answered := make(chan int, 1)
	go func() {
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			res.Body.Close()
			answered <- res.StatusCode
		} else {
			answered <- 0
		}
	}()
	body.second <- "more"
	ended(token, id)
	close(body.second)
	if status := <-answered; status != 0 && status != 401 {
		t.Errorf("a body that came too late: %d", status)
	}
	unchanged("HTTP")
}

// slowBody is a body of which something is sent first and the rest as it
// comes.
type slowBody struct {
	first  string
	second chan string
}

func (b *slowBody) Read(p []byte) (int, error) {
	if b.first != "" {
		n := copy(p, b.first)
		b.first = b.first[n:]
		return n, nil
	}
	s, ok := <-b.second
	if !ok {
		return 0, io.EOF
	}
	return copy(p, s), nil
}

// What waits when its token ends does not begin, and says why.
func TestWhatWaitsEndsWithItsToken(t *testing.T) {
	s, d := daemon.WithSpeaker(t)
	s.Gate = make(chan struct{})
	r, alice := d.Root(), d.At("/agents/alice")
	alice.Write("compute/policy", `{"default_provider":"m","max_concurrent":1,"prices":{"*":{"input_microusd":1000000,"output_microusd":1000000}}}`)
	own := d.At(r.Ask("ctl", "token alice rw"))
	session := "sessions/" + alice.Ask("sessions/new", "talk")
	alice.Write(session+"/prompt", "first one")
	if p := alice.Begin(alice.Open(session+"/stream", fsys.Read)); true {
		p.Ends(t)
	}
	own.Write(session+"/prompt", "second one")
	alice.Write(session+"/prompt", "third one")
	job := own.Ask("compute/new", `{"messages":[{"role":"user","content":"queued"}]}`)
	daemon.Has(t, "status", alice.Read("compute/jobs/"+job+"/status"), `"state":"queued"`)
	r.Remove("tokens/" + r.List("tokens"))
	d.Kill() // and that outlives the daemon
	d.Start()
	close(s.Gate)
	alice = d.At("/agents/alice")
	const why = "the token was revoked or has expired"
	for _, l := range alice.Transcript(session+"/transcript", 1, 2, 3) {
		switch {
		case !l.Final():
		case l.Prompt == 2:
			daemon.Equal(t, "the second", l.Event+": "+l.Reason, "cancelled: "+why)
		default:
			daemon.Equal(t, fmt.Sprint("prompt ", l.Prompt), l.Outcome, "done")
		}
	}
	if s.Came["second one"]+s.Came["queued"] > 0 {
		t.Error("the model was asked")
	}
}
