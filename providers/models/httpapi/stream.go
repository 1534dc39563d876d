package httpapi

import (
	"context"
	"encoding/json"
	"net/http"

	"agent9/fsys"
	"agent9/providers/models"
)

// A Stream is one answer as far as it came.
type Stream struct {
	Req  models.Request
	Emit func(models.Chunk) error

	Prompt *models.Usage // what the server counted of the input; nil if it did not, or not yet
	Usage  *models.Usage // all that the server counted; nil if it did not, or not yet
	Done   bool          // the server said that this is all

	ID, Model string          // the server's names, for the first chunk
	Percent   int64           // as in Usage
	Result    json.RawMessage // as in Chunk

	api      *API
	size     int
	counted  int  // of size, when Usage was
	finished bool // a choice said why it ended
}

// Send emits c, unless there is nothing in it.
func (s *Stream) Send(c models.Chunk) error {
	s.finished = s.finished || c.Finish != ""
	grown := int(c.Bytes())
	s.size += grown
	if grown == 0 && c.Finish == "" && len(c.ToolCalls) == 0 && len(c.Thinking) == 0 && c.Result == nil {
		return nil
	}
	c.ID, c.Model, s.ID, s.Model = s.ID, s.Model, "", ""
	return s.Emit(c)
}

// Answer is how a request ends of which [API.Post] has returned res and err: take
// reads res.
func (s *Stream) Answer(ctx context.Context, res *http.Response, err error, take func() error) (models.Usage, error) {
	if err != nil {
		return Unanswered(ctx, s.Req, err), err
	}
	defer res.Body.Close()
	return s.End(take())
}

// Whole posts body to path, and returns the whole response, its media type, and
// what the request used as far as nobody counted, also with an error.
func (s *Stream) Whole(ctx context.Context, path, mediaType string, body []byte) (raw []byte, kind string, used models.Usage, err error) {
	res, err := s.api.Send(ctx, path, mediaType, body)
	if err != nil {
		return nil, "", Unanswered(ctx, s.Req, err), err
	}
	raw, err = s.api.Body(ctx, res)
	return raw, MediaType(res), models.Estimate(s.Req, 0), err
}

// Give emits the result of a request that has used so much.
func (s *Stream) Give(used models.Usage, result json.RawMessage, mediaType string) (models.Usage, error) {
	return used, s.Emit(models.Chunk{Usage: &used, Result: result, Type: mediaType})
}

// Vectors posts body to path, and gives the vectors that list finds in the
// response, and how many tokens the server counted; 0 is that it did not.
func (s *Stream) Vectors(ctx context.Context, path string, body models.Body, list func(raw []byte) (vectors []json.RawMessage, tokens int64, err error)) (models.Usage, error) {
	raw, _, used, err := s.Whole(ctx, path, "application/json", body.Bytes())
	if err != nil {
		return used, err
	}
	vectors, tokens, err := list(raw)
	if err != nil {
		return used, NotAnAnswer(err)
	}
	if tokens > 0 {
		used = models.Usage{Input: tokens}
	}
	result, err := Embeddings(s.Req, vectors, used)
	if err != nil {
		return used, err
	}
	return s.Give(used, result, "")
}

// Count takes what the server says that it was until here. The last word counts.
func (s *Stream) Count(u models.Usage) { s.Usage, s.counted = &u, s.size }

// End returns what the stream that ended with err has used. One that ended
// without saying why was cut off.
func (s *Stream) End(err error) (models.Usage, error) {
	if err == nil && !s.Done && !s.finished {
		err = fsys.E(fsys.Unavailable, "the server ended the answer in the middle")
	}
	usage := models.Estimate(s.Req, s.size)
	if s.Prompt != nil {
		usage.Input, usage.Cached, usage.Written = s.Prompt.Input, s.Prompt.Cached, s.Prompt.Written
	}
	if s.Usage != nil && *s.Usage != (models.Usage{}) { // which would say that nothing was done
		usage = *s.Usage
		if s.size > s.counted { // that was not all
			usage.Output += int64(s.size - s.counted)
			usage.Estimated = true
		}
	}
	usage.Percent = s.Percent
	if err != nil {
		return usage, err
	}
	return s.Give(usage, s.Result, "")
}
