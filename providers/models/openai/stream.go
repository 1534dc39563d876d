package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"agent9/fsys"
	"agent9/providers/models"
	"agent9/providers/models/httpapi"
)

// stream asks for an answer in pieces, and for its usage, whatever other options req
// has: without it nobody knows what it cost.
func (p *Provider) stream(ctx context.Context, s *httpapi.Stream, path string) (models.Usage, error) {
	const options = "stream_options"
	body := s.Req.Body.Set("stream", true)
	asked := map[string]json.RawMessage{}
	ours := !body.Has(options) || json.Unmarshal(body.Get(options), &asked) == nil
	if ours { // else the server says what is wrong with them
		if asked == nil {
			asked = map[string]json.RawMessage{}
		}
		asked["include_usage"] = json.RawMessage("true")
		body = body.Set(options, asked)
	}
	res, err := p.Post(ctx, path, body.Bytes())
	if r := (*httpapi.Refusal)(nil); ours && errors.As(err, &r) && r.Status < 500 && strings.Contains(r.Message, options) {
		// A server that does not know it, and has done nothing yet.
		res, err = p.Post(ctx, path, body.Delete(options).Bytes())
	}
	if err == nil && httpapi.MediaType(res) == "application/json" {
		return p.take(ctx, s, res)
	}
	return s.Answer(ctx, res, err, func() error { return p.follow(ctx, res, s) })
}

// follow passes the events of res on until the last.
func (p *Provider) follow(ctx context.Context, res *http.Response, s *httpapi.Stream) error {
	return p.Events(ctx, res, func(data []byte) (more bool, err error) {
		if bytes.HasPrefix(data, []byte("[DONE]")) {
			s.Done = true
			return false, nil
		}
		var e httpapi.ChatEvent
		if err := json.Unmarshal(data, &e); err != nil {
			return false, &fsys.Error{Code: fsys.Unavailable, Reason: "the server streams something that is not an answer", Err: err}
		}
		if e.Failed() {
			return false, p.BrokeOff(fsys.Unavailable, data)
		}
		return true, s.Add(e)
	})
}
