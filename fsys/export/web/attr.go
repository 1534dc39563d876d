package web

import (
	"context"
	"io/fs"
	"net/http"
	"strconv"
	"time"

	"agent9/fsys"
)

// perm returns the permissions that the request asks for, or else those of or.
func (s *Session) perm(or fs.FileMode) (perm fs.FileMode, given bool, err error) {
	text := s.R.URL.Query().Get("perm")
	if text == "" {
		return or, false, nil
	}
	n, err := strconv.ParseUint(text, 8, 32)
	if err != nil || fs.FileMode(n)&^fs.ModePerm != 0 {
		return 0, false, fsys.E(fsys.Invalid, "perm must be octal permissions such as 640")
	}
	return fs.FileMode(n), true, nil
}

// setAttr gives a file the permissions of ?perm= and the time of ?mtime=.
func (s *Session) setAttr() error {
	var set fsys.Attr
	perm, given, err := s.perm(0)
	if err != nil {
		return err
	}
	if given {
		set.Perm = &perm
	}
	if text := s.R.URL.Query().Get("mtime"); text != "" {
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return fsys.E(fsys.Invalid, "mtime must be a time such as 2030-01-31T12:00:00Z")
		}
		set.ModTime = &at
	}
	if set == (fsys.Attr{}) {
		return fsys.E(fsys.Invalid, "there is nothing to set; give perm or mtime")
	}
	if err := s.noBody(); err != nil {
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
		if err := fsys.SetAttr(ctx, node, set); err != nil {
			return err
		}
		s.W.WriteHeader(http.StatusNoContent)
		return nil
	})
}

// noBody refuses a request that has a body where that means nothing.
func (s *Session) noBody() error {
	body, err := s.Body()
	if err == nil && len(body) > 0 {
		err = failed(http.StatusUnsupportedMediaType, fsys.Invalid, "this takes no body")
	}
	return err
}
