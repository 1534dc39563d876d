package web

import (
	"context"
	"io"
	"net/http"
	"time"

	"agent9/fsys"
)

// pieceBytes is how much of a large file is in memory at once.
const pieceBytes = 64 << 10

// getLarge sends what h says as it is read. Each open of a large file is a new one, so
// parts of it are not to be had.
func (s *Session) getLarge(ctx context.Context, node fsys.Node) error {
	if err := s.Keep(pieceBytes); err != nil {
		return err
	}
	h, err := s.Open(ctx, node, fsys.Read)
	if err != nil {
		return err
	}
	defer h.Close()
	s.W.Header().Set("Accept-Ranges", "none")
	return s.send(ctx, h)
}

func (s *Session) send(ctx context.Context, h fsys.Handle) error {
	piece := make([]byte, pieceBytes)
	for off := int64(0); ; {
		n, err := fsys.ReadAt(ctx, h, piece, off)
		if n > 0 {
			s.out.setType(typeOf(piece[:n]))
			if _, err := s.out.Write(piece[:n]); err != nil {
				return err
			}
			off += int64(n)
		}
		switch {
		case err != nil && !fsys.IsEOF(err):
			return err
		case (err != nil || n == 0) && off == 0:
			return s.reply(nil)
		case err != nil || n == 0:
			return nil
		}
	}
}

// large finds the file of a request whose body is to be written as it comes; nil: it
// has none such.
func (s *Session) large() fsys.Node {
	if n := s.R.ContentLength; n >= 0 && n <= pieceBytes {
		return nil
	}
	node, err := s.Walk(s.R.Context(), s.Path...)
	if err != nil {
		return nil
	}
	info, err := s.stat(s.R.Context(), node)
	if err != nil || !info.Large {
		return nil
	}
	return node
}

// putLarge writes the body to node as it comes, and answers a POST with the reply.
func (s *Session) putLarge(node fsys.Node) error {
	ctx := s.R.Context()
	flag := fsys.Write | fsys.Read
	if s.R.Method == http.MethodPut {
		flag = fsys.Write | fsys.Trunc
	}
	if err := s.Keep(pieceBytes); err != nil {
		return err
	}
	h, err := s.Open(ctx, node, flag)
	if err != nil {
		return err
	}
	err = s.pour(ctx, h)
	if err == nil && flag&fsys.Read != 0 {
		err = s.send(ctx, h)
	}
	if err != nil {
		h.Close()
		return err
	}
	if err := fsys.Finish(ctx, h); err != nil || flag&fsys.Read != 0 {
		return err
	}
	return s.written(ctx, node, true)
}

// pour writes the body to h.
func (s *Session) pour(ctx context.Context, h fsys.Handle) error {
	defer s.out.control.SetReadDeadline(time.Time{})
	piece := make([]byte, pieceBytes)
	off := int64(0)
	for began := time.Now(); ; {
		s.out.control.SetReadDeadline(s.server.patience(began, int(off)))
		n, err := s.R.Body.Read(piece)
		for rest := piece[:n]; len(rest) > 0; {
			n, err := fsys.WriteAt(ctx, h, rest, off)
			if err != nil {
				s.W.Header().Set("Connection", "close")
				return err
			}
			rest, off = rest[n:], off+int64(n)
		}
		switch {
		case s.over():
			return errRevoked
		case err == io.EOF:
			return nil
		case err != nil:
			return s.cutShort(err)
		}
	}
}
