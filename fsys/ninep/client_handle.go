package ninep

import (
	"context"
	"io"
	"sync"

	"agent9/fsys"
)

// A remoteHandle is an open fid.
type remoteHandle struct {
	c    *Client
	fid  uint32
	flag fsys.Flag
	kind fsys.Kind
	most int // bytes of one Tread or Twrite

	mu      sync.Mutex
	users   int  // calls that are using fid
	closed  bool // by Close; the last user clunks
	hurried bool // a call was cancelled
}

var (
	_ fsys.Reader = (*remoteHandle)(nil)
	_ fsys.Writer = (*remoteHandle)(nil)
	_ fsys.Syncer = (*remoteHandle)(nil)
)

// begin keeps fid from being clunked, and so from being used for another
// file, until end.
func (h *remoteHandle) begin() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return fsys.BadHandle
	}
	h.users++
	return nil
}

func (h *remoteHandle) end(ctx context.Context) {
	h.mu.Lock()
	h.users--
	h.hurried = h.hurried || ctx.Err() != nil
	clunk := h.closed && h.users == 0
	h.mu.Unlock()
	if clunk {
		h.c.clunk(h.fid)
	}
}

// Close ends the handle with Tclunk and returns what the server says to that.
// It does not wait for the server if a call of the handle was cancelled, or
// is still going on, nor if the handle was only for reading a File, of whose end
// there is nothing to say. A server treats Tclunk as an orderly end: what was
// gathered acts, also without a Sync before.
func (h *remoteHandle) Close() error {
	h.mu.Lock()
	closed, busy, hurried := h.closed, h.users > 0, h.hurried
	h.closed = true
	h.mu.Unlock()
	switch {
	case closed, busy:
		return nil
	case hurried:
		h.c.clunk(h.fid)
		return nil
	case h.flag == fsys.Read && h.kind == fsys.File:
		h.c.clunkLater(h.fid)
		return nil
	}
	r, err := h.c.do(h.c.life, message{Type: tclunk, Fid: h.fid})
	if err != nil {
		return err
	}
	r.free()
	return nil
}

// ReadAt fills p, if it is longer than one message can be, with more than one
// request only from a File: of a Stream or a Message each reply is returned as
// it comes.
func (h *remoteHandle) ReadAt(ctx context.Context, p []byte, off int64) (n int, err error) {
	switch {
	case h.kind == fsys.Directory:
		return 0, fsys.IsDir
	case h.flag&fsys.Read == 0:
		return 0, fsys.BadHandle
	case off < 0:
		return 0, fsys.E(fsys.Invalid, "a negative offset")
	case len(p) == 0:
		return 0, nil
	}
	if err := h.begin(); err != nil {
		return 0, err
	}
	defer h.end(ctx)
	for again := false; ; again = true {
		want := min(len(p)-n, h.most)
		m, err := h.read(ctx, p[n:n+want], off+int64(n))
		n += m
		switch {
		case n > 0 && (err != nil || m < want):
			return n, nil // what is wrong, the next read finds again
		case err != nil:
			return 0, err
		case m == 0 && (again || h.kind != fsys.Stream):
			return 0, io.EOF
		case m == 0:
			// To a server that helps v9fs, this may have looked like the rest of
			// the last read(2), which it ends so. It does not do that twice.
		case n == len(p) || h.kind != fsys.File:
			return n, nil
		}
	}
}

func (h *remoteHandle) read(ctx context.Context, p []byte, off int64) (int, error) {
	r, err := h.c.do(ctx, message{Type: tread, Fid: h.fid, Offset: uint64(off), Count: uint32(len(p))})
	if err != nil {
		return 0, err
	}
	defer r.free()
	if len(r.Data) > len(p) {
		return 0, fsys.E(fsys.Unavailable, "the server sent more than was asked for")
	}
	return copy(p, r.Data), nil
}

// WriteAt writes what is longer than one message with several.
func (h *remoteHandle) WriteAt(ctx context.Context, p []byte, off int64) (n int, err error) {
	switch {
	case h.flag&fsys.Write == 0:
		return 0, fsys.BadHandle
	case off < 0:
		return 0, fsys.E(fsys.Invalid, "a negative offset")
	}
	if err := h.begin(); err != nil {
		return 0, err
	}
	defer h.end(ctx)
	if h.flag&fsys.Append != 0 && h.c.dialect == plan9 && h.kind == fsys.File {
		// 9P2000 has no open mode for it.
		info, err := h.c.stat(ctx, h.fid)
		if err != nil {
			return 0, err
		}
		off = info.Size
	}
	for {
		m, err := h.write(ctx, p[n:n+min(len(p)-n, h.most)], off+int64(n))
		n += m
		switch {
		case err != nil:
			return n, err
		case n == len(p):
			return n, nil
		case m == 0:
			return n, fsys.E(fsys.Unavailable, "the server accepted no byte of a write")
		}
	}
}

func (h *remoteHandle) write(ctx context.Context, p []byte, off int64) (int, error) {
	r, err := h.c.do(ctx, message{Type: twrite, Fid: h.fid, Offset: uint64(off), Data: p})
	if err != nil {
		return 0, err
	}
	defer r.free()
	if int(r.Count) > len(p) {
		return 0, fsys.E(fsys.Unavailable, "the server accepted more than was written")
	}
	return int(r.Count), nil
}

// Sync is Tfsync or, in 9P2000, the Twstat that changes nothing (stat(5)). A
// File that is only read has nothing to sync, and asks nobody.
func (h *remoteHandle) Sync(ctx context.Context) error {
	if h.flag&fsys.Write == 0 && (h.kind == fsys.File || h.kind == fsys.Directory) {
		return nil
	}
	if err := h.begin(); err != nil {
		return err
	}
	defer h.end(ctx)
	req := message{Type: twstat, Fid: h.fid, Stat: keepDir()}
	if h.c.dialect == linux {
		req = message{Type: tfsync, Fid: h.fid}
	}
	r, err := h.c.do(ctx, req)
	if err == nil {
		r.free()
	}
	if fsys.CodeOf(err) == fsys.Unsupported {
		return nil // then Tclunk does what there is to do
	}
	return err
}
