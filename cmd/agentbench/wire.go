package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
)

// What of 9P the client sends and looks at.
const (
	rlerror  = 7
	tlopen   = 12
	tlcreate = 14
	tgetattr = 24
	treaddir = 40
	tfsync   = 50
	tversion = 100
	tattach  = 104
	rerror   = 107
	tflush   = 108
	twalk    = 110
	topen    = 112
	tread    = 116
	twrite   = 118
	tclunk   = 120
	tstat    = 124

	noTag, noFid = 0xffff, 0xffffffff

	readHeader   = 11 // of Rread
	ioHeader     = 24
	twriteReply  = 11
	getattrReply = 160
	maxMsize     = 1<<20 + ioHeader
)

// A dialect is what is said in Tversion.
type dialect string

const (
	linux dialect = "9P2000.L"
	plan9 dialect = "9P2000"
)

// frame returns a request. Fields are numbers of their size, strings and
// bytes, which stand as they are.
func frame(kind byte, tag uint16, fields ...any) []byte {
	b := append(make([]byte, 4, 64), kind, byte(tag), byte(tag>>8))
	for _, f := range fields {
		switch f := f.(type) {
		case uint8:
			b = append(b, f)
		case uint16:
			b = binary.LittleEndian.AppendUint16(b, f)
		case uint32:
			b = binary.LittleEndian.AppendUint32(b, f)
		case uint64:
			b = binary.LittleEndian.AppendUint64(b, f)
		case string:
			b = binary.LittleEndian.AppendUint16(b, uint16(len(f)))
			b = append(b, f...)
		case []byte:
			b = append(b, f...)
		default:
			panic(fmt.Sprintf("agentbench: a field of type %T", f))
		}
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)))
	return b
}

// A conn is a connection to a server, used by one goroutine at a time. It does
// as little as a client can, so that what is measured is the server.
type conn struct {
	net     net.Conn
	dialect dialect
	bare    bool // there is nothing behind it
	msize   uint32
	fids    uint32
	in      []byte
	start   int // of what was read and not taken: in[start:end]
	end     int
}

// attach dials a server and attaches as fid 0.
func attach(s *server, d dialect, msize uint32) (*conn, error) {
	nc, err := net.Dial("unix", s.sock)
	if err != nil {
		return nil, err
	}
	c := &conn{net: nc, dialect: d, bare: s.bare, msize: msize, in: make([]byte, 64<<10)}
	if c.bare {
		return c, nil
	}
	r, err := c.rpc(frame(tversion, noTag, msize, string(d)))
	if err == nil && (len(r) < 13 || string(r[13:]) != string(d)) {
		err = fmt.Errorf("%s does not speak %s", s.name, d)
	}
	if err == nil {
		c.msize = binary.LittleEndian.Uint32(r[7:])
		fields := []any{uint32(0), uint32(noFid), "root", s.aname}
		if d == linux {
			fields = append(fields, uint32(0))
		}
		_, err = c.rpc(frame(tattach, 1, fields...))
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	return c, nil
}

func (c *conn) close() { c.net.Close() }

// rpc sends a request and returns the reply, which holds until the next call.
func (c *conn) rpc(ask []byte) ([]byte, error) {
	if _, err := c.net.Write(ask); err != nil {
		return nil, err
	}
	return c.reply()
}

// reply returns the next reply, which holds until the next call.
func (c *conn) reply() ([]byte, error) {
	if err := c.fill(4); err != nil {
		return nil, err
	}
	size := int(binary.LittleEndian.Uint32(c.in[c.start:]))
	if size < 7 || size > maxMsize {
		return nil, fmt.Errorf("a reply of %d bytes", size)
	}
	if err := c.fill(size); err != nil {
		return nil, err
	}
	b := c.in[c.start : c.start+size]
	c.start += size
	return b, refusal(b)
}

// buffered reports whether a whole reply has been read already.
func (c *conn) buffered() bool {
	have := c.end - c.start
	return have >= 4 && int(binary.LittleEndian.Uint32(c.in[c.start:])) <= have
}

func (c *conn) fill(n int) error {
	if c.end-c.start >= n {
		return nil
	}
	if c.start+n > len(c.in) || c.start == c.end {
		if n > len(c.in) {
			c.in = slices.Grow(c.in, n)
			c.in = c.in[:cap(c.in)]
		}
		c.end = copy(c.in, c.in[c.start:c.end])
		c.start = 0
	}
	got, err := io.ReadAtLeast(c.net, c.in[c.end:], n-(c.end-c.start))
	c.end += got
	return err
}

// refusal is the error that a reply carries.
func refusal(b []byte) error {
	switch b[4] {
	case rlerror:
		return fmt.Errorf("Rlerror %d", binary.LittleEndian.Uint32(b[7:]))
	case rerror:
		return errors.New("Rerror " + string(b[9:]))
	}
	return nil
}

func (c *conn) newFid() uint32 {
	c.fids++
	return c.fids
}

// walk makes newfid the file at names below fid.
func (c *conn) walk(fid, newfid uint32, names ...string) error {
	if c.bare {
		return nil
	}
	r, err := c.rpc(walkFrame(fid, newfid, names...))
	if err == nil && int(binary.LittleEndian.Uint16(r[7:])) != len(names) {
		err = fmt.Errorf("%q does not exist", names)
	}
	return err
}

func walkFrame(fid, newfid uint32, names ...string) []byte {
	fields := []any{fid, newfid, uint16(len(names))}
	for _, n := range names {
		fields = append(fields, n)
	}
	return frame(twalk, 1, fields...)
}

// Open modes; the numbers are those of both dialects.
const (
	forReading = 0
	forWriting = 1
	forBoth    = 2
)

func (c *conn) openFrame(fid uint32, mode uint8) []byte {
	if c.dialect == linux {
		return frame(tlopen, 1, fid, uint32(mode))
	}
	return frame(topen, 1, fid, mode)
}

// open walks to names below fid 0 and opens what is there.
func (c *conn) open(mode uint8, names ...string) (fid uint32, err error) {
	fid = c.newFid()
	if err := c.walk(0, fid, names...); err != nil {
		return 0, err
	}
	_, err = c.rpc(c.openFrame(fid, mode))
	return fid, err
}

func readFrame(tag uint16, fid uint32, offset uint64, count uint32) []byte {
	return frame(tread, tag, fid, offset, count)
}

func (c *conn) attrFrame(tag uint16, fid uint32) []byte {
	if c.dialect == linux {
		return frame(tgetattr, tag, fid, uint64(0x7ff))
	}
	return frame(tstat, tag, fid)
}

// sizeIn is the size that Rgetattr gives.
func sizeIn(r []byte) uint64 { return binary.LittleEndian.Uint64(r[7+8+13+4+4+4+8+8:]) }

// list reads a directory that is open, and returns how many bytes its entries
// have.
func (c *conn) list(fid uint32) (n int, err error) {
	kind, count := byte(tread), min(c.msize, 64<<10)-ioHeader
	if c.dialect == linux {
		kind = treaddir
	}
	for offset := uint64(0); ; {
		r, err := c.rpc(frame(kind, 1, fid, offset, count))
		if err != nil {
			return 0, err
		}
		got := len(r) - readHeader
		if got <= 0 {
			return n, nil
		}
		n += got
		offset += uint64(got)
		if c.dialect == linux {
			offset = lastOffset(r[readHeader:])
		}
	}
}

// lastOffset is the offset of the last entry of Rreaddir.
func lastOffset(b []byte) (offset uint64) {
	for len(b) >= 24 {
		offset = binary.LittleEndian.Uint64(b[13:])
		b = b[24+int(binary.LittleEndian.Uint16(b[22:])):]
	}
	return offset
}
