// Package ollama is a provider for Ollama's own API, with what its OpenAI
// endpoint does not tell: what its models can do, and how long their context
// is. Its work costs nothing.
//
// Requests have OpenAI's form and are translated: messages with text and
// pictures as data: URLs, tools and their results, JSON with and without a
// schema, reasoning_effort (as think), and the fields that Ollama has among its
// options, such as temperature, seed and stop. Ollama's own fields format,
// think, keep_alive and options are taken as they are; other fields are left
// out.
package ollama

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"

	"agent9/fsys"
	"agent9/providers/models"
	"agent9/providers/models/httpapi"
)

// BaseURL is where Ollama listens if nobody told it otherwise.
const BaseURL = "http://127.0.0.1:11434"

// Config says which server to ask. It is free.
type Config = httpapi.Config

type Provider struct {
	*httpapi.Provider

	mu    sync.Mutex
	shown map[string]models.Model // by name and digest
}

var (
	_ models.Provider = (*Provider)(nil)
	_ models.Informer = (*Provider)(nil)
)

// New returns a Provider. It does not ask the server.
func New(c Config) (*Provider, error) {
	c.Free = true
	api, err := httpapi.Open(c, httpapi.Driver{Name: "ollama", BaseURL: BaseURL, KeyName: "OLLAMA_API_KEY", Kinds: []models.Kind{models.Chat, models.Complete, models.Embeddings}})
	if err != nil {
		return nil, err
	}
	p := &Provider{Provider: api, shown: make(map[string]models.Model)}
	p.Work = httpapi.Work{
		models.Chat: func(ctx context.Context, s *httpapi.Stream) (models.Usage, error) {
			return p.stream(ctx, s, "/api/chat", chat)
		},
		models.Complete: func(ctx context.Context, s *httpapi.Stream) (models.Usage, error) {
			return p.stream(ctx, s, "/api/generate", generate)
		},
		models.Embeddings: p.embed,
	}
	return p, nil
}

// event is one line of an answer.
type event struct {
	Model   string   `json:"model"`
	Message struct { // of a chat
		Content   string             `json:"content"`
		Thinking  string             `json:"thinking"`
		ToolCalls []httpapi.ToolCall `json:"tool_calls"`
	} `json:"message"`
	Response string `json:"response"` // of a completion
	Thinking string `json:"thinking"`
	Done     bool   `json:"done"`
	Reason   string `json:"done_reason"`
	Error    string `json:"error"`
	counts
}

// counts are of tokens. Ollama leaves out what it took from its cache.
type counts struct {
	Prompt int64 `json:"prompt_eval_count"`
	Eval   int64 `json:"eval_count"`
}

func (p *Provider) stream(ctx context.Context, s *httpapi.Stream, path string, translate func(models.Request) (models.Body, error)) (models.Usage, error) {
	body, err := translate(s.Req)
	if err != nil {
		return models.Usage{}, err
	}
	res, err := p.Post(ctx, path, body.Bytes())
	return s.Answer(ctx, res, err, func() error { return p.follow(ctx, res, s) })
}

// follow passes the lines of res on until the last.
func (p *Provider) follow(ctx context.Context, res *http.Response, s *httpapi.Stream) error {
	calls := 0
	return p.Lines(ctx, res, func(line []byte) (more bool, err error) {
		if len(line) == 0 {
			return true, nil
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return false, httpapi.NotAnAnswer(err)
		}
		if e.Error != "" {
			return false, p.BrokeOff(fsys.Unavailable, line)
		}
		c := models.Chunk{Text: e.Message.Content + e.Response, Reasoning: e.Message.Thinking + e.Thinking}
		for _, call := range e.Message.ToolCalls {
			c.ToolCalls = append(c.ToolCalls, call.OpenAI(calls))
			calls++
		}
		s.Model = e.Model
		if e.Done {
			c.Finish = finish(e.Reason, calls)
			s.Done = true
		}
		err = s.Send(c)
		if e.Done {
			e.count(s)
		}
		return !e.Done, err
	})
}

// count takes the counts of the end, if they are there.
func (c counts) count(s *httpapi.Stream) {
	switch {
	case c.Prompt > 0 && c.Eval > 0:
		s.Count(models.Usage{Input: c.Prompt, Output: c.Eval})
	case c.Eval > 0:
		in := models.Estimate(s.Req, 0).Input
		s.Count(models.Usage{Input: in, Output: c.Eval, Estimated: true})
	case c.Prompt > 0:
		s.Prompt = &models.Usage{Input: c.Prompt}
	}
}

// finish says in OpenAI's words why an answer ended.
func finish(reason string, calls int) string {
	switch {
	case calls > 0:
		return "tool_calls"
	case reason == "length":
		return "length"
	}
	return "stop"
}

// embed asks for vectors.
func (p *Provider) embed(ctx context.Context, s *httpapi.Stream) (models.Usage, error) {
	body := s.Req.Body.Delete("encoding_format").Delete("user")
	return s.Vectors(ctx, "/api/embed", body, func(raw []byte) ([]json.RawMessage, int64, error) {
		var r struct {
			Embeddings []json.RawMessage `json:"embeddings"`
			counts
		}
		err := json.Unmarshal(raw, &r)
		return r.Embeddings, r.Prompt, err
	})
}
