package ninecheck

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"time"
)

// comes waits until what is true, asking again after each Quiet.
func (c *conn) comes(what func() bool) bool {
	for deadline := time.Now().Add(c.Limit); time.Now().Before(deadline); {
		if what() {
			return true
		}
		c.recv(c.Quiet)
	}
	return false
}

// abuse sends bytes that are no request to a session, and demands an error or
// the end of it, and that the server goes on.
func (t *trial) abuse(what string, b []byte) {
	c := t.session()
	for _, tag := range []uint16{0xabcd, noTag} { // the server may not know the tag of what is no message
		c.waiting[tag] = &message{layout: &layout{name: anything}, tag: tag}
	}
	c.write(b, what)
	m, err := c.recv(c.Limit)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.errorf("%s: neither an error nor the end within %v", what, c.Limit)
	case err == nil && !m.isError():
		c.errorf("%s: it is answered with %s", what, m.name)
	}
	c.net.Close()
	t.alive(what)
}

// alive demands that the server serves.
func (t *trial) alive(after string) {
	nc, err := t.Dial(t.ctx)
	if err != nil {
		t.fatalf("after %s the server is gone: %v", after, err)
	}
	nc.Close()
	t.session().mustStat(0)
}

// raw is a frame with any body, whose size is right.
func raw(kind byte, body ...byte) []byte {
	return sized(append([]byte{0, 0, 0, 0, kind, 0xcd, 0xab}, body...))
}

// claiming is a frame that says it has another size.
func claiming(size uint32, b []byte) []byte {
	b = append([]byte{}, b...)
	binary.LittleEndian.PutUint32(b, size)
	return b
}

// hostile is a check that abuses the server with each of the frames that make
// returns, by what is wrong with them.
func hostile(name, says string, frames func(c *conn) []abuse) Check {
	return Check{Name: "hostile/" + name, Says: says, need: needHostile, run: func(t *trial) {
		for _, a := range frames(t.session()) {
			t.abuse(a.what, a.bytes)
		}
	}}
}

type abuse struct {
	what  string
	bytes []byte
}

const saysMalformed = "intro(5): size[4] type[1] tag[2] and the fields of the type, no more and no less; what is none gets an error or the end, and others do not notice"

var hostileChecks = []Check{
	hostile("size", saysMalformed, func(c *conn) []abuse {
		stat := c.dialect.frame(0xabcd, "Tclunk", 4711)
		return []abuse{
			{"a size of 0", claiming(0, stat)},
			{"a size of 4", claiming(4, stat)},
			{"a size of 6", claiming(6, stat)},
			{"a size of 0xffffffff", claiming(1<<32-1, stat)},
			{"a size of 0x7fffffff", claiming(1<<31-1, stat)},
		}
	}),
	hostile("oversized", "version(5): no message is longer than msize", func(c *conn) []abuse {
		big := c.dialect.frame(0xabcd, "Twrite", 0, 0, make([]byte, 2*askedMsize))
		return []abuse{{"a Twrite of twice msize", big}}
	}),
	hostile("short", saysMalformed, func(c *conn) []abuse {
		return []abuse{
			{"a Tclunk without fid", raw(120)},
			{"a Tclunk with half a fid", raw(120, 0, 0)},
			{"a Twalk without names", raw(110, 0, 0, 0, 0, 9, 0, 0, 0, 2, 0)},
			{"a Tread without count", raw(116, make([]byte, 12)...)},
			{"a Tattach that ends in uname", raw(104, 9, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 10, 0, 'x')},
			{"an empty Tversion", raw(100)},
		}
	}),
	hostile("long", saysMalformed, func(c *conn) []abuse {
		return []abuse{
			{"a Tclunk with bytes behind", raw(120, 0xff, 0xee, 0, 0, 1, 2, 3)},
			{"a Twalk with bytes behind", raw(110, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 7, 7)},
		}
	}),
	hostile("counts", saysMalformed, func(c *conn) []abuse {
		write := c.dialect.frame(0xabcd, "Twrite", 0, 0, []byte("data"))
		less, more := append([]byte{}, write...), append([]byte{}, write...)
		binary.LittleEndian.PutUint32(less[19:], 1<<32-1)
		binary.LittleEndian.PutUint32(more[19:], 5)
		return []abuse{
			{"a Twrite that claims 0xffffffff bytes", less},
			{"a Twrite that claims one byte more than it has", more},
			{"a Twalk that claims 65,535 names", raw(110, 0, 0, 0, 0, 9, 0, 0, 0, 0xff, 0xff)},
			{"a name that claims 65,535 bytes", raw(110, 0, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0xff, 0xff, 'a')},
			{"a Twalk of 17 names", c.dialect.frame(0xabcd, "Twalk", 0, 9, strings.Fields(strings.Repeat(".. ", 17)))},
		}
	}),
	hostile("types", "intro(5): there are these messages and no others, and a client sends T-messages only", func(c *conn) (list []abuse) {
		for _, kind := range []byte{0, 1, 6, 7, 99, 101, 106, 107, 121, 128, 200, 255} {
			if l := c.dialect.byKind[kind]; l == nil || l.name[0] == 'R' {
				list = append(list, abuse{c.kindText(kind), raw(kind, 0, 0, 0, 0)})
			}
		}
		return list
	}),
	hostile("strings", "intro(5): text is UTF-8 without NUL", func(c *conn) []abuse {
		return []abuse{
			{"a name that is not UTF-8", raw(110, 0, 0, 0, 0, 9, 0, 0, 0, 1, 0, 2, 0, 0xff, 0xfe)},
			{"a name with NUL", raw(110, 0, 0, 0, 0, 9, 0, 0, 0, 1, 0, 3, 0, 'a', 0, 'b')},
		}
	}),
	{
		Name: "hostile/wrong-dialect",
		Says: "version(5): the messages of the version agreed on, and no others",
		need: needHostile,
		run: func(t *trial) {
			if t.dialect.isLinux() {
				t.abuse("a Tstat in 9P2000.L", raw(124, 0, 0, 0, 0))
				t.abuse("a Topen in 9P2000.L", raw(112, 0, 0, 0, 0, 0))
				return
			}
			t.abuse("a Tgetattr in 9P2000", raw(24, make([]byte, 12)...))
			t.abuse("a Tlopen in 9P2000", raw(12, make([]byte, 8)...))
		},
	},
	{
		Name: "hostile/garbage",
		Says: "intro(5): what is no 9P ends the connection; others do not notice",
		need: needHostile,
		run: func(t *trial) {
			random := make([]byte, 4096)
			source := rand.New(rand.NewPCG(9, 2000))
			for i := range random {
				random[i] = byte(source.Uint32())
			}
			for _, a := range []abuse{
				{"an HTTP request", []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")},
				{"random bytes", random},
			} {
				c := t.dial()
				c.write(a.bytes, a.what)
				c.halfClose()
				c.ends(a.what)
				t.alive(a.what)
			}
		},
	},
	{
		Name: "hostile/msize",
		Says: "version(5): the server's msize is at most the client's; a message cannot be shorter than its fields",
		need: needHostile,
		run: func(t *trial) {
			for _, msize := range []uint32{0, 1, 7, 11} {
				c := t.dial()
				c.send("Tversion", msize, c.dialect.version)
				m, err := c.recv(c.Limit)
				if errors.Is(err, os.ErrDeadlineExceeded) {
					c.errorf("no answer to an msize of %d", msize)
				}
				if err == nil && m.name == "Rversion" && m.text("version") != "unknown" && m.num("msize") <= uint64(msize) {
					c.errorf("an msize of %d is agreed to, in which nothing can be said", msize)
				}
				if err == nil && m.name == "Rversion" && m.text("version") != "unknown" && m.num("msize") > uint64(msize) {
					c.errorf("msize is %d although the client said %d", m.num("msize"), msize)
				}
				t.alive("a small msize")
			}
		},
	},
	{
		Name: "hostile/half",
		Says: "intro(5): a client that has gone, also in the middle of a message, leaves nothing behind: the server hangs up",
		need: needHostile,
		run: func(t *trial) {
			for _, b := range [][]byte{{}, {19}, {19, 0, 0, 0}, {19, 0, 0, 0, 100, 0xff, 0xff, 0}} {
				c := t.session()
				c.write(b, "a part of a message")
				c.halfClose()
				c.ends("half a message and the end of what the client sends")
			}
			t.alive("half messages")
		},
	},
	{
		Name: "hostile/half-close",
		Says: "intro(5): a client may end its side after its last request; the server hangs up too, and before may answer",
		need: needHostile,
		run: func(t *trial) {
			c := t.session()
			c.send("Twalk", 0, 9, []string{})
			c.halfClose()
			c.ends("a request and the end of what the client sends")
			t.alive("a half-closed connection")
		},
	},
	{
		Name: "hostile/half-close-blocked",
		Says: "intro(5): a request that waits does not keep the connection of a client that has gone",
		need: needHostile | needStream,
		run: func(t *trial) {
			c := t.session()
			c.blocked()
			c.halfClose()
			c.ends("the end of what the client sends, while a read waits")
			t.alive("a half-closed connection")
		},
	},
	{
		Name: "hostile/same-tag",
		Says: "intro(5): a client may not use a tag twice at a time; whatever the server does, each request is answered once or the connection ends",
		need: needHostile | needStream,
		run: func(t *trial) {
			c := t.session()
			tag := c.blocked().tag
			c.write(c.dialect.frame(tag, "Twalk", 0, 9, []string{}), "a Twalk with the tag of a read that waits")
			c.recv(c.Quiet)
			t.alive("two requests with one tag")
		},
	},
	{
		Name: "hostile/flood",
		Says: "intro(5): many requests at once are answered, refused or not read yet; the server goes on",
		need: needHostile,
		run: func(t *trial) {
			c := t.session()
			c.tags = 30_000
			all := burst{conn: c}
			for range 2000 {
				all.add("Twalk", 0, 0, []string{nowhere})
			}
			all.each(func(*message) {})
			t.alive("2,000 requests at once")
		},
	},
}

func (c *conn) kindText(kind byte) string {
	if l := c.dialect.byKind[kind]; l != nil {
		return "an " + l.name + " from the client"
	}
	return "a message of type " + shown(uint64(kind), 256, "")
}

// halfClose ends what the client sends.
func (c *conn) halfClose() {
	c.record(c.n, "client", nil, "the end of what the client sends")
	if h, ok := c.net.(interface{ CloseWrite() error }); ok {
		h.CloseWrite()
		return
	}
	c.skip("a %T cannot be closed on one side", net.Conn(c.net))
}

// ends demands that the server hangs up, and takes in what it says before.
func (c *conn) ends(after string) {
	for deadline := time.Now().Add(c.Limit); ; {
		_, err := c.recv(time.Until(deadline))
		if errors.Is(err, os.ErrDeadlineExceeded) {
			c.errorf("after %s the server does not hang up within %v", after, c.Limit)
			return
		}
		if err != nil {
			return
		}
	}
}
