package fsys

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"
)

// Text returns a read-only file whose contents are made anew by each open; an
// open reads one snapshot. contents must be cheap: Stat calls it too.
func Text(contents func(context.Context) ([]byte, error)) Node { return text(contents) }

// Const returns a read-only file that always holds s.
func Const(s string) Node {
	return constant(s)
}

// constant needs no snapshot.
type constant []byte

func (c constant) Stat(context.Context) (Info, error) {
	return Info{Perm: 0o444, Size: int64(len(c))}, nil
}

func (c constant) Open(_ context.Context, f Flag) (Handle, error) {
	if f != Read {
		return nil, E(Permission, "this file is read-only")
	}
	return constantHandle(c), nil
}

type constantHandle []byte

func (constantHandle) Close() error { return nil }

func (c constantHandle) ReadAt(_ context.Context, p []byte, off int64) (int, error) {
	return readBytes(c, p, off)
}

// JSON returns a [Text] of one line: what value returns, as a JSON object.
func JSON[T any](value func(context.Context) (T, error)) Node {
	return text(func(ctx context.Context) ([]byte, error) {
		v, err := value(ctx)
		if err != nil {
			return nil, err
		}
		return Line(v), nil
	})
}

// Line returns v as one line of JSON with its newline, and without HTML
// escapes. It panics if v has no JSON form: that is a mistake in the program.
func Line(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return b.Bytes()
}

type text func(context.Context) ([]byte, error)

func (t text) Stat(ctx context.Context) (Info, error) {
	b, err := t(ctx)
	return Info{Perm: 0o444, Size: int64(len(b))}, err
}

func (t text) Open(ctx context.Context, f Flag) (Handle, error) {
	if f != Read {
		return nil, E(Permission, "this file is read-only")
	}
	b, err := t(ctx)
	if err != nil {
		return nil, err
	}
	return snapshot(b), nil
}

// snapshot is a Handle on bytes that no longer change.
type snapshot []byte

func (snapshot) Close() error { return nil }

func (s snapshot) Held() int64 { return int64(len(s)) }

func (s snapshot) ReadAt(_ context.Context, p []byte, off int64) (int, error) {
	return readBytes(s, p, off)
}

// A Doc is a small document that is kept whole and checked as it is written,
// such as limits or a policy. Writes gather in a draft of the handle, which is
// empty when the first of them is at offset 0, else what is stored; as soon as
// the draft is a whole JSON value it is given to Save, whose error the write
// returns. What is stored never is half a document, and readers see the old
// one until then.
type Doc struct {
	// Load returns the document as it is, ending in a newline.
	Load func(ctx context.Context) ([]byte, error)
	// Save checks and stores doc, or says in its reason what is wrong.
	Save func(ctx context.Context, doc []byte) error
	// Version, if set, counts saves.
	Version func() uint32
}

var _ Truncater = (*Doc)(nil)

func (d *Doc) Stat(ctx context.Context) (Info, error) {
	b, err := d.Load(ctx)
	info := Info{Perm: 0o644, Size: int64(len(b))}
	if d.Version != nil {
		info.Version = d.Version()
	}
	return info, err
}

func (d *Doc) Open(ctx context.Context, f Flag) (Handle, error) {
	h := &docHandle{doc: d, opened: context.WithoutCancel(ctx), flag: f}
	var err error
	if h.stored, err = d.Load(ctx); err != nil {
		return nil, err
	}
	if f&Write == 0 {
		return snapshot(h.stored), nil
	}
	return h, nil
}

// Truncate to 0 is what a shell's > sends before it opens; the document stays
// until another one is whole.
func (d *Doc) Truncate(_ context.Context, size int64) error {
	if size != 0 {
		return E(Invalid, "a document can only be truncated to nothing, and then written whole")
	}
	return nil
}

type docHandle struct {
	doc    *Doc
	opened context.Context
	flag   Flag
	stored []byte

	held  atomic.Int64
	mu    sync.Mutex
	draft []byte
	dirty bool // the draft holds bytes that were not saved
	began bool // a write came since the open
}

func (h *docHandle) Close() error { return nil }

// Held is the document as it was at the open, and what was written of another.
func (h *docHandle) Held() int64 { return int64(len(h.stored)) + h.held.Load() }

func (h *docHandle) ReadAt(_ context.Context, p []byte, off int64) (int, error) {
	if h.flag&Read == 0 {
		return 0, BadHandle
	}
	return readBytes(h.stored, p, off)
}

func (h *docHandle) WriteAt(ctx context.Context, p []byte, off int64) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() { h.held.Store(int64(cap(h.draft))) }()
	switch {
	case off < 0:
		return 0, E(Invalid, "a negative offset")
	case off+int64(len(p)) > MaxMessage:
		return 0, E(TooLarge, "a document is at most 1 MiB")
	}
	if !h.began && (off > 0 || h.flag&Append != 0) {
		h.draft = bytes.Clone(h.stored)
	}
	h.began = true
	if h.flag&Append != 0 {
		off = int64(len(h.draft))
	}
	if grow := off + int64(len(p)) - int64(len(h.draft)); grow > 0 {
		h.draft = append(h.draft, make([]byte, grow)...)
	}
	copy(h.draft[off:], p)
	if first := bytes.TrimLeft(TrimBOM(h.draft), " \t\r\n\x00"); len(first) > 0 && first[0] != '{' && first[0] != '[' {
		h.draft, h.began = nil, false
		return 0, E(Invalid, "this file takes a JSON object; nothing was changed")
	}
	h.dirty = true
	if !json.Valid(TrimBOM(h.draft)) {
		return len(p), nil
	}
	if err := h.save(ctx); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (h *docHandle) save(ctx context.Context) error {
	h.dirty = false
	return h.doc.Save(Join(ctx, h.opened), TrimBOM(h.draft))
}

// Sync reports a document that was left half-written.
func (h *docHandle) Sync(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.dirty {
		return nil
	}
	h.dirty = false
	return E(Invalid, "not a whole JSON value; nothing was changed")
}

// TimeFormat is how every file writes a time: RFC 3339, in UTC, with
// milliseconds.
const TimeFormat = "2006-01-02T15:04:05.000Z07:00"

// Stamp returns t in TimeFormat.
func Stamp(t time.Time) string { return t.UTC().Format(TimeFormat) }
