package web

import (
	"context"
	"net/http"
	"slices"

	"agent9/fsys"
)

// short are the short forms below an agent: what a POST there is written to.
var short = map[string]struct {
	path []string
	text string // before the body, if that is not empty
}{
	"tick": {[]string{"ctl"}, "tick"},
	"send": {[]string{"inbox", "new"}, ""},
}

// post writes the body to a Message file and answers with the reply. Without a
// body it takes what a file gives away.
func (s *Session) post() error {
	path, text := s.Path, ""
	if len(path) == 3 && path[0] == agentsDir {
		if form, ok := short[path[2]]; ok {
			path, text = slices.Concat(path[:2], form.path), form.text
		}
	}
	ctx := s.R.Context()
	node, err := s.Walk(ctx, path...)
	if err != nil {
		return err
	}
	info, err := node.Stat(ctx)
	switch {
	case err != nil:
		return err
	case info.Kind == fsys.Stream && s.R.ContentLength <= 0:
		body, err := s.Body() // which may be empty, of a length that was not said
		if err != nil {
			return err
		}
		if len(body) == 0 {
			return s.takeAway(ctx, node)
		}
		fallthrough
	case info.Kind != fsys.Message:
		return fsys.E(fsys.Unsupported, "only a message file can be called with POST, and this is a "+info.Kind.String()+"; PUT writes it, PATCH appends")
	}
	h, err := s.Open(ctx, node, fsys.Read|fsys.Write) // before the body comes, to refuse early
	if err != nil {
		return err
	}
	reply, err := s.ask(ctx, h, text)
	if err != nil {
		h.Close()
		return err
	}
	if err := fsys.Finish(ctx, h); err != nil {
		return err
	}
	return s.reply(reply)
}

// ask writes the body to h, or text, which has none, and returns the reply.
func (s *Session) ask(ctx context.Context, h fsys.Handle, text string) ([]byte, error) {
	body, err := s.Body()
	switch {
	case err != nil:
		return nil, err
	case text != "" && len(body) > 0:
		return nil, fsys.E(fsys.Invalid, text+" has no body")
	case text != "":
		body = []byte(text)
	case len(body) == 0:
		return nil, fsys.E(fsys.Invalid, "the request is empty")
	}
	return s.converse(ctx, h, body)
}

func (s *Session) converse(ctx context.Context, h fsys.Handle, body []byte) ([]byte, error) {
	done, err := s.Part.More(ctx, fsys.Message, h, len(body))
	if err != nil {
		return nil, err
	}
	defer done()
	for rest := body; len(rest) > 0; {
		n, err := fsys.WriteAt(fsys.OneRequest(ctx), h, rest, 0)
		if err != nil {
			return nil, err
		}
		rest = rest[n:]
	}
	return s.readAll(ctx, h)
}

func (s *Session) reply(text []byte) error {
	if len(text) == 0 {
		s.W.WriteHeader(http.StatusNoContent)
		return nil
	}
	s.W.Header().Set("Content-Type", typeOf(text))
	if _, err := s.W.Write(text); err != nil {
		return err
	}
	return nil
}

// takeAway reads what is then gone. It is gone only when it was sent.
func (s *Session) takeAway(ctx context.Context, node fsys.Node) error {
	h, err := s.Open(ctx, node, fsys.Read)
	if err != nil {
		return err
	}
	defer h.Close()
	text, err := s.readAll(ctx, h)
	if err != nil {
		return err
	}
	if err := s.reply(text); err != nil {
		return err
	}
	if err := s.out.FlushError(); err != nil {
		return err
	}
	return fsys.Sync(ctx, h)
}
