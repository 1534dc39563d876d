package web

import (
	"context"
	"hash/maphash"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"agent9/fsys"
)

// put makes the body the file. What came only in part changes nothing.
func (s *Session) put() error {
	if s.slash {
		return fsys.E(fsys.IsDir, "use MKCOL to create a directory")
	}
	perm, _, err := s.perm(0o644)
	if err != nil {
		return err
	}
	if err := s.writable(); err != nil {
		return err
	}
	body, err := s.Body()
	if err != nil {
		return err
	}
	return s.inTurn(func(ctx context.Context) error {
		before, exists, err := s.before(ctx)
		if err != nil {
			return err
		}
		if err := s.condition(before, exists); err != nil {
			return err
		}
		dir, name, err := s.parent(ctx)
		if err != nil {
			return err
		}
		flag := fsys.Write | fsys.Trunc
		var node fsys.Node
		var h fsys.Handle
		if exists {
			if node, err = fsys.Walk(ctx, dir, name); err == nil {
				h, err = node.Open(ctx, flag)
			}
		} else if s.R.Header.Get("If-None-Match") == "*" {
			node, h, err = fsys.Create(ctx, dir, name, perm, flag|fsys.Excl)
			if fsys.CodeOf(err) == fsys.Exist && err != nil {
				err = unwanted
			}
		} else {
			node, h, err = fsys.OpenCreate(ctx, dir, name, perm, flag)
		}
		if err != nil {
			return err
		}
		if err := writeAll(ctx, h, body, 0); err != nil {
			return err
		}
		return s.written(ctx, node, exists)
	})
}

// patch appends the body, or writes it at an offset.
func (s *Session) patch() error {
	flag, off := fsys.Write|fsys.Append, int64(0)
	if at := s.R.URL.Query().Get("offset"); at != "" {
		var err error
		if off, err = strconv.ParseInt(at, 10, 64); err != nil || off < 0 {
			return fsys.E(fsys.Invalid, "an offset must be a number of bytes, not "+shortened(at))
		}
		flag = fsys.Write
	}
	if err := s.writable(); err != nil {
		return err
	}
	body, err := s.Body()
	if err != nil {
		return err
	}
	return s.inTurn(func(ctx context.Context) error {
		node, err := s.Walk(ctx, s.Path...)
		if err != nil {
			return err
		}
		info, err := node.Stat(ctx)
		if err != nil {
			return err
		}
		if err := s.condition(info, true); err != nil {
			return err
		}
		h, err := node.Open(ctx, flag)
		if err != nil {
			return err
		}
		if err := writeAll(ctx, h, body, off); err != nil {
			return err
		}
		return s.written(ctx, node, true)
	})
}

// writable refuses before a body comes what would be refused after: a file that
// the client may not write, or that is not there and cannot be made.
func (s *Session) writable() error {
	ctx := s.R.Context()
	node, err := s.Walk(ctx, s.Path...)
	if err == nil {
		h, err := node.Open(ctx, fsys.Write)
		if err == nil {
			h.Close() // nothing was written, so nothing is done
		}
		return err
	}
	if fsys.CodeOf(err) != fsys.NotExist || s.R.Method != http.MethodPut {
		return err
	}
	dir, _, err := s.parent(ctx)
	if err != nil {
		return err
	}
	info, err := dir.Stat(ctx)
	switch {
	case err != nil:
		return err
	case info.Kind != fsys.Directory:
		return fsys.NotDir
	case info.Perm&0o222 == 0:
		return fsys.E(fsys.Permission, "nothing can be created in this directory")
	}
	return nil
}

// writeAll writes p and ends h in order.
func writeAll(ctx context.Context, h fsys.Handle, p []byte, off int64) error {
	for len(p) > 0 {
		n, err := fsys.WriteAt(fsys.OneRequest(ctx), h, p, off)
		if err != nil {
			h.Close()
			return err
		}
		p, off = p[n:], off+int64(n)
	}
	return fsys.Finish(ctx, h)
}

// written answers that node is written.
func (s *Session) written(ctx context.Context, node fsys.Node, existed bool) error {
	if info, err := node.Stat(ctx); err == nil {
		if tag := etagOf(info); tag != "" {
			s.W.Header().Set("Etag", tag)
		}
	}
	status := http.StatusNoContent
	if !existed {
		status = http.StatusCreated
	}
	s.W.WriteHeader(status)
	return nil
}

func (s *Session) remove() error {
	return s.inTurn(func(ctx context.Context) error {
		node, err := s.Walk(ctx, s.Path...)
		if err != nil {
			return err
		}
		info, err := node.Stat(ctx)
		if err != nil {
			return err
		}
		if err := s.condition(info, true); err != nil {
			return err
		}
		if err := fsys.Remove(ctx, node); err != nil {
			return err
		}
		s.W.WriteHeader(http.StatusNoContent)
		return nil
	})
}

func (s *Session) mkdir() error {
	ctx := s.R.Context()
	if err := s.noBody(); err != nil {
		return err
	}
	dir, name, err := s.parent(ctx)
	if err != nil {
		return err
	}
	perm, _, err := s.perm(0o755)
	if err != nil {
		return err
	}
	if _, err := fsys.Mkdir(ctx, dir, name, perm); err != nil {
		return err
	}
	s.W.WriteHeader(http.StatusCreated)
	return nil
}

// move serves MOVE (RFC 4918) as far as a directory can rename.
func (s *Session) move() error {
	u, err := url.Parse(s.R.Header.Get("Destination"))
	if err != nil || u.Path == "" {
		return fsys.E(fsys.Invalid, "MOVE needs a Destination header with the new path")
	}
	if u.Host != "" && u.Host != s.R.Host {
		return failed(http.StatusBadGateway, fsys.CrossDir, "Destination is on another server")
	}
	to, _, err := parsePath(u)
	if err != nil {
		return err
	}
	last := len(to) - 1
	if len(to) == 0 || len(to) != len(s.Path) || !slices.Equal(to[:last], s.Path[:last]) {
		return fsys.E(fsys.CrossDir, "a file can be renamed only within its directory")
	}
	return s.rename(to[last])
}

func (s *Session) rename(to string) error {
	return s.inTurn(func(ctx context.Context) error {
		dir, name, err := s.parent(ctx)
		if err != nil {
			return err
		}
		before, exists, err := s.before(ctx)
		if err != nil {
			return err
		}
		if err := s.condition(before, exists); err != nil {
			return err
		}
		if s.R.Header.Get("Overwrite") == "F" {
			if _, err := fsys.Walk(ctx, dir, to); err == nil {
				return failed(http.StatusPreconditionFailed, fsys.Exist, "there is a file of that name")
			}
		}
		if err := fsys.Rename(ctx, dir, name, to); err != nil {
			return err
		}
		s.W.WriteHeader(http.StatusNoContent)
		return nil
	})
}

// before is what the file is that the request would change.
func (s *Session) before(ctx context.Context) (info fsys.Info, exists bool, err error) {
	node, err := s.Walk(ctx, s.Path...)
	if err == nil {
		info, err = node.Stat(ctx)
	}
	if fsys.CodeOf(err) == fsys.NotExist && err != nil {
		return info, false, nil
	}
	return info, err == nil, err
}

// condition refuses a change of a file that is not as the client thinks.
func (s *Session) condition(info fsys.Info, exists bool) error {
	tag := etagOf(info)
	is := func(header string) (given, holds bool) {
		values := s.R.Header.Values(header)
		for _, v := range values {
			for t := range strings.SplitSeq(v, ",") {
				if t = strings.TrimSpace(t); exists && (t == "*" || t == tag && tag != "") {
					return true, true
				}
			}
		}
		return len(values) > 0, false
	}
	if given, holds := is("If-Match"); given && !holds {
		return failed(http.StatusPreconditionFailed, fsys.Busy, unseen)
	}
	if given, holds := is("If-None-Match"); given && holds {
		return unwanted
	}
	return nil
}

const unseen = "the file has changed since the version that If-Match names; read it again"

var unwanted = failed(http.StatusPreconditionFailed, fsys.Exist, "the file exists, and If-None-Match requires that it does not")

var turnSeed = maphash.MakeSeed()

// inTurn changes a file with no other change of it over HTTP in between, so
// that of two that have seen the same version one fails.
func (s *Session) inTurn(change func(ctx context.Context) error) error {
	ctx := s.R.Context()
	if s.R.Header.Get("If-Match") == "" && s.R.Header.Get("If-None-Match") == "" {
		return change(ctx)
	}
	turn := s.server.turns[maphash.String(turnSeed, strings.Join(s.Path, "/"))%uint64(len(s.server.turns))]
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-turn }()
	return change(ctx)
}
