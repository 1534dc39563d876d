package ninecheck

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	noTag = 0xffff
	noFid = 0xffffffff
	noID  = 0xffffffff

	headerSize = 4 + 1 + 2
	maxNames   = 16
)

// A qid is the server's name for a file (intro(5)).
type qid struct {
	Type    byte
	Version uint32
	Path    uint64
}

const (
	isDir     = 0x80 // in qid.type
	isAppend  = 0x40
	isAuth    = 0x08
	isSymlink = 0x02
)

func (q qid) String() string { return fmt.Sprintf("(%02x %d %x)", q.Type, q.Version, q.Path) }

// same reports whether a and b are of one file.
func (q qid) same(b qid) bool { return q.Path == b.Path && q.Type == b.Type }

// A message is a frame, taken apart. Its values are uint64, string, []byte,
// qid, []string and []qid, as its layout has them.
type message struct {
	*layout
	tag    uint16
	values []any
}

func (m *message) num(name string) uint64  { return m.values[m.index(name)].(uint64) }
func (m *message) text(name string) string { return m.values[m.index(name)].(string) }
func (m *message) data(name string) []byte { return m.values[m.index(name)].([]byte) }
func (m *message) qid(name string) qid     { return m.values[m.index(name)].(qid) }
func (m *message) qids() []qid             { return m.values[m.index("wqid")].([]qid) }

// isError reports whether m refuses a request.
func (m *message) isError() bool { return m.name == "Rerror" || m.name == "Rlerror" }

// String shows m as the manual writes it, with values.
func (m *message) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s tag %s", m.name, shown(uint64(m.tag), noTag, "NOTAG"))
	for i, f := range m.fields {
		b.WriteString(" " + f.name + " ")
		switch v := m.values[i].(type) {
		case uint64:
			b.WriteString(shown(v, noFid, "~0"))
		case string:
			b.WriteString(clipped(v))
		case []string:
			for i := range v {
				v[i] = clipped(v[i])
			}
			b.WriteString("[" + strings.Join(v, " ") + "]")
		case []byte:
			fmt.Fprintf(&b, "(%d bytes) %s", len(v), clipped(string(v)))
		default:
			fmt.Fprint(&b, v)
		}
	}
	return b.String()
}

func shown(v, special uint64, name string) string {
	if v == special {
		return name
	}
	return strconv.FormatUint(v, 10)
}

const shownBytes = 48

func clipped(s string) string {
	if len(s) > shownBytes {
		return strconv.Quote(s[:shownBytes]) + "…"
	}
	return strconv.Quote(s)
}

// frame makes a message of this dialect: values in the order of its fields,
// numbers of any type.
func (d *dialect) frame(tag uint16, name string, values ...any) []byte {
	l := d.byName[name]
	if l == nil || len(values) != len(l.fields) {
		panic(fmt.Sprintf("%s of %s has other fields", name, d.version))
	}
	b := binary.LittleEndian.AppendUint16([]byte{0, 0, 0, 0, l.kind}, tag)
	return sized(appendFields(b, l.fields, values))
}

// sized sets the size of a frame to what it is.
func sized(b []byte) []byte {
	binary.LittleEndian.PutUint32(b, uint32(len(b)))
	return b
}

func appendFields(b []byte, fields []field, values []any) []byte {
	for i, f := range fields {
		switch v := values[i].(type) {
		case string:
			b = appendString(b, v)
		case []string:
			b = binary.LittleEndian.AppendUint16(b, uint16(len(v)))
			for _, s := range v {
				b = appendString(b, s)
			}
		case []byte:
			if f.form == "n" {
				b = binary.LittleEndian.AppendUint16(b, uint16(len(v)))
			} else {
				b = binary.LittleEndian.AppendUint32(b, uint32(len(v)))
			}
			b = append(b, v...)
		case qid:
			b = append(b, v.Type)
			b = binary.LittleEndian.AppendUint32(b, v.Version)
			b = binary.LittleEndian.AppendUint64(b, v.Path)
		default:
			width, _ := strconv.Atoi(f.form)
			b = append(b, binary.LittleEndian.AppendUint64(nil, number(v))[:width]...)
		}
	}
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint16(b, uint16(len(s))), s...)
}

func number(v any) uint64 {
	switch v := v.(type) {
	case int:
		return uint64(v)
	case byte:
		return uint64(v)
	case uint16:
		return uint64(v)
	case uint32:
		return uint64(v)
	case uint64:
		return v
	}
	panic(fmt.Sprintf("%T is no number of 9P", v))
}

// decode takes a frame apart. What is wrong with it is an error, and then the
// message is as much as could be understood, or nil.
func (d *dialect) decode(frame []byte) (*message, error) {
	if len(frame) < headerSize {
		return nil, fmt.Errorf("a frame of %d bytes is shorter than size[4] type[1] tag[2]", len(frame))
	}
	tag := binary.LittleEndian.Uint16(frame[5:])
	l := d.byKind[frame[4]]
	if l == nil {
		return nil, fmt.Errorf("type %d with tag %d is no message of %s", frame[4], tag, d.version)
	}
	m := &message{layout: l, tag: tag}
	r := reader{b: frame[headerSize:]}
	m.values = r.fields(l.fields)
	if r.err == nil && len(r.b) > 0 {
		r.err = fmt.Errorf("%d bytes follow the fields of %s", len(r.b), l.name)
	}
	return m, r.err
}

// A reader takes fields off b; after the first that is not there it gives zeros.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fields(list []field) (values []any) {
	for _, f := range list {
		values = append(values, r.value(f))
	}
	return values
}

func (r *reader) value(f field) any {
	switch f.form {
	case "s":
		return r.str()
	case "13":
		return r.qid()
	case "n":
		return r.take(int(r.num(2)))
	case "count":
		return r.take(int(r.num(4)))
	case "s*":
		list := []string{}
		for n := r.num(2); n > 0 && r.err == nil; n-- {
			list = append(list, r.str())
		}
		return list
	case "13*":
		list := []qid{}
		for n := r.num(2); n > 0 && r.err == nil; n-- {
			list = append(list, r.qid())
		}
		return list
	}
	width, _ := strconv.Atoi(f.form)
	return r.num(width)
}

var errShort = errors.New("the message is shorter than its fields")

func (r *reader) take(n int) []byte {
	if n > len(r.b) || r.err != nil {
		if r.err == nil {
			r.err = errShort
		}
		r.b = nil
		return nil
	}
	p := r.b[:n]
	r.b = r.b[n:]
	return p
}

func (r *reader) num(width int) uint64 {
	var b [8]byte
	copy(b[:], r.take(width))
	return binary.LittleEndian.Uint64(b[:])
}

func (r *reader) str() string {
	s := string(r.take(int(r.num(2))))
	if !utf8.ValidString(s) && r.err == nil {
		r.err = errors.New("a string is not UTF-8: " + clipped(s))
	}
	return s
}

func (r *reader) qid() qid {
	return qid{Type: byte(r.num(1)), Version: uint32(r.num(4)), Path: r.num(8)}
}
