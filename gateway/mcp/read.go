package mcp

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agent9/fsys"
	"agent9/fsys/share"
)

// How many bytes one answer has.
const (
	usualBytes = 64 << 10
	mostBytes  = 1 << 20
)

// How many seconds a wait may take.
const (
	usualSeconds = 30
	mostSeconds  = 300
)

type part struct {
	Offset   int64 `json:"offset,omitempty" jsonschema:"byte to begin at, such as next_offset of what was read before"`
	MaxBytes int   `json:"max_bytes,omitempty" jsonschema:"most bytes to return; 65536 unless given, at most 1048576"`
}

type readArgs struct {
	at
	part
}

type waitArgs struct {
	at
	part
	ToEnd   bool    `json:"to_end,omitempty" jsonschema:"true: until the stream has ended; false: until there is anything"`
	Seconds float64 `json:"seconds,omitempty" jsonschema:"longest time to wait; 30 unless given, at most 300"`
}

// A chunk is a part of a file.
type chunk struct {
	Path     string `json:"path"`
	Kind     string `json:"kind"`
	Text     string `json:"text" jsonschema:"what was read"`
	Encoding string `json:"encoding" jsonschema:"of text: utf-8 or base64"`
	Offset   int64  `json:"offset"`
	Next     int64  `json:"next_offset" jsonschema:"where to go on"`
	More     bool   `json:"more" jsonschema:"there is more now at next_offset"`
	Ended    bool   `json:"ended" jsonschema:"nothing will follow"`
	TimedOut bool   `json:"timed_out,omitempty" jsonschema:"the time was over first"`

	raw []byte // what Text is of
}

// about says of a chunk what a model has to know besides the text.
func (c chunk) about() string {
	s := fmt.Sprintf("[%s, bytes %d to %d", c.Kind, c.Offset, c.Next)
	if c.Encoding != "utf-8" {
		s += " in " + c.Encoding
	}
	switch {
	case c.More:
		s += fmt.Sprintf("; there is more: go on with offset %d", c.Next)
	case c.Ended:
		s += "; this is the end"
	case c.TimedOut:
		s += fmt.Sprintf("; the time is over: wait again with offset %d", c.Next)
	case c.Kind == fsys.Stream.String():
		s += fmt.Sprintf("; the stream goes on: wait with offset %d", c.Next)
	}
	return s + "]"
}

func (c chunk) shown() []sdk.Content {
	return []sdk.Content{text(c.Text), text(c.about())}
}

// set gives c what was read. A character that is cut off at the end is left
// for the next time.
func (c *chunk) set(b []byte) {
	if !c.Ended {
		if whole := wholeRunes(b); whole > 0 && whole < len(b) {
			b, c.More = b[:whole], true
		}
	}
	c.raw, c.Next = b, c.Offset+int64(len(b))
	c.Text, c.Encoding = encoded(b)
}

func encoded(b []byte) (text, encoding string) {
	if utf8.Valid(b) {
		return string(b), "utf-8"
	}
	return base64.StdEncoding.EncodeToString(b), "base64"
}

// wholeRunes returns how many bytes of b there are without a character that is
// cut off at its end.
func wholeRunes(b []byte) int {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if utf8.FullRune(b[i:]) {
				break
			}
			return i
		}
	}
	return len(b)
}

// check returns how much is to be read at most.
func (p part) check() (most int, err error) {
	switch {
	case p.Offset < 0:
		return 0, fsys.E(fsys.Invalid, "offset cannot be negative")
	case p.MaxBytes < 0 || p.MaxBytes > mostBytes:
		return 0, fsys.E(fsys.Invalid, fmt.Sprintf("max_bytes must be from 1 to %d", mostBytes))
	case p.MaxBytes == 0:
		return usualBytes, nil
	}
	return max(p.MaxBytes, utf8.UTFMax), nil
}

func (t *tree) read(ctx context.Context, in readArgs) (chunk, error) {
	most, err := in.check()
	if err != nil {
		return chunk{}, err
	}
	return t.readPart(ctx, in.Path, in.Offset, most)
}

// readPart reads what is there now.
func (t *tree) readPart(ctx context.Context, p string, off int64, most int) (chunk, error) {
	node, info, err := t.look(ctx, p)
	c := chunk{Path: clean(p), Kind: info.Kind.String(), Offset: off, Next: off}
	switch {
	case err != nil:
		return c, err
	case info.Kind == fsys.Directory:
		return c, fsys.E(fsys.IsDir, "this is a directory: list it")
	case info.Kind == fsys.Stream:
		// A stream may make a reader wait for what is not there yet.
		there := max(0, info.Size-off)
		c.More = there > int64(most)
		c.Ended = info.Ended && !c.More
		if most = int(min(int64(most), there)); most == 0 {
			c.set(nil)
			return c, nil
		}
	}
	h, err := t.open(ctx, node, fsys.Read)
	if err != nil {
		return c, err
	}
	defer h.Close()
	if err := t.part.Wait(ctx, share.Data, read*int64(most)); err != nil {
		return c, err
	}
	b := make([]byte, most)
	n := 0
	for n < len(b) {
		m, err := fsys.ReadAt(ctx, h, b[n:], off+int64(n))
		n += m
		if fsys.IsEOF(err) || err == nil && m == 0 {
			c.Ended = true
			break
		}
		if err != nil {
			return c, err
		}
	}
	if n == most && info.Kind != fsys.Stream {
		c.More, err = anyAt(ctx, h, off+int64(n))
		if err != nil {
			return c, err
		}
		c.Ended = !c.More
	}
	if n == 0 && off == 0 && info.Kind == fsys.Message {
		return c, fsys.E(fsys.Busy, "this file answers requests: call it with one")
	}
	c.set(b[:n])
	return c, nil
}

// open opens n, and takes account of what the open file keeps.
func (t *tree) open(ctx context.Context, n fsys.Node, flag fsys.Flag) (fsys.Handle, error) {
	done, err := t.part.Make(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	h, err := n.Open(ctx, flag)
	if err == nil && !t.part.Reserve(share.Files, fsys.Held(h)) {
		h.Close()
		err = share.ErrFull
	}
	if err != nil {
		return nil, err
	}
	return h, nil
}

// anyAt reports whether there is a byte at off.
func anyAt(ctx context.Context, h fsys.Handle, off int64) (bool, error) {
	n, err := fsys.ReadAt(ctx, h, make([]byte, 1), off)
	if fsys.IsEOF(err) {
		err = nil
	}
	return n > 0, err
}

// patience returns how long to wait.
func patience(seconds, usual float64) (time.Duration, error) {
	if seconds < 0 || seconds > mostSeconds {
		return 0, fsys.E(fsys.Invalid, fmt.Sprintf("seconds must be from 0 to %d", mostSeconds))
	}
	if seconds == 0 {
		seconds = usual
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// errWaited says that the time is over.
var errWaited = fsys.E(fsys.Timeout, "the time is up")

func (t *tree) wait(ctx context.Context, in waitArgs) (chunk, error) {
	most, err := in.check()
	if err != nil {
		return chunk{}, err
	}
	long, err := patience(in.Seconds, usualSeconds)
	if err != nil {
		return chunk{}, err
	}
	node, info, err := t.look(ctx, in.Path)
	c := chunk{Path: clean(in.Path), Kind: info.Kind.String(), Offset: in.Offset, Next: in.Offset}
	switch {
	case err != nil:
		return c, err
	case info.Kind != fsys.Stream:
		return c, fsys.E(fsys.Unsupported, "only a stream can be waited for, and this is a "+info.Kind.String()+": use "+tool(info.Kind))
	}
	h, err := t.open(ctx, node, fsys.Read)
	if err != nil {
		return c, err
	}
	defer h.Close()
	if err := t.part.Wait(ctx, share.Data, read*int64(most)); err != nil {
		return c, err
	}
	b, err := c.follow(ctx, h, long, most, in.ToEnd)
	if err != nil {
		return c, err
	}
	if c.Ended {
		if err := fsys.Sync(ctx, h); err != nil {
			return c, err
		}
	}
	c.set(b)
	return c, nil
}

// follow reads a stream for so long, up to so much, or until it has ended.
func (c *chunk) follow(ctx context.Context, h fsys.Handle, long time.Duration, most int, toEnd bool) ([]byte, error) {
	timed, cancel := context.WithTimeoutCause(ctx, long, errWaited)
	defer cancel()
	b := make([]byte, 0, 4<<10)
	for len(b) < most {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := fsys.ReadAt(timed, h, b[len(b):min(cap(b), most)], c.Offset+int64(len(b)))
		b = b[:len(b)+n]
		switch {
		case fsys.IsEOF(err), err == nil && n == 0:
			c.Ended = true
			return b, nil
		case err != nil && ctx.Err() == nil && context.Cause(timed) == errWaited:
			c.TimedOut = true
			return b, nil
		case err != nil:
			return b, err
		case !toEnd:
			return b, nil
		}
	}
	c.More = true
	return b, nil
}

// tool is what a file of kind k is for.
func tool(k fsys.Kind) string {
	switch k {
	case fsys.Directory:
		return "list"
	case fsys.Message:
		return "call"
	case fsys.Stream:
		return "wait"
	}
	return "read"
}
