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
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"agent9/fsys"
	"agent9/providers/models"
	"agent9/providers/models/httpapi"
)

// BaseURL is where Anthropic's API is.
const BaseURL = "https://api.anthropic.com"

// Config says whom to ask.
type Config struct {
	BaseURL string // empty is Anthropic's
	Key     string
	KeyName string // what the user calls the key; empty is ANTHROPIC_API_KEY
}

type Provider struct {
	client anthropic.Client
	api    httpapi.API
	info   models.Info
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
	u, err := httpapi.Base(c.BaseURL, "", "anthropic", BaseURL)
	if err != nil {
		return nil, err
	}
	if c.KeyName == "" {
		c.KeyName = "ANTHROPIC_API_KEY"
	}
	target := strings.TrimSuffix(u.String(), "/v1")
	// The options are given one by one, without the library's own look at the
	// environment.
	options := []option.RequestOption{
		option.WithBaseURL(target),
		option.WithHTTPClient(httpapi.Client()),
		option.WithMaxRetries(0), // a retry is decided by who pays for it
	}
	if c.Key != "" {
		options = append(options, option.WithAPIKey(c.Key))
	}
	return &Provider{
		client: anthropic.Client{Options: options},
		api:    httpapi.API{Target: target, Key: c.Key, KeyName: c.KeyName},
		info:   models.Info{Driver: "anthropic", Target: target, Kinds: []models.Kind{models.Chat}},
	}, nil
}

func (p *Provider) Info() models.Info { return p.info }

// Models asks the API for its list.
func (p *Provider) Models(ctx context.Context) ([]models.Model, error) {
	var res *http.Response
	err := p.client.Get(ctx, "v1/models?limit=1000", nil, &res)
	if err := p.api.Explain(ctx, res, err); err != nil {
		return nil, err
	}
	raw, err := p.api.Body(ctx, res)
	if err != nil {
		return nil, err
	}
	var list struct {
		Data []struct {
			ID    string `json:"id"`
			Input int    `json:"max_input_tokens"`
		} `json:"data"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, httpapi.NotAnAnswer(err)
	}
	all := []models.Model{}
	for _, m := range list.Data {
		all = append(all, models.Model{Name: m.ID, Context: m.Input, Kinds: p.info.Kinds, Price: models.PriceOf(m.ID)})
	}
	if len(all) == 0 {
		all = append(all, models.Model{Name: "*"})
	}
	return all, nil
}

func (p *Provider) Run(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
	if req.Kind != models.Chat {
		return models.Usage{}, fsys.E(fsys.Unsupported, "this driver cannot do "+string(req.Kind))
	}
	body, err := translate(req)
	if err != nil {
		return models.Usage{}, err
	}
	var res *http.Response
	err = p.client.Post(ctx, "v1/messages", nil, &res, option.WithRequestBody("application/json", bytes.NewReader(body.Bytes())))
	if err := p.api.Explain(ctx, res, err); err != nil {
		return httpapi.Unanswered(ctx, req, err), err
	}
	defer res.Body.Close()
	s := &stream{Stream: httpapi.Stream{Req: req, Emit: emit}, api: &p.api}
	return s.End(p.api.Events(ctx, res, s.event))
}
