package fsys

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync/atomic"
)

// MaxMessage is how many bytes a Message file takes as one request, unless it
// says otherwise.
const MaxMessage = 1 << 20

// A Call is a Message file that takes requests: a handle on it is a
// conversation. Offsets are ignored, and truncating it does nothing.
//
// If the first byte of a request that is not white space is '{', it is a JSON
// object: the write that completes it acts, and returns the error if there is
// one. Anything else is plain text and acts at the first of a read on the
// same handle, Sync, or the Sync that goes before an orderly Close. Reads
// after that give the reply once, then the end. Several requests in one write
// act in order, and their replies are read one after another; with a context of
// [OneRequest] none acts. A byte order mark before JSON is passed over. Reading before
// writing is Busy; who opened the file only to read it, as what reads all files
// does, finds it empty.
type Call struct {
	// Do performs one request and returns its reply. req is a whole JSON object
	// without the white space around it, or text without one final newline.
	Do func(ctx context.Context, req []byte) (reply []byte, err error)
	// Admit, if set, is asked when the file is opened for writing: it refuses
	// what can be refused before a request is there.
	Admit func(ctx context.Context) error
	// Effect is what Do brings about.
	Effect Effect
	// Raw takes every byte as it is: no JSON, and no newline is cut off. The
	// request ends only at a read, Sync, or orderly Close.
	Raw bool
	// Limit is how many bytes a request may have; 0 means MaxMessage.
	Limit int
	// Closed, if set, is called once for each handle, when it is closed.
	Closed func()
}

var _ Truncater = (*Call)(nil)

func (c *Call) Stat(context.Context) (Info, error) {
	return Info{Kind: Message, Effect: c.Effect, Perm: 0o666}, nil
}

func (c *Call) Open(ctx context.Context, flag Flag) (Handle, error) {
	if flag&Write != 0 && c.Admit != nil {
		if err := c.Admit(ctx); err != nil {
			return nil, err
		}
	}
	return &callHandle{call: c, flag: flag, opened: context.WithoutCancel(ctx)}, nil
}

func (c *Call) Truncate(context.Context, int64) error { return nil }

type oneRequestKey struct{}

// OneRequest returns a context for a write that is one request, as it has one
// answer: a Call and a Ctl refuse one with several before anything acts, which
// would leave the replies of some untold if another fails.
func OneRequest(ctx context.Context) context.Context {
	return context.WithValue(ctx, oneRequestKey{}, true)
}

type callHandle struct {
	call   *Call
	flag   Flag
	opened context.Context

	turn    Mutex // held while a request is performed; guards what follows
	req     []byte
	scan    jsonScan
	broken  error // the rest of a request that went wrong is not another one
	replies []byte
	acted   bool
	failed  error // of the last request, until it was read or another began
	held    atomic.Int64
}

// Held is what has been gathered of a request, and what is left of replies.
func (h *callHandle) Held() int64 { return h.held.Load() }

// rest ends a turn.
func (h *callHandle) rest() {
	h.held.Store(int64(cap(h.req) + cap(h.replies)))
	h.turn.Unlock()
}

func (h *callHandle) Close() error {
	if h.call.Closed != nil {
		h.call.Closed()
	}
	return nil
}

func (h *callHandle) WriteAt(ctx context.Context, p []byte, _ int64) (int, error) {
	if h.flag&Write == 0 {
		return 0, BadHandle
	}
	if err := h.turn.Lock(ctx); err != nil {
		return 0, err
	}
	defer h.rest()
	if h.broken != nil {
		return 0, h.broken
	}
	if err := h.checkTail(ctx, p); err != nil {
		return 0, err
	}
	for rest := p; len(rest) > 0; {
		n, whole := h.gather(rest)
		limit := h.call.Limit
		if limit == 0 {
			limit = MaxMessage
		}
		if len(h.req)+n > limit {
			h.broken = E(TooLarge, "the request is longer than this file accepts")
			h.req = nil
			return 0, h.broken
		}
		h.req = append(h.req, rest[:n]...)
		rest = rest[n:]
		if !whole {
			break
		}
		if err := h.act(ctx); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// gather returns how many bytes of p belong to the request being gathered,
// and whether they complete it.
func (h *callHandle) gather(p []byte) (n int, whole bool) {
	if h.call.Raw {
		return len(p), false
	}
	return h.scan.feed(p)
}

// asText says why a request was taken for JSON.
const asText = "; a request that begins with { must be JSON"

// checkTail refuses p before anything acts if it has something after a JSON
// object that is neither white space nor, unless ctx is for one request, another
// one: the writer made a mistake, and half of a mistake should not act.
func (h *callHandle) checkTail(ctx context.Context, p []byte) error {
	if h.call.Raw {
		return nil
	}
	one := ctx.Value(oneRequestKey{}) != nil
	s := h.scan
	for values := 0; len(p) > 0; {
		n, whole := s.feed(p)
		if values > 0 && (s.text || one && s.began) {
			h.req, h.scan = nil, jsonScan{}
			const more = "there is data after the JSON object, so nothing was done"
			if s.text {
				return E(Invalid, more+asText)
			}
			return E(Invalid, more+"; send one request")
		}
		if p = p[n:]; whole {
			values++
			s = jsonScan{}
		}
	}
	return nil
}

// act performs the request that has been gathered.
func (h *callHandle) act(ctx context.Context) error {
	req := h.req
	if !h.call.Raw {
		if h.scan.text {
			req = bytes.TrimSuffix(req, []byte("\n"))
		} else {
			req = bytes.TrimSpace(TrimBOM(bytes.TrimSpace(req)))
		}
	}
	var whole json.RawMessage
	var reply []byte
	var err error
	if !h.call.Raw && !h.scan.text {
		err = json.Unmarshal(req, &whole)
	}
	h.req, h.scan = nil, jsonScan{}
	if err != nil {
		err = E(Invalid, "the request is not JSON: "+err.Error()+asText)
	} else {
		reply, err = h.call.Do(Join(ctx, h.opened), req)
	}
	h.acted, h.failed = true, err
	h.replies = append(h.replies, reply...)
	return err
}

// end acts on what plain text there is, as nothing more will come.
func (h *callHandle) end(ctx context.Context) error {
	switch {
	case len(h.req) == 0:
		return nil
	case h.call.Raw, h.scan.text:
		return h.act(ctx)
	case h.scan.depth > 0:
		h.req, h.scan = nil, jsonScan{}
		h.acted = true
		h.failed = E(Invalid, "the JSON object is not complete"+asText)
		return h.failed
	}
	h.req, h.scan = nil, jsonScan{} // white space
	return nil
}

func (h *callHandle) ReadAt(ctx context.Context, p []byte, _ int64) (int, error) {
	if h.flag&Read == 0 {
		return 0, BadHandle
	}
	if err := h.turn.Lock(ctx); err != nil {
		return 0, err
	}
	defer h.turn.Unlock()
	if h.broken != nil {
		return 0, h.broken
	}
	if err := h.end(ctx); err != nil {
		h.failed = nil
		return 0, err
	}
	switch {
	case len(h.replies) > 0:
		n := copy(p, h.replies)
		h.replies = h.replies[n:]
		return n, nil
	case h.failed != nil:
		err := h.failed
		h.failed = nil
		return 0, err
	case !h.acted && h.flag&Write != 0:
		return 0, E(Busy, "write a request first, then read the reply on the same open file")
	}
	return 0, io.EOF
}

func (h *callHandle) Sync(ctx context.Context) error {
	if err := h.turn.Lock(ctx); err != nil {
		return err
	}
	defer h.turn.Unlock()
	return h.end(ctx)
}

// bom is the byte order mark that some editors and shells put before JSON.
const bom = "\uFEFF"

// TrimBOM returns p without a leading byte order mark, whole or cut short.
func TrimBOM(p []byte) []byte {
	if len(p) < len(bom) && bytes.HasPrefix([]byte(bom), p) {
		return nil
	}
	return bytes.TrimPrefix(p, []byte(bom))
}

// jsonScan finds the end of a JSON object without looking at a byte twice.
// Whether it is well formed shows when it is whole.
type jsonScan struct {
	began, text, inString, escaped bool
	depth                          int
}

// feed returns how many bytes of p belong to this request, and whether it is
// now a whole JSON object.
func (s *jsonScan) feed(p []byte) (n int, whole bool) {
	if s.text {
		return len(p), false
	}
	for i, b := range p {
		switch {
		case !s.began:
			switch b {
			case ' ', '\t', '\r', '\n', bom[0], bom[1], bom[2]: // the mark, in whatever pieces it comes
			case '{':
				s.began = true
				s.depth = 1
			default:
				s.began, s.text = true, true
				return len(p), false
			}
		case s.escaped:
			s.escaped = false
		case s.inString:
			switch b {
			case '\\':
				s.escaped = true
			case '"':
				s.inString = false
			}
		case b == '"':
			s.inString = true
		case b == '{', b == '[':
			s.depth++
		case b == '}', b == ']':
			if s.depth--; s.depth == 0 {
				return i + 1, true
			}
		}
	}
	return len(p), false
}

// A Ctl is a Message file that takes commands: each line of a write is one,
// and acts in the write that brings it; the end of a write ends its last line.
// Reads on a handle that has written give the replies of its commands; on one
// that has not, Text.
type Ctl struct {
	// Do performs one command, given as its words, and returns a reply, which
	// may be empty.
	Do func(ctx context.Context, words []string) (reply []byte, err error)
	// Text is what a reader sees: the commands that there are, one per line.
	Text   func(ctx context.Context) ([]byte, error)
	Effect Effect
	// Closed, if set, is called when a handle is closed, after all that it
	// has done.
	Closed func()
}

var _ Truncater = (*Ctl)(nil)

func (c *Ctl) Stat(context.Context) (Info, error) {
	return Info{Kind: Message, Effect: c.Effect, Perm: 0o666}, nil
}

func (c *Ctl) Open(ctx context.Context, flag Flag) (Handle, error) {
	h := &ctlHandle{ctl: c, flag: flag, opened: context.WithoutCancel(ctx)}
	if flag&Read != 0 {
		var err error
		if h.text, err = c.Text(ctx); err != nil {
			return nil, err
		}
	}
	return h, nil
}

func (c *Ctl) Truncate(context.Context, int64) error { return nil }

type ctlHandle struct {
	ctl    *Ctl
	flag   Flag
	opened context.Context
	text   []byte

	turn    Mutex // held while a command is performed; guards what follows
	wrote   bool
	replies []byte
	held    atomic.Int64
}

// Held is what there is to read.
func (h *ctlHandle) Held() int64 { return int64(len(h.text)) + h.held.Load() }

// rest ends a turn.
func (h *ctlHandle) rest() {
	h.held.Store(int64(cap(h.replies)))
	h.turn.Unlock()
}

func (h *ctlHandle) Close() error {
	if h.ctl.Closed != nil {
		h.ctl.Closed()
	}
	return nil
}

func (h *ctlHandle) WriteAt(ctx context.Context, p []byte, _ int64) (int, error) {
	if h.flag&Write == 0 {
		return 0, BadHandle
	}
	if err := h.turn.Lock(ctx); err != nil {
		return 0, err
	}
	defer h.rest()
	if text := strings.TrimSpace(string(p)); strings.Contains(text, "\n") && ctx.Value(oneRequestKey{}) != nil {
		return 0, E(Invalid, "these are several commands, and nothing was done; send one at a time")
	}
	h.wrote = true
	for line := range strings.Lines(string(p)) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		reply, err := h.ctl.Do(Join(ctx, h.opened), words)
		h.replies = append(h.replies, reply...)
		if err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

func (h *ctlHandle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	if h.flag&Read == 0 {
		return 0, BadHandle
	}
	if err := h.turn.Lock(ctx); err != nil {
		return 0, err
	}
	defer h.rest()
	if !h.wrote {
		return readBytes(h.text, p, off)
	}
	n := copy(p, h.replies)
	h.replies = h.replies[n:]
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}
