package ninecheck

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"time"
)

// A conn is a connection to the server that a check has made.
type conn struct {
	*trial
	net   net.Conn
	n     int
	msize uint32
	early *dialect // the other one: before a version is agreed on, an error may be in either

	tags    uint16
	fids    uint32
	waiting map[uint16]*message // requests without a reply
	got     map[uint16]*message // replies that nobody has asked for yet
	arrived int                 // replies
	order   map[uint16]int      // which of the arrived was the reply to a tag
}

const askedMsize = 8192

// dial makes a connection on which nothing has been said.
func (t *trial) dial() *conn {
	nc, err := t.Dial(t.ctx)
	if err != nil {
		t.fatalf("the server does not take another connection: %v", err)
	}
	c := &conn{
		trial: t, net: nc, n: len(t.conns) + 1, msize: 1 << 20,
		early:   plan9(),
		waiting: map[uint16]*message{}, got: map[uint16]*message{}, order: map[uint16]int{},
	}
	if !t.dialect.isLinux() {
		c.early = linux()
	}
	t.conns = append(t.conns, c)
	return c
}

// session makes a connection that is attached as fid 0.
func (t *trial) session() *conn {
	c := t.dial()
	c.version(askedMsize)
	c.must("Tattach", c.attach(0)...)
	return c
}

// version agrees on the dialect under test.
func (c *conn) version(msize uint32) {
	r := c.must("Tversion", msize, c.dialect.version)
	if got := r.text("version"); got != c.dialect.version {
		c.fatalf("the answer to %s is %q", c.dialect.version, got)
	}
	c.msize, c.early = uint32(r.num("msize")), nil
}

// attach has the fields of a Tattach.
func (c *conn) attach(fid uint32) []any {
	fields := []any{fid, uint32(noFid), c.Uname, c.Aname}
	if c.dialect.isLinux() {
		fields = append(fields, c.UID)
	}
	return fields
}

// newFid returns a number that was not a fid yet.
func (c *conn) newFid() uint32 {
	c.fids++
	return c.fids
}

// send sends a request and does not wait.
func (c *conn) send(name string, values ...any) (tag uint16) {
	if name == "Tversion" {
		tag = noTag
	} else {
		c.tags++
		tag = c.tags
	}
	c.sendTag(tag, name, values...)
	return tag
}

func (c *conn) sendTag(tag uint16, name string, values ...any) {
	b := c.dialect.frame(tag, name, values...)
	m, _ := c.dialect.decode(b)
	c.expect(m)
	c.write(b, m.String())
}

// A burst is requests that are sent together.
type burst struct {
	*conn
	bytes []byte
	tags  []uint16
}

func (b *burst) add(name string, values ...any) {
	b.conn.tags++
	f := b.dialect.frame(b.conn.tags, name, values...)
	m, _ := b.dialect.decode(f)
	b.expect(m)
	b.record(b.n, "client", f, m.String())
	b.bytes, b.tags = append(b.bytes, f...), append(b.tags, m.tag)
}

// each sends b and calls f with each reply in the order of the requests. It reads
// while it writes: a server whose replies nobody takes may stop reading.
func (b *burst) each(f func(*message)) {
	b.net.SetWriteDeadline(time.Now().Add(b.Limit))
	wrote := make(chan error, 1)
	go func() { // ends by the deadline, or when the trial closes the connection
		_, err := b.net.Write(b.bytes)
		wrote <- err
	}()
	for _, tag := range b.tags {
		f(b.await(tag))
	}
	if err := <-wrote; err != nil {
		b.fatalf("%d bytes of requests cannot be sent: %v", len(b.bytes), err)
	}
}

// expect makes the reply to m one that is waited for.
func (c *conn) expect(m *message) {
	c.waiting[m.tag] = m
	delete(c.got, m.tag)
	delete(c.order, m.tag)
}

// write sends bytes, which may be anything.
func (c *conn) write(b []byte, text string) {
	c.record(c.n, "client", b, text)
	c.net.SetWriteDeadline(time.Now().Add(c.Limit))
	if _, err := c.net.Write(b); err != nil && !c.Hostile {
		c.fatalf("nothing can be sent: %v", err)
	}
}

// errHungUp ends the stream of replies.
var errHungUp = errors.New("the server hung up")

// recv returns the next reply, whichever request it is for; os.ErrDeadlineExceeded
// if there is none within limit, and errHungUp if there will be none.
func (c *conn) recv(limit time.Duration) (*message, error) {
	c.net.SetReadDeadline(time.Now().Add(limit))
	var size [4]byte
	if _, err := io.ReadFull(c.net, size[:]); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, os.ErrDeadlineExceeded
		}
		return nil, errHungUp
	}
	n := binary.LittleEndian.Uint32(size[:])
	if n < headerSize || n > c.msize {
		c.record(c.n, "server", size[:], "a size")
		c.fatalf("a frame claims %d bytes; from %d to the agreed msize of %d are possible", n, headerSize, c.msize)
	}
	b := append(size[:], make([]byte, n-4)...)
	if _, err := io.ReadFull(c.net, b[4:]); err != nil {
		c.record(c.n, "server", size[:], "a size")
		c.fatalf("a frame of %d bytes ends early: %v", n, err)
	}
	m, err := c.dialect.decode(b)
	if other := c.early; err != nil && other != nil {
		m, err = other.decode(b)
	}
	if err != nil {
		c.record(c.n, "server", b, "?")
		c.fatalf("a frame from the server is malformed: %v", err)
	}
	c.record(c.n, "server", b, m.String())
	c.judge(m)
	return m, nil
}

// anything is the name of what was sent that is no request.
const anything = "?"

// judge checks what every reply must be.
func (c *conn) judge(m *message) {
	c.arrived++
	ask := c.waiting[m.tag]
	switch {
	case ask == nil:
		c.errorf("%s has tag %d, which no request has that waits for a reply", m.name, m.tag)
		return
	case m.isError() && (ask.name == "Tflush" || ask.name == "Tversion"):
		c.errorf("%s is answered with an error (%s), which it never may be", ask.name, m.name)
	case m.isError():
		c.judgeError(m)
	case m.kind != ask.kind+1 && ask.name != anything:
		c.errorf("%s is answered with %s", ask.name, m.name)
	}
	delete(c.waiting, m.tag)
	if ask.name == "Tflush" {
		delete(c.waiting, uint16(ask.num("oldtag")))
	}
	c.got[m.tag] = m
	c.order[m.tag] = c.arrived
}

func (c *conn) judgeError(m *message) {
	if m.name == "Rerror" && m.text("ename") == "" {
		c.errorf("an error without text")
	}
	if m.name == "Rlerror" && (m.num("ecode") == 0 || m.num("ecode") > 4095) {
		c.errorf("an error with ecode %d, which is no errno", m.num("ecode"))
	}
}

// await returns the reply to tag.
func (c *conn) await(tag uint16) *message {
	ask := c.waiting[tag]
	for deadline := time.Now().Add(c.Limit); ; {
		if m := c.got[tag]; m != nil {
			delete(c.got, tag)
			return m
		}
		switch _, err := c.recv(time.Until(deadline)); {
		case errors.Is(err, os.ErrDeadlineExceeded):
			c.fatalf("no answer to %s within %v", ask.name, c.Limit)
		case err != nil:
			c.fatalf("%v instead of answering %s", err, ask.name)
		}
	}
}

// silent takes in what comes without having been asked for.
func (c *conn) silent() {
	for {
		if _, err := c.recv(c.Quiet); err != nil {
			return
		}
	}
}

// ask sends a request and returns its reply, which may be an error.
func (c *conn) ask(name string, values ...any) *message {
	return c.await(c.send(name, values...))
}

// must is ask where an error is a finding.
func (c *conn) must(name string, values ...any) *message {
	m := c.ask(name, values...)
	if m.isError() {
		c.fatalf("%s is refused: %s", name, m)
	}
	if m.name[1:] != name[1:] {
		panic(stop{}) // recorded by judge
	}
	return m
}

// refused is ask where anything but an error is a finding; why says what is
// wrong with the request.
func (c *conn) refused(why, name string, values ...any) *message {
	m := c.ask(name, values...)
	if !m.isError() {
		c.errorf("%s is answered with %s: %s", name, m.name, why)
	}
	return m
}
