package web

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"agent9/fsys"
)

// get serves GET and HEAD.
func (s *Session) get() error {
	ctx := s.R.Context()
	node, err := s.Walk(ctx, s.Path...)
	if err != nil {
		return err
	}
	info, err := s.stat(ctx, node)
	if err != nil {
		return err
	}
	h := s.W.Header()
	h.Set(kindHeader, info.Kind.String())
	h.Set(permHeader, info.Perm.Perm().String())
	if tag := etagOf(info); tag != "" {
		h.Set("Etag", tag)
	}
	if fsys.Takes(node) {
		h.Set("Allow", "HEAD, POST, OPTIONS")
	}
	watch := s.R.URL.Query().Get("watch") != "" || s.accepts(eventStream)
	switch {
	case info.Kind == fsys.Directory && watch, info.Kind != fsys.Stream && s.R.URL.Query().Get("watch") != "":
		return fsys.E(fsys.Unsupported, "only a stream can be watched, and this is a "+info.Kind.String())
	case info.Kind == fsys.Directory && s.R.Method == http.MethodHead:
		h.Set("Content-Type", jsonType)
		return s.head(info)
	case info.Kind == fsys.Directory:
		return s.list(ctx, node)
	case s.slash:
		return fsys.NotDir
	case s.R.Method == http.MethodHead && (info.Kind != fsys.File || info.Size == 0):
		return s.head(info)
	case fsys.Takes(node):
		return failed(http.StatusMethodNotAllowed, fsys.Unsupported, "reading this file consumes data, which GET must not do; use POST with an empty body")
	case info.Kind == fsys.Stream && watch:
		return s.watch(ctx, node, info)
	case info.Kind == fsys.Stream:
		return s.getStream(ctx, node, info)
	}
	if info.Large {
		return s.getLarge(ctx, node)
	}
	return s.getFile(ctx, node, info)
}

// etagOf returns what changes with the file; empty if it does not say.
func etagOf(info fsys.Info) string {
	if info.Kind != fsys.File || info.Version == 0 && info.Gen == 0 {
		return ""
	}
	return fmt.Sprintf(`"%x-%x-%x"`, info.Gen, info.Version, info.Size)
}

func (s *Session) head(info fsys.Info) error {
	h := s.W.Header()
	if info.Kind == fsys.Stream && info.Size > 0 {
		h.Set(sizeHeader, strconv.FormatInt(info.Size, 10)) // more may be read
	}
	if info.Kind == fsys.File {
		h.Set("Content-Length", strconv.FormatInt(info.Size, 10))
	}
	if !info.ModTime.IsZero() {
		h.Set("Last-Modified", info.ModTime.UTC().Format(http.TimeFormat))
	}
	s.W.WriteHeader(http.StatusOK)
	return nil
}

// getFile serves what has an end: a file, or what a Message file says without
// being asked.
func (s *Session) getFile(ctx context.Context, node fsys.Node, info fsys.Info) error {
	h, err := s.Open(ctx, node, fsys.Read)
	if err != nil {
		return err
	}
	defer h.Close()
	var content io.ReadSeeker
	if etagOf(info) != "" {
		content = &seeker{ctx: ctx, h: h, size: info.Size}
	} else {
		text, err := s.readAll(ctx, h)
		switch {
		case err != nil:
			return err
		case len(text) == 0 && info.Kind == fsys.Message:
			return fsys.E(fsys.Busy, "this file answers requests: POST one")
		}
		content = bytes.NewReader(text)
	}
	if err := s.setType(content); err != nil {
		return err
	}
	if strings.Count(s.R.Header.Get("Range"), ",") >= maxRanges {
		s.R.Header.Del("Range") // so a server may, and the answer is no longer than the file
	}
	if err := s.Keep(copyBytes); err != nil {
		return err
	}
	http.ServeContent(&explained{s.out, false}, s.R, "", info.ModTime, content)
	return nil
}

// copyBytes is what is read of a file at once to send it.
const copyBytes = 32 << 10

// maxRanges is how many parts of a file are sent in one answer: each costs
// more to send than to ask for.
const maxRanges = 16

// explained gives the refusals of [http.ServeContent] the form of all others.
type explained struct {
	*writer
	refused bool
}

func (w *explained) WriteHeader(status int) {
	if status < http.StatusBadRequest {
		w.writer.WriteHeader(status)
		return
	}
	w.refused = true
	code, reason := fsys.Invalid, "the file has no such bytes"
	if status == http.StatusPreconditionFailed {
		code, reason = fsys.Busy, unseen
	}
	Refuse(w.writer, failed(status, code, reason))
}

func (w *explained) Write(p []byte) (int, error) {
	if w.refused {
		return len(p), nil
	}
	return w.writer.Write(p)
}

// setType finds out whether content begins with text. No more is guessed:
// agents and models wrote it.
func (s *Session) setType(content io.ReadSeeker) error {
	begin := make([]byte, beginning)
	n, err := io.ReadFull(content, begin)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return err
	}
	s.W.Header().Set("Content-Type", typeOf(begin[:n]))
	_, err = content.Seek(0, io.SeekStart)
	return err
}

// beginning is how much of a file tells whether it is text.
const beginning = 512

func typeOf(begin []byte) string {
	begin = begin[:min(len(begin), beginning)]
	if len(begin) == beginning {
		begin = begin[:wholeRunes(begin)]
	}
	if utf8.Valid(begin) && !bytes.ContainsRune(begin, 0) {
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

// maxSnapshot is how much of a file without a version is read at once.
const maxSnapshot = 16 << 20

// readAll reads h to its end, for as long as wait says.
func (s *Session) readAll(ctx context.Context, h fsys.Handle) ([]byte, error) {
	wait, given, err := s.Wait()
	if err != nil {
		return nil, err
	}
	if given {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	var b []byte
	for {
		if len(b) == cap(b) {
			if b, err = s.Grow(b); err != nil {
				return nil, err
			}
		}
		n, err := fsys.ReadAt(ctx, h, b[len(b):cap(b)], int64(len(b)))
		b = b[:len(b)+n]
		switch {
		case fsys.IsEOF(err), n == 0 && err == nil:
			return b, nil
		case err != nil && given && ctx.Err() != nil && s.R.Context().Err() == nil:
			return b, nil
		case err != nil:
			return b, err
		case len(b) > maxSnapshot:
			return b, fsys.E(fsys.TooLarge, "this is too long to read at once")
		}
	}
}

// A seeker is a file that keeps its size while it is sent.
type seeker struct {
	ctx       context.Context
	h         fsys.Handle
	off, size int64
}

func (f *seeker) Read(p []byte) (int, error) {
	if f.off >= f.size {
		return 0, io.EOF
	}
	n, err := fsys.ReadAt(f.ctx, f.h, p[:min(int64(len(p)), f.size-f.off)], f.off)
	f.off += int64(n)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

func (f *seeker) Seek(off int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		off += f.off
	case io.SeekEnd:
		off += f.size
	}
	f.off = off
	return off, nil
}

// getStream sends a stream as it comes until it ends.
func (s *Session) getStream(ctx context.Context, node fsys.Node, info fsys.Info) error {
	off, err := s.offset(info)
	if err != nil {
		return err
	}
	if s.R.Header.Get("Range") != "" {
		return s.getFile(ctx, node, fsys.Info{ModTime: info.ModTime, Size: info.Size, Gen: 1}) // what is there now
	}
	wait, given, err := s.Wait()
	if err != nil {
		return err
	}
	h, err := s.Open(ctx, node, fsys.Read)
	if err != nil {
		return err
	}
	defer h.Close()
	f := &follower{ctx: ctx, h: h, off: off, buf: make([]byte, 4<<10)}
	for {
		n, err := f.read(fsys.AtOnce(ctx))
		if n == 0 && fsys.CodeOf(err) == fsys.Canceled && ctx.Err() == nil {
			if given && wait == 0 {
				return s.flushText()
			}
			if err := s.flushText(); err != nil { // the client sees that it waits
				return err
			}
			n, err = f.readWithin(wait)
		}
		if n > 0 {
			s.out.setType(typeOf(f.buf[:n]))
			if _, err := s.out.Write(f.buf[:n]); err != nil {
				return err
			}
			continue
		}
		if err == nil || fsys.IsEOF(err) || err == errWaited {
			return s.flushText()
		}
		return err
	}
}

const textType = "text/plain; charset=utf-8"

// flushText sends what there is so far.
func (s *Session) flushText() error {
	s.out.setType(textType)
	return s.out.FlushError()
}

// offset is where in a stream the client wants to begin.
func (s *Session) offset(info fsys.Info) (int64, error) {
	text := s.R.URL.Query().Get("offset")
	if id := s.R.Header.Get("Last-Event-ID"); id != "" {
		text = id
	}
	if text == "" {
		return 0, nil
	}
	off, err := strconv.ParseInt(text, 10, 64)
	if err != nil || off < 0 {
		return 0, fsys.E(fsys.Invalid, "an offset must be a number of bytes, not "+shortened(text))
	}
	if off > info.Size {
		return 0, failed(http.StatusRequestedRangeNotSatisfiable, fsys.Invalid, "the stream has no byte "+strconv.FormatInt(off, 10)+"; start without an offset")
	}
	return off, nil
}

// A follower reads a stream from an offset on.
type follower struct {
	ctx context.Context
	h   fsys.Handle
	off int64 // of what is read next
	buf []byte
}

// errWaited says that nothing came for as long as the reader wanted to wait.
var errWaited = fsys.E(fsys.Timeout, "no data arrived in time")

// read reads into the empty buf.
func (f *follower) read(ctx context.Context) (int, error) {
	n, err := fsys.ReadAt(ctx, f.h, f.buf, f.off)
	f.off += int64(n)
	return n, err
}

// readWithin is read that waits so long; 0 is for ever.
func (f *follower) readWithin(wait time.Duration) (int, error) {
	if wait <= 0 {
		return f.read(f.ctx)
	}
	ctx, cancel := context.WithTimeoutCause(f.ctx, wait, errWaited)
	defer cancel()
	n, err := f.read(ctx)
	if n == 0 && err != nil && context.Cause(ctx) == errWaited {
		err = errWaited
	}
	return n, err
}
