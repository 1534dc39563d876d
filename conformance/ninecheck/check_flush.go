package ninecheck

import (
	"errors"
	"os"
	"strings"
)

var flushChecks = []Check{
	{
		Name: "flush/unknown",
		Says: "flush(5): a flush of a tag that no request has is answered at once, with Rflush",
		run: func(t *trial) {
			c := t.session()
			c.ask("Tflush", 4711)
			c.ask("Tflush", noTag)
			c.mustStat(0)
		},
	},
	{
		Name: "flush/answered",
		Says: "flush(5): a flush after the request was answered is answered too, and changes nothing",
		run: func(t *trial) {
			c := t.session()
			fid := c.newFid()
			tag := c.send("Twalk", 0, fid, []string{})
			c.await(tag)
			c.ask("Tflush", tag)
			c.clunk(fid)
		},
	},
	{
		Name: "flush/order",
		Says: "flush(5): Rflush comes after the reply to the flushed request, or instead of it; then no reply with that tag comes",
		run: func(t *trial) {
			c := t.session()
			c.tags = 1000
			for range 100 {
				fid := c.newFid()
				old := c.send("Twalk", 0, fid, []string{})
				flush := c.send("Tflush", old)
				c.await(flush) // judge counts what comes later as nobody's
				if m := c.got[old]; m != nil && !m.isError() {
					c.clunk(fid)
				} else if m == nil {
					c.unknown(fid, "the walk was flushed without a reply, so newfid is not made")
				}
			}
			c.silent()
		},
	},
	{
		Name: "flush/itself",
		Says: "flush(5): flushing an invalid tag or a Tflush is handled; so is one that names itself",
		need: needHostile,
		run: func(t *trial) {
			c := t.session()
			c.tags = 98
			c.ask("Tflush", 99)
			c.mustStat(0)
		},
	},
}

// A wait is a request of a file whose reads block that is not answered yet: a
// read, or where already the open blocks, as that of a FIFO does, the open.
type wait struct {
	fid    uint32
	tag    uint16
	opened bool
	offset uint64 // of the read
}

// blocked makes a request of the Stream file that waits.
func (c *conn) blocked() wait {
	w := c.beginWait()
	if !w.opened && !c.waits(w.tag) {
		if m := c.await(w.tag); m.isError() {
			c.skip("%s cannot be opened: %s", c.Stream, m)
		}
		w.opened = true
		c.read(&w)
	}
	return w
}

// beginWait opens the Stream file, or begins to.
func (c *conn) beginWait() (w wait) {
	w.fid = c.at(strings.FieldsFunc(c.Stream, func(r rune) bool { return r == '/' })...)
	if c.dialect.isLinux() {
		w.tag = c.send("Tlopen", w.fid, modeRead)
	} else {
		w.tag = c.send("Topen", w.fid, modeRead)
	}
	return w
}

// read reads on until a read waits.
func (c *conn) read(w *wait) {
	for range 100 {
		if w.tag = c.send("Tread", w.fid, w.offset, 4096); c.waits(w.tag) {
			return
		}
		m := c.await(w.tag)
		if m.isError() || len(m.data("data")) == 0 {
			c.skip("a read of %s does not block: %s", c.Stream, m)
		}
		w.offset += uint64(len(m.data("data")))
	}
	c.skip("%s has no end within 100 reads", c.Stream)
}

// waits reports whether tag is not answered at once.
func (c *conn) waits(tag uint16) bool {
	for {
		if c.got[tag] != nil {
			return false
		}
		switch _, err := c.recv(c.Quiet); {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return true
		case err != nil:
			c.fatalf("%v when %s was read", err, c.Stream)
		}
	}
}

// another makes one more request that waits, as w does.
func (c *conn) another(w wait) wait {
	n := c.beginWait()
	if w.opened {
		c.await(n.tag)
		n.tag = c.send("Tread", n.fid, w.offset, 4096)
	}
	return n
}

var streamChecks = []Check{
	{
		Name: "flush/blocked",
		Says: "flush(5): the server should answer the flush immediately, also of a read that waits; no reply to that read follows, and the fid is as before",
		need: needStream,
		run: func(t *trial) {
			c := t.session()
			w := c.blocked()
			c.ask("Tflush", w.tag)
			c.silent()
			c.mustStat(w.fid)
			c.clunk(w.fid)
		},
	},
	{
		Name: "flush/twice",
		Says: "flush(5): several flushes of one request are answered in order, or only the last of them",
		need: needStream,
		run: func(t *trial) {
			c := t.session()
			old := c.blocked().tag
			first, last := c.send("Tflush", old), c.send("Tflush", old)
			c.await(last)
			if c.got[first] == nil {
				delete(c.waiting, first)
			} else if c.order[first] > c.order[last] {
				c.errorf("the second of two flushes is answered first")
			}
			c.silent()
		},
	},
	{
		Name: "flush/flush",
		Says: "flush(5): a Tflush can be flushed as any request: that is answered, and after it the first is not any more",
		need: needStream,
		run: func(t *trial) {
			c := t.session()
			w := c.blocked()
			first := c.send("Tflush", w.tag)
			c.await(c.send("Tflush", first))
			if c.got[first] == nil {
				delete(c.waiting, first)
			}
			c.silent()
			c.mustStat(w.fid)
			c.clunk(w.fid)
		},
	},
	{
		Name: "flush/tag-again",
		Says: "flush(5): after Rflush the client may use oldtag again",
		need: needStream,
		run: func(t *trial) {
			c := t.session()
			w := c.blocked()
			old := w.tag
			c.ask("Tflush", old)
			c.sendTag(old, "Twalk", 0, c.newFid(), []string{})
			if m := c.await(old); m.name != "Rwalk" {
				c.errorf("a request with a tag that was flushed is answered with %s", m.name)
			}
			c.clunk(w.fid)
		},
	},
	{
		Name: "flush/many",
		Says: "flush(5): each of many reads that wait is flushed by its own Tflush and by no other",
		need: needStream,
		run: func(t *trial) {
			c := t.session()
			w := c.blocked()
			waiting := []wait{w}
			for range 20 {
				waiting = append(waiting, c.another(w))
			}
			var flushes []uint16
			for _, w := range waiting {
				flushes = append(flushes, c.send("Tflush", w.tag))
			}
			for _, tag := range flushes {
				c.await(tag)
			}
			c.silent()
		},
	},
	{
		Name: "stream/others-go-on",
		Says: "intro(5): requests are answered in any order: one that waits stops no other, on this connection or another",
		need: needStream,
		run: func(t *trial) {
			c := t.session()
			c.blocked()
			c.mustStat(0)
			c.clunk(c.opened(modeRead))
			other := t.session()
			other.mustStat(0)
			other.clunk(other.opened(modeRead))
		},
	},
	{
		Name: "stream/version",
		Says: "version(5): a new Tversion aborts what is outstanding",
		need: needStream,
		run: func(t *trial) {
			c := t.session()
			delete(c.waiting, c.blocked().tag)
			c.version(askedMsize)
			c.must("Tattach", c.attach(0)...)
			c.silent()
		},
	},
	{
		Name: "stream/hang-up",
		Says: "intro(5): a connection that ends takes its requests with it; the server goes on with the others",
		need: needStream,
		run: func(t *trial) {
			c := t.session()
			other := t.session()
			c.blocked()
			c.net.Close()
			other.mustStat(0)
			t.session().mustStat(0)
		},
	},
}
