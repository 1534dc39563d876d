package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/openai/openai-go/v3/packages/ssestream"

	"agent9/fsys"
	"agent9/providers/compute"
)

// stream asks for an answer in pieces.
func (p *Provider) stream(ctx context.Context, path string, req compute.Request, emit func(compute.Chunk) error) (compute.Usage, error) {
	const options = "stream_options"
	body := req.Body.Set("stream", true)
	ours := !body.Has(options)
	if ours {
		body = body.Set(options, struct {
			IncludeUsage bool `json:"include_usage"`
		}{true})
	}
	res, err := p.post(ctx, path, body)
	if r := (*refusal)(nil); ours && errors.As(err, &r) && r.status < 500 && strings.Contains(r.message, options) {
		// A server that does not know it, and has done nothing yet.
		res, err = p.post(ctx, path, body.Delete(options))
	}
	if err != nil {
		return p.unanswered(ctx, req, err), err
	}
	defer res.Body.Close()
	if mediaType(res) == "application/json" {
		return p.take(ctx, req, res, emit)
	}
	s := &answer{req: req, emit: emit}
	return s.end(p.follow(ctx, res, s))
}

// unanswered is what a request cost that had no response: nothing if it was
// refused or never arrived; but a server that had it and was hung up on has
// worked on the prompt.
func (p *Provider) unanswered(ctx context.Context, req compute.Request, err error) compute.Usage {
	if ctx.Err() != nil || fsys.CodeOf(err) == fsys.Timeout {
		return compute.Estimate(req, 0)
	}
	return compute.Usage{}
}

func mediaType(res *http.Response) string {
	t, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	return t
}

// follow passes the events of res on until the last.
func (p *Provider) follow(ctx context.Context, res *http.Response, s *answer) error {
	// Some servers do not end the last event with an empty line.
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(res.Body, strings.NewReader("\n\n")), res.Body}
	events := ssestream.NewDecoder(res)
	for events.Next() {
		data := bytes.TrimSpace(events.Event().Data)
		if bytes.HasPrefix(data, []byte("[DONE]")) {
			s.done = true
			return nil
		}
		var e event
		if err := json.Unmarshal(data, &e); err != nil {
			return &fsys.Error{Code: fsys.Unavailable, Reason: "the server streams something that is not an answer", Err: err}
		}
		if e.Error != nil && string(e.Error) != "null" {
			reason := p.redact(message(data))
			return fsys.E(fsys.Unavailable, "the server broke off: "+reason)
		}
		if err := s.add(e); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := events.Err(); err != nil {
		return p.broken(err)
	}
	return nil
}

// event is one event of a stream, of a chat or of a completion.
type event struct {
	ID      string `json:"id"`
	Model   string `json:"model"`
	Choices []struct {
		Index        int    `json:"index"`
		Delta        delta  `json:"delta"`
		Text         string `json:"text"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage *compute.WireUsage `json:"usage"`
	Error json.RawMessage    `json:"error"`
}

type delta struct {
	Content          string             `json:"content"`
	ReasoningContent string             `json:"reasoning_content"`
	Reasoning        string             `json:"reasoning"`
	Refusal          string             `json:"refusal"`
	ToolCalls        []compute.ToolCall `json:"tool_calls"`
}

// answer is one stream as far as it came.
type answer struct {
	req      compute.Request
	emit     func(compute.Chunk) error
	usage    *compute.Usage
	size     int
	finished bool // a choice said why it ended
	done     bool // the server said that this is all
}

func (s *answer) add(e event) error {
	for i, c := range e.Choices {
		chunk := compute.Chunk{
			Choice:    c.Index,
			Text:      c.Delta.Content + c.Text,
			Reasoning: c.Delta.ReasoningContent,
			Refusal:   c.Delta.Refusal,
			ToolCalls: c.Delta.ToolCalls,
			Finish:    c.FinishReason,
		}
		if chunk.Reasoning == "" {
			chunk.Reasoning = c.Delta.Reasoning
		}
		if s.size == 0 && i == 0 {
			chunk.ID, chunk.Model = e.ID, e.Model
		}
		s.finished = s.finished || chunk.Finish != ""
		if grown := len(chunk.Text) + len(chunk.Reasoning) + len(chunk.Refusal); grown > 0 {
			s.size += grown
		} else if chunk.Finish == "" && len(chunk.ToolCalls) == 0 {
			continue // only a role
		}
		if err := s.emit(chunk); err != nil {
			return err
		}
	}
	if e.Usage != nil {
		u := e.Usage.Usage()
		s.usage = &u
	}
	return nil
}

// end returns what the stream that ended with err has used.
func (s *answer) end(err error) (compute.Usage, error) {
	if err == nil && !s.done && !s.finished {
		err = fsys.E(fsys.Unavailable, "the server ended the answer in the middle")
	}
	usage := compute.Estimate(s.req, s.size)
	if s.usage != nil {
		usage = *s.usage
	}
	if err != nil {
		return usage, err
	}
	return usage, s.emit(compute.Chunk{Usage: &usage})
}
