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
func (p *Provider) whole(ctx context.Context, path string, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
	body := req.Body
	if body.Has("stream") {
		body = body.Set("stream", false).Delete("stream_options")
	}
	res, err := p.post(ctx, path, body)
	if err != nil {
		return httpapi.Unanswered(ctx, req, err), err
	}
	return p.take(ctx, req, res, emit)
}

// response is what is read of a whole response to a request for text or
// vectors.
type response struct {
	ID      string `json:"id"`
	Model   string `json:"model"`
	Choices []struct {
		Index        int           `json:"index"`
		Message      httpapi.Delta `json:"message"`
		Text         string        `json:"text"`
		FinishReason string        `json:"finish_reason"`
	} `json:"choices"`
	Usage *models.WireUsage `json:"usage"`
	Tier  string            `json:"service_tier"`
	Error json.RawMessage   `json:"error"`
}

// take emits a response that came whole.
func (p *Provider) take(ctx context.Context, req models.Request, res *http.Response, emit func(models.Chunk) error) (models.Usage, error) {
	used := models.Estimate(req, 0)
	raw, err := p.api.Body(ctx, res)
	if err != nil {
		return used, err
	}
	var r response
	if err := json.Unmarshal(raw, &r); err != nil {
		return used, httpapi.NotAnAnswer(err)
	}
	if r.Error != nil && string(r.Error) != "null" {
		used = models.Usage{}
		if r.Usage != nil { // which it bills all the same
			used = r.Usage.Usage(req.Kind)
		}
		return used, fsys.E(fsys.Unavailable, "the server says: "+p.api.Message(raw))
	}
	size := 0
	for _, c := range r.Choices {
		chunk := c.Message.Chunk()
		chunk.Choice, chunk.Finish = c.Index, c.FinishReason
		chunk.Text += c.Text
		number(chunk.ToolCalls)
		if size == 0 {
			chunk.ID, chunk.Model = r.ID, r.Model
		}
		size += int(chunk.Bytes())
		if err := emit(chunk); err != nil {
			return models.Estimate(req, size), err
		}
	}
	used = models.Estimate(req, size)
	if r.Usage != nil {
		used = r.Usage.Usage(req.Kind)
	}
	used.Percent = req.Dearer("service_tier", r.Tier)
	return used, emit(models.Chunk{Usage: &used, Result: httpapi.OneLine(raw)})
}

// number gives the tool calls of a whole response, which need none, their
// indices.
func number(calls []models.ToolCall) {
	for i := range calls {
		calls[i].Index = i
	}
}
