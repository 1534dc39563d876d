package openai

import (
	"context"
	"encoding/json"
	"net/http"

	"agent9/fsys"
	"agent9/providers/models"
	"agent9/providers/models/httpapi"
)

// whole asks for an answer in one piece.
func (p *Provider) whole(ctx context.Context, s *httpapi.Stream, path string) (models.Usage, error) {
	body := s.Req.Body
	if body.Has("stream") {
		body = body.Set("stream", false).Delete("stream_options")
	}
	res, err := p.Post(ctx, path, body.Bytes())
	if err != nil {
		return httpapi.Unanswered(ctx, s.Req, err), err
	}
	return p.take(ctx, s, res)
}

// take emits a response that came whole, which is the result as it came.
func (p *Provider) take(ctx context.Context, s *httpapi.Stream, res *http.Response) (models.Usage, error) {
	raw, err := p.Body(ctx, res)
	if err != nil {
		return models.Estimate(s.Req, 0), err
	}
	var e httpapi.ChatEvent
	if err := json.Unmarshal(raw, &e); err != nil {
		return models.Estimate(s.Req, 0), httpapi.NotAnAnswer(err)
	}
	if e.Failed() {
		var used models.Usage
		if e.Usage != nil { // which it bills all the same
			used = e.Usage.Usage(s.Req.Kind)
		}
		return used, fsys.E(fsys.Unavailable, "the server says: "+p.Message(raw))
	}
	e.Whole()
	s.Done, s.Result = true, httpapi.OneLine(raw)
	return s.End(s.Add(e))
}
