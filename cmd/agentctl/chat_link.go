package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"agent9/fsys"
)

// A link is a connection of a talk, on which its session is followed.
type link struct {
	s          *session
	dir        string // the agent's tree
	ctx        context.Context
	cancel     context.CancelFunc
	transcript chan piece
	stream     chan piece
	lost       chan error // why one of them is followed no longer
}

// A piece is some bytes of a stream; none is its end.
type piece struct {
	off  int64
	text []byte
}

func (l *link) close() {
	if l != nil {
		l.cancel()
		l.s.client.Close()
	}
}

// over reports whether the connection has ended.
func (l *link) over() bool {
	select {
	case <-l.s.client.Done():
		return true
	default:
		return false
	}
}

// connect dials, finds or begins the session, and follows it from where the
// view is.
func (t *talk) connect() error {
	s, err := dial(t.Context, "9P2000")
	if err != nil {
		return err
	}
	l := &link{s: s, transcript: make(chan piece), stream: make(chan piece), lost: make(chan error, 2)}
	l.ctx, l.cancel = context.WithCancel(t.Context.Context)
	if l.dir, err = s.agent(t.agent); err == nil {
		t.link = l
		err = t.enter()
	}
	if err != nil {
		l.close()
		return err
	}
	go l.follow(t.path("transcript"), t.view.read, l.transcript) // both end with l
	if !t.Bool("json") {
		go l.follow(t.path("stream"), t.view.pos+int64(len(t.view.have)), l.stream)
	}
	return nil
}

// enter finds or begins the session.
func (t *talk) enter() error {
	if t.number != "" { // after a lost connection
		return nil
	}
	if t.number = t.Args().Get(1); t.number == "" {
		req := fsys.Line(struct {
			Title   string `json:"title,omitempty"`
			Profile string `json:"profile,omitempty"`
		}{t.String("title"), t.String("profile")})
		reply, err := t.link.s.converse(t.link.ctx, join(t.link.dir, "sessions/new"), req)
		if err != nil {
			return err
		}
		t.number = strings.TrimSpace(string(reply))
	}
	var r sessionReport
	if err := t.link.s.readJSON(t.path("status"), &r, nil); err != nil {
		if fsys.CodeOf(err) == fsys.NotExist && t.Args().Get(1) != "" && fsys.ReasonOf(err) == "" {
			err = fsys.E(fsys.NotExist, "there is no session "+t.number+"; agentctl chat --list AGENT shows them")
		}
		return err
	}
	if r.State == "ended" {
		if err := fsys.WriteFile(t.link.ctx, t.link.s.root, t.path("ctl"), []byte("resume\n")); err != nil {
			return at(t.path("ctl"), err)
		}
	}
	if !t.Bool("json") {
		t.notice(fmt.Sprintf("session %s %s", t.number, r.Title))
	}
	if t.Bool("all") {
		return nil
	}
	return t.skip()
}

// skip puts the view behind what was said and answered before.
func (t *talk) skip() error {
	p := t.path("transcript")
	size, err := t.link.size(p)
	if err != nil {
		return err
	}
	h, err := t.link.s.open(p, fsys.Read)
	if err != nil {
		return at(p, err)
	}
	defer h.Close()
	var past strings.Builder
	if err := copyUntil(t.link.ctx, &past, h, 0, size); err != nil {
		return at(p, err)
	}
	v, off, open := &t.view, int64(0), false
	for line := range strings.Lines(past.String()) {
		var l saying
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			return at(p, err)
		}
		begin := off
		off += int64(len(line))
		switch {
		case l.Role == "user": // from here on, unless an answer follows
			v.read, v.pos, open = begin, l.From, true
		case l.Role == "assistant" && l.final():
			v.read, v.pos, open = off, l.To, false
		case !open:
			v.read = off
		}
	}
	v.last = v.pos
	return nil
}

// size is how much of the stream at p there is.
func (l *link) size(p string) (int64, error) {
	n, err := l.s.walk(p)
	if err != nil {
		return 0, at(p, err)
	}
	info, err := n.Stat(l.ctx)
	return info.Size, at(p, err)
}

// follow gives what the stream at p has from off on, until l is closed.
func (l *link) follow(p string, off int64, to chan<- piece) {
	h, err := l.s.root.OpenPath(l.ctx, p, fsys.Read)
	if err != nil {
		l.lost <- at(p, err)
		return
	}
	defer h.Close()
	for {
		b := make([]byte, 32<<10)
		n, err := fsys.ReadAt(l.ctx, h, b, off)
		if err != nil && err != io.EOF { // a connection that was lost may say that, too, but wrapped
			l.lost <- at(p, err)
			return
		}
		select {
		case to <- piece{off, b[:n]}:
		case <-l.ctx.Done():
			return
		}
		if off += int64(n); n == 0 {
			return
		}
	}
}

// again is how long to wait before the next attempt to connect.
const again = 300 * time.Millisecond

// reconnect comes back after the connection failed for why, or says why the
// session cannot go on.
func (t *talk) reconnect(why error) error {
	switch fsys.CodeOf(why) {
	case fsys.NotExist, fsys.Permission:
		return why
	}
	t.link.close()
	t.notice("the connection was lost; trying again")
	t.Set(waitFlag, "0s") // that is done here
	tick := time.NewTicker(again)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case sig := <-t.signals:
			return fsys.E(fsys.Canceled, fmt.Sprintf("%v, while there was no connection", sig))
		}
		err := t.connect()
		switch {
		case err == nil:
			t.notice("connected again")
			t.view.ready()
			return nil
		case fsys.CodeOf(err) == fsys.NotExist, fsys.CodeOf(err) == fsys.Permission:
			return err
		}
	}
}
