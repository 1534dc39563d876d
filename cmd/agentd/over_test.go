package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"agent9/fsys"
	"agent9/fsys/ninep"
)

// What a token has opened and not finished comes to nothing when the token is
// revoked, however it ends: in order, by a hang-up, or not at all.
func TestRevokedIsOver(t *testing.T) {
	d, url, operator := startWeb(t, "--listen", "tcp:127.0.0.1:0", "--compute", "e=echo:")
	create(t, operator, "alice")
	r, alice := d.root(), d.at("/agents/alice")
	alice.make("goals", "kept", "kept")
	alice.write("inbox/new", `{"id":"m","body":"for whoever comes"}`)
	ended := func(token, id string) { r.remove("tokens/" + id) }
	issue := func() (token, id string) {
		before := strings.Fields(r.list("tokens"))
		token = r.ask("ctl", "token alice rw")
		for _, id = range strings.Fields(r.list("tokens")) {
			if len(before) == 0 || !strings.Contains(strings.Join(before, " "), id) {
				return token, id
			}
		}
		t.Fatal("there is no new token")
		return "", ""
	}
	unchanged := func(what string) {
		t.Helper()
		equal(t, what+": the inbox", alice.list("inbox"), inboxFiles+" m")
		equal(t, what+": the goals", alice.list("goals"), "kept")
		equal(t, what+": the jobs", alice.list("compute/jobs"), "draft")
	}
	// Of each, one ends in order and one hangs up.
	for _, version := range []string{"9P2000", "9P2000.L"} {
		for _, hangUp := range []bool{false, true} {
			what := fmt.Sprint(version, ", hang-up: ", hangUp)
			token, id := issue()
			c := dial(t, "unix", d.sock(), ninep.DialVersion(version))
			root, err := c.Attach(within(t), "", token)
			if err != nil {
				t.Fatal(err)
			}
			own := &tree{t, c, root}
			var open []fsys.Handle
			if version == "9P2000" && !hangUp {
				own.mkdir("compute/jobs", "draft")
			}
			for _, path := range []string{"inbox/new", "outbox/new", "compute/new", "compute/jobs/draft/request", "logs/write"} {
				h := own.open(path, fsys.Read|fsys.Write)
				if _, err := fsys.WriteAt(within(t), h, []byte("plain text that ends with the file"), 0); err != nil {
					t.Fatal(path, err)
				}
				open = append(open, h)
			}
			next := own.open("inbox/next", fsys.Read)
			b := make([]byte, 1<<12)
			if n, err := fsys.ReadAt(within(t), next, b, 0); err != nil || !strings.Contains(string(b[:n]), "whoever") {
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
			h := alice.open("inbox/next", fsys.Read) // it was put back
			if p := alice.begin(h); true {
				p.ends(t)
				has(t, what+": the message", p.text, "whoever")
			}
			alice.client.Close() // and now again
			alice = d.at("/agents/alice")
			eventually(t, "the message is back", func() bool { return strings.Contains(alice.list("inbox"), "m") })
			unchanged(what)
		}
	}
	// Remove on clunk, by clunk, by hang-up and by the loss of the session.
	for i, end := range []func(*rough){
		func(c *rough) {
			c.Write(packet(tclunk, 1, uint32(1)))
			equal(t, "the clunk is refused", c.answer(), byte(rerror))
		},
		func(c *rough) { c.Close() },
		func(c *rough) { c.must(packet(tversion, 0xffff, uint32(1<<20), "9P2000")) },
	} {
		token, id := issue()
		c := d.roughly(t)
		c.must(packet(tversion, 0xffff, uint32(1<<20), "9P2000"))
		c.must(packet(tattach, 1, uint32(0), nobody, "mallory", token))
		c.must(walk(1, "goals", "kept"))
		c.must(packet(topen, 1, uint32(1), uint8(0x40)))
		ended(token, id)
		end(c)
		eventually(t, "the connection is over", func() bool { c.Close(); return true })
		unchanged(fmt.Sprint("ORCLOSE ", i))
	}
	// The same by a WebSocket.
	for _, op := range []string{"close", "sync", "read", ""} {
		token, id := issue()
		conn, _, err := websocket.Dial(within(t), strings.Replace(url, "http", "ws", 1)+"/agents/alice/", &websocket.DialOptions{Subprotocols: []string{"agent9", "bearer." + token}})
		if err != nil {
			t.Fatal(err)
		}
		if got := exchange(t, conn, `{"id":1,"op":"open","path":"/inbox/new","mode":"rw"}`); !strings.Contains(got, "message") {
			t.Fatal(got)
		}
		if got := exchange(t, conn, `{"id":2,"op":"write","file":1,"data":"plain text"}`); !strings.Contains(got, `"count":10`) {
			t.Fatal(got)
		}
		ended(token, id)
		if op != "" {
			exchange(t, conn, `{"id":3,"op":"`+op+`","file":1}`)
		}
		conn.CloseNow()
		unchanged("WebSocket: " + op)
	}
	// A body that comes afterwards.
	token, id := issue()
	body := &slowBody{first: "half", second: make(chan string)}
	req, err := http.NewRequestWithContext(within(t), "PUT", url+"/agents/alice/goals/half", body)
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
	s, d := withSpeaker(t)
	s.gate = make(chan struct{})
	r, alice := d.root(), d.at("/agents/alice")
	alice.write("compute/policy", `{"default_provider":"m","max_concurrent":1,"prices":{"*":{"input_microusd":1000000,"output_microusd":1000000}}}`)
	own := d.at(r.ask("ctl", "token alice rw"))
	session := "sessions/" + alice.ask("sessions/new", "talk")
	alice.write(session+"/prompt", "first one")
	if p := alice.begin(alice.open(session+"/stream", fsys.Read)); true {
		p.ends(t)
	}
	own.write(session+"/prompt", "second one")
	alice.write(session+"/prompt", "third one")
	job := own.ask("compute/new", `{"messages":[{"role":"user","content":"queued"}]}`)
	has(t, "status", alice.read("compute/jobs/"+job+"/status"), `"state":"queued"`)
	r.remove("tokens/" + r.list("tokens"))
	d.kill() // and that outlives the daemon
	d.start()
	close(s.gate)
	alice = d.at("/agents/alice")
	const why = "the token was revoked or has expired"
	for _, l := range alice.transcript(session+"/transcript", 1, 2, 3) {
		switch {
		case !l.final():
		case l.Prompt == 2:
			equal(t, "the second", l.Event+": "+l.Reason, "cancelled: "+why)
		default:
			equal(t, fmt.Sprint("prompt ", l.Prompt), l.Outcome, "done")
		}
	}
	if s.came["second one"]+s.came["queued"] > 0 {
		t.Error("the model was asked")
	}
}
