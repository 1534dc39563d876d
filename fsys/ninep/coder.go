package ninep

import (
	"encoding/binary"
	"math"
	"unicode/utf8"

	"agent9/fsys"
)

// A coder encodes to, or decodes from, the little-endian bytes of 9P. It
// never reads past b and never makes room for what is not there: a length on
// the wire is believed only as far as there are bytes. After a failure it
// keeps err and reads nothing but zeros.
type coder struct {
	encoding bool
	b        []byte // encoding: all so far; decoding: what is left
	err      error
}

func (c *coder) fail(reason string) {
	if c.err == nil {
		c.err = fsys.E(fsys.Invalid, reason)
	}
	c.b = nil
}

// take returns the next n bytes to decode, or nil.
func (c *coder) take(n int) []byte {
	if len(c.b) < n || c.err != nil {
		c.fail("a message is shorter than its fields")
		return nil
	}
	p := c.b[:n:n]
	c.b = c.b[n:]
	return p
}

func (c *coder) u8(v *uint8) {
	if c.encoding {
		c.b = append(c.b, *v)
	} else if p := c.take(1); p != nil {
		*v = p[0]
	}
}

func (c *coder) u16(v *uint16) {
	if c.encoding {
		c.b = binary.LittleEndian.AppendUint16(c.b, *v)
	} else if p := c.take(2); p != nil {
		*v = binary.LittleEndian.Uint16(p)
	}
}

func (c *coder) u32(v *uint32) {
	if c.encoding {
		c.b = binary.LittleEndian.AppendUint32(c.b, *v)
	} else if p := c.take(4); p != nil {
		*v = binary.LittleEndian.Uint32(p)
	}
}

func (c *coder) u64(v *uint64) {
	if c.encoding {
		c.b = binary.LittleEndian.AppendUint64(c.b, *v)
	} else if p := c.take(8); p != nil {
		*v = binary.LittleEndian.Uint64(p)
	}
}

// byteOf codes a number that has one byte on the wire.
func (c *coder) byteOf(v *uint32) {
	b := uint8(*v)
	c.u8(&b)
	*v = uint32(b)
}

// low32 codes a number that has four bytes on the wire.
func (c *coder) low32(v *uint64) {
	w := uint32(*v)
	c.u32(&w)
	*v = uint64(w)
}

// optional32 leaves v as it is when nothing is left to decode.
func (c *coder) optional32(v *uint32) {
	if c.encoding || len(c.b) > 0 {
		c.u32(v)
	}
}

func (c *coder) qid(q *qid) {
	c.u8(&q.Type)
	c.u32(&q.Version)
	c.u64(&q.Path)
}

func (c *coder) str(s *string) {
	if c.encoding && len(*s) > math.MaxUint16 {
		c.fail("a string is longer than 65,535 bytes")
		return
	}
	n := uint16(len(*s))
	c.u16(&n)
	if c.encoding {
		c.b = append(c.b, *s...)
		return
	}
	p := c.take(int(n))
	if !utf8.Valid(p) {
		c.fail("a string is not UTF-8")
		return
	}
	*s = string(p)
}

// data codes count[4] and that many bytes, which it does not copy on decoding.
func (c *coder) data(p *[]byte) {
	n := uint32(len(*p))
	c.u32(&n)
	if c.encoding {
		c.b = append(c.b, *p...)
		return
	}
	if uint64(n) > uint64(len(c.b)) {
		c.fail("a count is larger than its message")
		return
	}
	*p = c.take(int(n))
}

// sized begins a part that has its own size[2]. What it returns is for
// endSized.
func (c *coder) sized() (mark int) {
	if c.encoding {
		c.b = append(c.b, 0, 0)
		return len(c.b)
	}
	var n uint16
	c.u16(&n)
	if int(n) > len(c.b) {
		c.fail("a message is shorter than its fields")
		return 0
	}
	return len(c.b) - int(n)
}

// endSized sets the size when encoding; decoding, it refuses a part that is
// not as long as its size says.
func (c *coder) endSized(mark int) {
	switch {
	case c.err != nil:
	case c.encoding:
		if n := len(c.b) - mark; n <= math.MaxUint16 {
			binary.LittleEndian.PutUint16(c.b[mark-2:], uint16(n))
		} else {
			c.fail("a stat entry is longer than 65,535 bytes")
		}
	case len(c.b) != mark:
		c.fail("a stat entry is not as long as its size says")
	}
}

// appendMessage appends m as a frame to b. It fails if a string of m is too
// long, and leaves b as it was.
func appendMessage(b []byte, d dialect, m *message) ([]byte, error) {
	c := coder{encoding: true, b: append(b, 0, 0, 0, 0, byte(m.Type), byte(m.Tag), byte(m.Tag>>8))}
	if m.fields(&c, d); c.err != nil {
		return b, c.err
	}
	binary.LittleEndian.PutUint32(c.b[len(b):], uint32(len(c.b)-len(b)))
	return c.b, nil
}

// decodeMessage decodes a whole frame into m, in place: m.Data is part of
// frame. After an error m.Type and m.Tag are set as far as they were there, so
// that it can be answered.
func decodeMessage(frame []byte, d dialect, m *message) error {
	*m = message{}
	var size uint32
	c := coder{b: frame}
	c.u32(&size)
	c.u8((*uint8)(&m.Type))
	c.u16(&m.Tag)
	if c.err == nil && uint64(size) != uint64(len(frame)) {
		c.fail("a message is not as long as its size says")
	}
	if c.err == nil && !known[m.Type][d] {
		return fsys.E(fsys.Unsupported, "there is no such message in "+d.String()+": "+m.Type.String())
	}
	if c.err != nil {
		return c.err
	}
	m.fields(&c, d)
	if c.err == nil && len(c.b) > 0 {
		c.fail("a message is longer than its fields")
	}
	return c.err
}
