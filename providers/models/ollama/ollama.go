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

// Config says which server to ask.
type Config struct {
	BaseURL string // empty is BaseURL
	// Key is for a server behind one, which OLLAMA_API_KEY has unless KeyName
	// says otherwise.
	Key     string
	KeyName string
}

type Provider struct {
	api  httpapi.API
	info models.Info

	mu    sync.Mutex
	shown map[string]models.Model // by name and digest
}

var (
	_ models.Provider = (*Provider)(nil)
	_ models.Informer = (*Provider)(nil)
)

// New returns a Provider. It does not ask the server.
func New(c Config) (*Provider, error) {
	if c.BaseURL == "" {
		c.BaseURL = BaseURL
	}
	u, err := httpapi.Base(c.BaseURL, "", "ollama", BaseURL)
	if err != nil {
		return nil, err
	}
	if c.KeyName == "" {
		c.KeyName = "OLLAMA_API_KEY"
	}
	return &Provider{
		api: httpapi.API{Target: u.String(), Key: c.Key, KeyName: c.KeyName, Client: httpapi.Client()},
		info: models.Info{
			Driver: "ollama",
			Target: u.String(),
			Kinds:  []models.Kind{models.Chat, models.Complete, models.Embeddings},
			Free:   true,
		},
		shown: make(map[string]models.Model),
	}, nil
}

func (p *Provider) Info() models.Info { return p.info }

func (p *Provider) Run(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
	switch req.Kind {
	case models.Chat:
		return p.stream(ctx, "/api/chat", chat, req, emit)
	case models.Complete:
		return p.stream(ctx, "/api/generate", generate, req, emit)
	case models.Embeddings:
		return p.embed(ctx, req, emit)
	}
	return models.Usage{}, fsys.E(fsys.Unsupported, "this driver cannot do "+string(req.Kind))
}

// event is one line of an answer.
type event struct {
	Model    string  `json:"model"`
	Message  message `json:"message"`  // of a chat
	Response string  `json:"response"` // of a completion
	Thinking string  `json:"thinking"`
	Done     bool    `json:"done"`
	Reason   string  `json:"done_reason"`
	Error    string  `json:"error"`
	counts
}

// counts are of tokens. Ollama leaves out what it took from its cache.
type counts struct {
	Prompt int64 `json:"prompt_eval_count"`
	Eval   int64 `json:"eval_count"`
}

func (p *Provider) stream(ctx context.Context, path string, translate func(models.Request) (models.Body, error), req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
	body, err := translate(req)
	if err != nil {
		return models.Usage{}, err
	}
	res, err := p.api.Post(ctx, path, body.Bytes())
	if err != nil {
		return httpapi.Unanswered(ctx, req, err), err
	}
	defer res.Body.Close()
	s := &httpapi.Stream{Req: req, Emit: emit}
	return s.End(p.follow(ctx, res, s))
}

// follow passes the lines of res on until the last.
func (p *Provider) follow(ctx context.Context, res *http.Response, s *httpapi.Stream) error {
	calls := 0
	return p.api.Lines(ctx, res, func(line []byte) (more bool, err error) {
		if len(line) == 0 {
			return true, nil
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return false, httpapi.NotAnAnswer(err)
		}
		if e.Error != "" {
			return false, p.api.BrokeOff(fsys.Unavailable, line)
		}
		c := models.Chunk{Text: e.Message.Content + e.Response, Reasoning: e.Message.Thinking + e.Thinking}
		for _, call := range e.Message.ToolCalls {
			c.ToolCalls = append(c.ToolCalls, call.openai(calls))
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
func (p *Provider) embed(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
	body := req.Body.Delete("encoding_format").Delete("user")
	res, err := p.api.Post(ctx, "/api/embed", body.Bytes())
	if err != nil {
		return httpapi.Unanswered(ctx, req, err), err
	}
	used := models.Estimate(req, 0)
	raw, err := p.api.Body(ctx, res)
	if err != nil {
		return used, err
	}
	var r struct {
		Embeddings []json.RawMessage `json:"embeddings"`
		counts
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return used, httpapi.NotAnAnswer(err)
	}
	if r.Prompt > 0 {
		used = models.Usage{Input: r.Prompt}
	}
	result, err := httpapi.Embeddings(req, r.Embeddings, used)
	if err != nil {
		return used, err
	}
	return used, emit(models.Chunk{Usage: &used, Result: result})
}
