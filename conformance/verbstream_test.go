//go:build linux

package conformance_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"io"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"agent9/fsys"
)

// A verbStream follows a stream by its events.
type verbStream struct {
	n verbNode

	mu     sync.Mutex
	end    context.CancelFunc // of what follows, nil if nothing does
	at     int64              // the offset of held
	held   []byte             // came and was not read
	failed error              // after held
	grown  chan struct{}      // closed when that changes
}

func (s *verbStream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end != nil {
		s.end()
	}
	return nil
}

func (s *verbStream) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	for {
		s.mu.Lock()
		if s.end == nil || s.at != off {
			s.begin(off)
		}
		if len(s.held) > 0 {
			n := copy(p, s.held)
			s.held, s.at = s.held[n:], s.at+int64(n)
			s.mu.Unlock()
			return n, nil
		}
		failed, grown := s.failed, s.grown
		s.mu.Unlock()
		if failed != nil {
			return 0, failed
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// begin follows from off on.
func (s *verbStream) begin(off int64) {
	if s.end != nil {
		s.end()
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.end, s.at, s.held, s.failed, s.grown = cancel, off, nil, nil, make(chan struct{})
	go s.follow(ctx, off)
}

func (s *verbStream) follow(ctx context.Context, off int64) {
	v := verb{method: "GET", query: url.Values{"watch": {"1"}}, header: map[string]string{}}
	if off > 0 {
		v.header["Last-Event-ID"] = strconv.FormatInt(off, 10)
	}
	res, err := s.n.send(ctx, v)
	if err != nil {
		s.got(ctx, nil, err)
		return
	}
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	for kind, data := "", []byte(nil); ; {
		line, err := lines.ReadString('\n')
		if err != nil { // without the event of the end, but for an answer without any event
			s.got(ctx, nil, io.EOF)
			return
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "event":
			kind = value
		case "data":
			data = []byte(value)
		case "":
			switch {
			case data == nil: // a sign of life
				continue
			case kind == "end":
				s.got(ctx, nil, io.EOF)
				return
			case kind == "base64":
				data, err = base64.StdEncoding.DecodeString(string(data))
			case kind == "":
				data = append(data, '\n')
			}
			s.got(ctx, data, err)
			kind, data = "", nil
		}
	}
}

// got takes what came to who follows with ctx.
func (s *verbStream) got(ctx context.Context, data []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	s.held, s.failed = append(s.held, data...), err
	close(s.grown)
	s.grown = make(chan struct{})
}

// WriteAt appends.
func (s *verbStream) WriteAt(ctx context.Context, p []byte, _ int64) (int, error) {
	if _, _, err := s.n.do(ctx, verb{method: "PATCH", body: p}); err != nil {
		return 0, err
	}
	return len(p), nil
}

var _ fsys.Writer = (*verbStream)(nil)
