package ninecheck

import (
	"strings"
)

// Open modes, as the two dialects agree on them.
const (
	modeRead  = 0
	modeWrite = 1
	modeRdWr  = 2
)

// open sends Topen or Tlopen.
func (c *conn) open(fid uint32, mode int) *message {
	if c.dialect.isLinux() {
		return c.ask("Tlopen", fid, mode)
	}
	return c.ask("Topen", fid, mode)
}

// truncating is mode with what empties the file.
func (c *conn) truncating(mode int) int {
	if c.dialect.isLinux() {
		return mode | 0o1000
	}
	return mode | 0x10
}

// at walks from the root to path and returns the fid.
func (c *conn) at(path ...string) uint32 {
	fid, err := c.reach(path)
	if err != nil {
		c.fatalf("/%s cannot be reached: %v", strings.Join(path, "/"), err)
	}
	return fid
}

// opened is at, and opens the file.
func (c *conn) opened(mode int, path ...string) uint32 {
	fid := c.at(path...)
	if m := c.open(fid, mode); m.isError() {
		c.fatalf("/%s cannot be opened: %s", strings.Join(path, "/"), m)
	}
	return fid
}

func (c *conn) clunk(fid uint32) { c.must("Tclunk", fid) }

// unknown reports a finding if fid stands for a file.
func (c *conn) unknown(fid uint32, why string) { c.refused(why, "Tclunk", fid) }

// A status is what both dialects tell about a file.
type status struct {
	qid     qid
	dir     bool // by its mode
	regular bool
	length  uint64
	name    string // 9P2000 only
}

// Of the mode of Rgetattr.
const (
	formatMask = 0o170000
	formatDir  = 0o040000
	formatFile = 0o100000
)

// stat returns what the server says of fid.
func (c *conn) stat(fid uint32) (status, error) {
	if c.dialect.isLinux() {
		m := c.ask("Tgetattr", fid, 0x7ff)
		if m.isError() {
			return status{}, refusal(m)
		}
		format := m.num("mode") & formatMask
		return status{qid: m.qid("qid"), dir: format == formatDir, regular: format == formatFile, length: m.num("size")}, nil
	}
	m := c.ask("Tstat", fid)
	if m.isError() {
		return status{}, refusal(m)
	}
	list := c.stats(m.data("stat"))
	if len(list) != 1 {
		c.fatalf("Rstat holds %d entries", len(list))
	}
	return list[0].status, nil
}

func (c *conn) mustStat(fid uint32) status {
	st, err := c.stat(fid)
	if err != nil {
		c.fatalf("there is no status of a file: %v", err)
	}
	return st
}

// An entry is a line of a directory.
type entry struct {
	name   string
	qid    qid
	end    uint64 // the offset at which the next one is
	status status // 9P2000 only
}

var (
	statLayout  = &layout{name: "stat", fields: parseFields(statFields)}
	entryLayout = &layout{name: "entry", fields: parseFields(entryFields)}
)

// stats takes entries of stat(5) apart.
func (c *conn) stats(b []byte) (list []entry) {
	r := reader{b: b}
	for end := uint64(0); len(r.b) > 0; {
		had := len(r.b)
		m := &message{layout: statLayout, values: r.fields(statLayout.fields)}
		if r.err != nil {
			c.fatalf("a stat entry is malformed or cut off: %v", r.err)
		}
		if used := had - len(r.b); uint64(used-2) != m.num("size") {
			c.fatalf("a stat entry says that it has %d bytes and has %d", m.num("size"), used-2)
		} else {
			end += uint64(used)
		}
		st := status{qid: m.qid("qid"), dir: m.num("mode")>>31 != 0, length: m.num("length"), name: m.text("name")}
		st.regular = m.num("mode")>>24 == 0
		if byte(m.num("mode")>>24)^st.qid.Type != 0 {
			c.errorf("mode %x and qid.type %x of %q contradict each other (stat(5): the type is the high 8 bits of mode)", m.num("mode"), st.qid.Type, st.name)
		}
		list = append(list, entry{name: st.name, qid: st.qid, end: end, status: st})
	}
	return list
}

// dirents takes entries of Rreaddir apart.
func (c *conn) dirents(b []byte) (list []entry) {
	r := reader{b: b}
	for len(r.b) > 0 {
		m := &message{layout: entryLayout, values: r.fields(entryLayout.fields)}
		if r.err != nil {
			c.fatalf("an entry of Rreaddir is malformed or cut off: %v", r.err)
		}
		list = append(list, entry{name: m.text("name"), qid: m.qid("qid"), end: m.num("offset")})
	}
	return list
}

// readDir asks for count bytes of an open directory and returns the reply.
func (c *conn) readDir(fid uint32, offset uint64, count int) *message {
	if c.dialect.isLinux() {
		return c.ask("Treaddir", fid, offset, count)
	}
	return c.ask("Tread", fid, offset, count)
}

// entries takes a reply of readDir apart. next is where to go on.
func (c *conn) entries(m *message, offset uint64) (list []entry, next uint64) {
	b := m.data("data")
	if !c.dialect.isLinux() {
		return c.stats(b), offset + uint64(len(b))
	}
	if list = c.dirents(b); len(list) > 0 {
		offset = list[len(list)-1].end
	}
	return list, offset
}

const mostReplies = 10_000

// listAll reads an open directory to its end, count bytes at a time.
func (c *conn) listAll(fid uint32, count int) (list []entry, err error) {
	offset := uint64(0)
	for range mostReplies {
		m := c.readDir(fid, offset, count)
		if m.isError() {
			return list, refusal(m)
		}
		if n := len(m.data("data")); n > count {
			c.errorf("%d bytes of a directory where %d were asked for", n, count)
		}
		part, next := c.entries(m, offset)
		if len(part) == 0 {
			return list, nil
		}
		list, offset = append(list, part...), next
	}
	c.fatalf("a directory has no end after %d replies", mostReplies)
	return nil, nil
}

func names(list []entry) (all []string) {
	for _, e := range list {
		all = append(all, e.name)
	}
	return all
}

// readAll reads an open file to its end, count bytes at a time.
func (c *conn) readAll(fid uint32, count int) (all []byte) {
	for range mostReplies {
		m := c.must("Tread", fid, len(all), count)
		b := m.data("data")
		if len(b) > count {
			c.errorf("%d bytes where %d were asked for", len(b), count)
		}
		if len(b) == 0 {
			return all
		}
		all = append(all, b...)
	}
	c.fatalf("a file has no end after %d replies", mostReplies)
	return nil
}
