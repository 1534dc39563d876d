// Package openai is a provider for every server that speaks OpenAI's API:
// OpenAI, Ollama, vLLM, llama.cpp, LM Studio and many more.
//
// A request's body goes out as it was submitted, so a field that nobody here
// knows survives. Answers are streamed unless the request says "stream": false
// or asks for what does not come in pieces (log probabilities, sound); then
// the response is kept as it came.
//
// Of the other kinds of work, embeddings and image take the body that OpenAI
// documents, and so does speak. transcribe takes its form as a JSON object, with
// the sound in "file" (see compute.Request.File). One picture, a sound, and a
// transcript in a format that is not JSON are the result as bytes; all else is
// the response as it came.
package openai

import (
	"bytes"
	"context"
	"net/http"
	"slices"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"agent9/fsys"
	"agent9/providers/models"
	"agent9/providers/models/httpapi"
)

// Config says which server to ask.
type Config struct {
	// BaseURL is where the API is, such as https://api.openai.com/v1. With no
	// path, /v1 is meant.
	BaseURL string
	// Key is sent as the bearer token; empty sends none.
	Key string
	// KeyName is what the user calls the key, such as OPENAI_API_KEY, for
	// messages about it.
	KeyName string
	// Free says that the work costs nothing.
	Free bool
	// Kinds are the kinds of work that the server does; nil is all of
	// OpenAI's.
	Kinds []models.Kind
}

type Provider struct {
	client openai.Client
	api    httpapi.API
	priced bool // its models have OpenAI's prices
	info   models.Info
}

var (
	_ models.Provider = (*Provider)(nil)
	_ models.Informer = (*Provider)(nil)
)

// official is the host whose models have OpenAI's prices.
const official = "api.openai.com"

// New returns a Provider. It does not ask the server.
func New(c Config) (*Provider, error) {
	u, err := httpapi.Base(c.BaseURL, "/v1", "openai", "https://api.openai.com/v1")
	if err != nil {
		return nil, err
	}
	if c.KeyName == "" {
		c.KeyName = "OPENAI_API_KEY"
	}
	if c.Kinds == nil {
		c.Kinds = models.Kinds
	}
	// The options are given one by one, without the library's own look at the
	// environment: two providers may have different servers and keys.
	options := []option.RequestOption{
		option.WithBaseURL(u.String()),
		option.WithHTTPClient(httpapi.Client()),
		option.WithMaxRetries(0), // a retry is decided by who pays for it
	}
	if c.Key != "" {
		options = append(options, option.WithAPIKey(c.Key))
	}
	return &Provider{
		client: openai.Client{Options: options},
		api:    httpapi.API{Target: u.String(), Key: c.Key, KeyName: c.KeyName},
		priced: u.Hostname() == official,
		info: models.Info{
			Driver: "openai",
			Target: u.String(),
			Kinds:  slices.Clone(c.Kinds),
			Free:   c.Free,
		},
	}, nil
}

func (p *Provider) Info() models.Info { return p.info }

func (p *Provider) Run(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
	if !slices.Contains(p.info.Kinds, req.Kind) {
		return models.Usage{}, fsys.E(fsys.Unsupported, "this provider cannot do "+string(req.Kind))
	}
	switch req.Kind {
	case models.Chat:
		return p.text(ctx, "chat/completions", req, emit)
	case models.Complete:
		return p.text(ctx, "completions", req, emit)
	case models.Embeddings:
		return p.whole(ctx, "embeddings", req, emit)
	case models.Image:
		return p.image(ctx, req, emit)
	case models.Transcribe:
		return p.transcribe(ctx, req, emit)
	case models.Speak:
		return p.speak(ctx, req, emit)
	}
	return models.Usage{}, fsys.E(fsys.Unsupported, "this driver cannot do "+string(req.Kind))
}

func (p *Provider) text(ctx context.Context, path string, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
	req.Body = p.bounded(path, req)
	if req.NoStream {
		return p.whole(ctx, path, req, emit)
	}
	return p.stream(ctx, path, req, emit)
}

// bounded returns the body of req with its bound, if that is not in it as it
// was submitted. OpenAI's chats want it under the new name, which not all other
// servers know.
func (p *Provider) bounded(path string, req models.Request) models.Body {
	if req.MaxOutput == 0 || req.Names("max_tokens") || req.Names("max_completion_tokens") {
		return req.Body
	}
	if p.priced && path == "chat/completions" {
		return req.Body.Set("max_completion_tokens", req.MaxOutput)
	}
	return req.Body.Set("max_tokens", req.MaxOutput)
}

// post sends a body of JSON and returns the response, whose status is good.
func (p *Provider) post(ctx context.Context, path string, body models.Body) (*http.Response, error) {
	return p.send(ctx, path, "application/json", body.Bytes())
}

func (p *Provider) send(ctx context.Context, path, mediaType string, body []byte) (*http.Response, error) {
	var res *http.Response
	err := p.client.Post(ctx, path, nil, &res, option.WithRequestBody(mediaType, bytes.NewReader(body)))
	if err := p.api.Explain(ctx, res, err); err != nil {
		return nil, err
	}
	if res == nil {
		return nil, fsys.E(fsys.Unavailable, "the server gave no response")
	}
	return res, nil
}
