package web

import (
	"bytes"
	"context"
	"encoding/base64"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"agent9/fsys"
)

const eventStream = "text/event-stream"

// How much of a stream is read at once, and how long a line may be that is
// sent as one event.
const (
	eventRoom = 4 << 10
	maxLine   = 64 << 10
)

// The types of events that are not a line.
const (
	partEvent   = "part"
	base64Event = "base64"
	endEvent    = "end"
)

// watch sends a stream as events until it ends.
func (s *Session) watch(ctx context.Context, node fsys.Node, info fsys.Info) error {
	off, err := s.offset(info)
	if err != nil {
		return err
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
	w := &watcher{s: s, ctx: ctx, node: node, f: follower{ctx: ctx, h: h, off: off, buf: make([]byte, eventRoom)}, sent: off}
	// What is refused at the first read still has a status.
	n, err := w.f.read(fsys.AtOnce(ctx))
	switch {
	case n == 0 && off > 0 && (err == nil || fsys.IsEOF(err)):
		s.W.WriteHeader(http.StatusNoContent) // which tells an EventSource not to come back
		return nil
	case n == 0 && err != nil && !fsys.IsEOF(err) && !w.blocked(n, err):
		return err
	}
	s.W.Header().Set("Content-Type", eventStream)
	s.W.Header().Set("Cache-Control", "no-store")
	s.W.Header().Set("X-Accel-Buffering", "no")
	if err := s.out.FlushError(); err != nil {
		return err
	}
	return w.follow(n, err, wait, given)
}

// A watcher makes events of a stream.
type watcher struct {
	s    *Session
	ctx  context.Context
	node fsys.Node
	f    follower
	held []byte       // read, and not sent yet
	sent int64        // the offset behind the last event
	ids  bool         // all opens of the stream have the same offsets
	out  bytes.Buffer // events to flush
}

// blocked reports whether a read at once found that there is nothing yet.
func (w *watcher) blocked(n int, err error) bool {
	return n == 0 && fsys.CodeOf(err) == fsys.Canceled && err != nil && w.ctx.Err() == nil
}

// follow goes on from a read at once that returned n and err.
func (w *watcher) follow(n int, err error, wait time.Duration, given bool) error {
	for {
		if w.blocked(n, err) {
			// Nothing more for now, so a part of a line goes as it is.
			if err := w.send(true); err != nil {
				return err
			}
			n, err = w.await(wait, given)
		}
		switch {
		case n > 0:
			if err := w.got(n); err != nil {
				return err
			}
		case err == nil || fsys.IsEOF(err):
			if err := w.send(true); err != nil {
				return err
			}
			if len(w.held) > 0 { // half a character
				w.line(w.held, len(w.held), partEvent)
			}
			w.event(endEvent, nil, w.f.off)
			return w.flush()
		case err == errWaited:
			return nil
		case context.Cause(w.s.server.ctx) != nil:
			return nil // the client comes back with the id that it has
		default:
			return err
		}
		n, err = w.f.read(fsys.AtOnce(w.ctx))
	}
}

// await reads what comes next, and shows the client meanwhile that the
// connection lives.
func (w *watcher) await(wait time.Duration, given bool) (int, error) {
	for {
		beat := w.s.server.Heartbeat
		if given && wait < beat {
			if wait <= 0 {
				return 0, errWaited
			}
			beat = wait
		}
		n, err := w.f.readWithin(beat)
		if err != errWaited {
			return n, err
		}
		if wait -= beat; given && wait <= 0 {
			return 0, errWaited
		}
		w.out.WriteString(":\n\n")
		if err := w.flush(); err != nil {
			return 0, err
		}
	}
}

// got takes n bytes that were read, and sends the lines that are whole.
func (w *watcher) got(n int) error {
	if !w.ids {
		info, err := w.node.Stat(w.ctx)
		w.ids = err == nil && info.Size >= w.f.off
	}
	had := cap(w.held)
	w.held = append(w.held, w.f.buf[:n]...)
	if err := w.s.Keep(2 * int64(cap(w.held)-had)); err != nil { // what is sent is as long
		return err
	}
	return w.send(len(w.held) > maxLine)
}

// send sends the lines in held, and with part also the beginning of one.
func (w *watcher) send(part bool) error {
	p := w.held
	for len(p) > 0 {
		n := bytes.IndexByte(p, '\n') + 1
		if n == 0 {
			break
		}
		w.line(p[:n], n-1, "")
		p = p[n:]
	}
	if part && len(p) > 0 {
		if n := wholeRunes(p); n > 0 {
			w.line(p[:n], n, partEvent)
			p = p[n:]
		}
	}
	w.held = append(w.held[:0], p...)
	return w.flush()
}

// line makes an event of p, whose text are the first n bytes.
func (w *watcher) line(p []byte, n int, kind string) {
	w.sent += int64(len(p))
	if !utf8.Valid(p) || bytes.ContainsAny(p, "\r\x00") {
		w.event(base64Event, base64.StdEncoding.AppendEncode(nil, p), w.sent)
		return
	}
	w.event(kind, p[:n], w.sent)
}

// wholeRunes returns how many bytes of p are before a character that is cut
// off at its end; all, if that cannot become one.
func wholeRunes(p []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(p); back++ {
		last := p[len(p)-back:]
		if utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return len(p) - back
			}
			break
		}
	}
	return len(p)
}

func (w *watcher) event(kind string, data []byte, off int64) {
	if w.ids {
		w.out.WriteString("id: ")
		w.out.Write(strconv.AppendInt(w.out.AvailableBuffer(), off, 10))
		w.out.WriteByte('\n')
	}
	if kind != "" {
		w.out.WriteString("event: " + kind + "\n")
	}
	w.out.WriteString("data: ")
	w.out.Write(data)
	w.out.WriteString("\n\n")
}

func (w *watcher) flush() error {
	if w.out.Len() == 0 {
		return nil
	}
	_, err := w.s.out.Write(w.out.Bytes())
	w.out.Reset()
	if err != nil {
		return err
	}
	return w.s.out.FlushError()
}
