package openai

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	"agent9/fsys"
	"agent9/providers/compute"
)

// whole asks for an answer in one piece.
func (p *Provider) whole(ctx context.Context, path string, req compute.Request, emit func(compute.Chunk) error) (compute.Usage, error) {
	body := req.Body
	if body.Has("stream") {
		body = body.Set("stream", false).Delete("stream_options")
	}
	res, err := p.post(ctx, path, body)
	if err != nil {
		return p.unanswered(ctx, req, err), err
	}
	defer res.Body.Close()
	return p.take(ctx, req, res, emit)
}

// response is what is read of a whole response, of any kind.
type response struct {
	ID      string `json:"id"`
	Model   string `json:"model"`
	Choices []struct {
		Index        int    `json:"index"`
		Message      delta  `json:"message"`
		Text         string `json:"text"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage *compute.WireUsage `json:"usage"`
	Error json.RawMessage    `json:"error"`
}

// take emits a response that came whole.
func (p *Provider) take(ctx context.Context, req compute.Request, res *http.Response, emit func(compute.Chunk) error) (compute.Usage, error) {
	used := compute.Estimate(req, 0)
	raw, err := io.ReadAll(io.LimitReader(res.Body, compute.MaxResult+1))
	switch {
	case ctx.Err() != nil:
		return used, context.Cause(ctx)
	case err != nil:
		return used, p.broken(err)
	case len(raw) > compute.MaxResult:
		return used, fsys.E(fsys.TooLarge, "the response is longer than 16 MiB")
	}
	var r response
	if err := json.Unmarshal(raw, &r); err != nil {
		return used, &fsys.Error{Code: fsys.Unavailable, Reason: "the server's response is not what it should be", Err: err}
	}
	if r.Error != nil && string(r.Error) != "null" {
		return compute.Usage{}, fsys.E(fsys.Unavailable, "the server says: "+p.redact(message(raw)))
	}
	size := 0
	for _, c := range r.Choices {
		chunk := compute.Chunk{
			Choice:    c.Index,
			Text:      c.Message.Content + c.Text,
			Reasoning: c.Message.ReasoningContent + c.Message.Reasoning,
			Refusal:   c.Message.Refusal,
			ToolCalls: number(c.Message.ToolCalls),
			Finish:    c.FinishReason,
		}
		if size == 0 {
			chunk.ID, chunk.Model = r.ID, r.Model
		}
		size += len(chunk.Text) + len(chunk.Reasoning) + len(chunk.Refusal)
		if err := emit(chunk); err != nil {
			return compute.Estimate(req, size), err
		}
	}
	used = compute.Estimate(req, size)
	if r.Usage != nil {
		used = r.Usage.Usage()
	}
	return used, emit(compute.Chunk{Usage: &used, Result: oneLine(raw)})
}

// number gives the tool calls of a whole response, which need none, their
// indices.
func number(calls []compute.ToolCall) []compute.ToolCall {
	for i := range calls {
		calls[i].Index = i
	}
	return calls
}

// oneLine returns a JSON value without the white space between its parts.
func oneLine(raw []byte) json.RawMessage {
	line := fsys.Line(json.RawMessage(raw))
	return line[:len(line)-1]
}
