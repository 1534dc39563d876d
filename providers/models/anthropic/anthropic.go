// Package anthropic is a provider for Anthropic's Messages API.
//
// A request has OpenAI's form and is translated: messages with text, pictures
// and PDF files, tools and their results, stop, max_tokens (8192 if there is
// none, as the API wants one), tool_choice, response_format with a schema, and
// reasoning_effort. What the API does not have and what changes only how an
// answer is found, such as seed and logit_bias, is left out, as Anthropic's own
// OpenAI endpoint does; what would change the answer's form, such as n, sound,
// or JSON without a schema, is refused. All other fields go out as they are, so
// thinking, top_k, cache_control and output_config work as Anthropic documents
// them, and so do content blocks and tools in Anthropic's form.
//
// The answer has OpenAI's form. Reasoning that the API wants back with the
// results of tools is in the message as thinking_blocks; a message with that
// field gives it back.
package anthropic

import (
	"context"
	"net/http"
	"strings"

	"agent9/providers/models"
	"agent9/providers/models/httpapi"
)

// BaseURL is where Anthropic's API is.
const BaseURL = "https://api.anthropic.com"

// version is the API's that is spoken here.
const version = "2023-06-01"

// Config says whom to ask.
type Config = httpapi.Config

type Provider struct{ *httpapi.Provider }

var (
	_ models.Provider = (*Provider)(nil)
	_ models.Informer = (*Provider)(nil)
)

// New returns a Provider. It does not ask the server.
func New(c Config) (*Provider, error) {
	api, err := httpapi.Open(c, httpapi.Driver{
		Name: "anthropic", BaseURL: BaseURL, KeyName: "ANTHROPIC_API_KEY", Kinds: []models.Kind{models.Chat},
		Target: func(base string) string { return strings.TrimSuffix(base, "/v1") },
	})
	if err != nil {
		return nil, err
	}
	p := &Provider{api}
	p.Sign = func(header http.Header, key string) {
		header.Set("anthropic-version", version)
		if key != "" {
			header.Set("X-Api-Key", key)
		}
	}
	p.Work = httpapi.Work{models.Chat: p.chat}
	return p, nil
}

// Models asks the API for its list.
func (p *Provider) Models(ctx context.Context) ([]models.Model, error) {
	type list struct {
		Data []struct {
			ID    string `json:"id"`
			Input int    `json:"max_input_tokens"`
		} `json:"data"`
	}
	return httpapi.List(ctx, &p.API, "/v1/models?limit=1000", func(list list) (all []models.Model) {
		for _, m := range list.Data {
			all = append(all, models.Model{Name: m.ID, Context: m.Input, Kinds: p.Info().Kinds, Price: models.PriceOf(m.ID)})
		}
		return all
	})
}

func (p *Provider) chat(ctx context.Context, s *httpapi.Stream) (models.Usage, error) {
	body, err := translate(s.Req)
	if err != nil {
		return models.Usage{}, err
	}
	res, err := p.Post(ctx, "/v1/messages", body.Bytes())
	a := &stream{Stream: s, api: &p.API}
	return s.Answer(ctx, res, err, func() error { return p.Events(ctx, res, a.event) })
}
