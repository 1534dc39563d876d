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
	"context"
	"net/url"

	"agent9/providers/models"
	"agent9/providers/models/httpapi"
)

// Config says which server to ask, which has to be given.
type Config = httpapi.Config

type Provider struct {
	*httpapi.Provider
	priced bool // its models have OpenAI's prices
}

var (
	_ models.Provider = (*Provider)(nil)
	_ models.Informer = (*Provider)(nil)
)

// official is the host whose models have OpenAI's prices.
const official = "api.openai.com"

// New returns a Provider. It does not ask the server.
func New(c Config) (*Provider, error) {
	api, err := httpapi.Open(c, httpapi.Driver{Name: "openai", Example: "https://" + official + "/v1", Path: "/v1", KeyName: "OPENAI_API_KEY", Kinds: models.Kinds})
	if err != nil {
		return nil, err
	}
	at, err := url.Parse(api.Target)
	p := &Provider{api, err == nil && at.Hostname() == official}
	p.Work = httpapi.Work{
		models.Chat: func(ctx context.Context, s *httpapi.Stream) (models.Usage, error) {
			return p.text(ctx, s, "/chat/completions")
		},
		models.Complete: func(ctx context.Context, s *httpapi.Stream) (models.Usage, error) {
			return p.text(ctx, s, "/completions")
		},
		models.Embeddings: func(ctx context.Context, s *httpapi.Stream) (models.Usage, error) {
			return p.whole(ctx, s, "/embeddings")
		},
		models.Image:      p.image,
		models.Transcribe: p.transcribe,
		models.Speak:      p.speak,
	}
	return p, nil
}

func (p *Provider) text(ctx context.Context, s *httpapi.Stream, path string) (models.Usage, error) {
	s.Req.Body = p.bounded(path, s.Req)
	if s.Req.NoStream {
		return p.whole(ctx, s, path)
	}
	return p.stream(ctx, s, path)
}

// bounded returns the body of req with its bound, if that is not in it as it
// was submitted. OpenAI's chats want it under the new name, which not all other
// servers know.
func (p *Provider) bounded(path string, req models.Request) models.Body {
	if req.MaxOutput == 0 || req.Names("max_tokens") || req.Names("max_completion_tokens") {
		return req.Body
	}
	if p.priced && path == "/chat/completions" {
		return req.Body.Set("max_completion_tokens", req.MaxOutput)
	}
	return req.Body.Set("max_tokens", req.MaxOutput)
}
