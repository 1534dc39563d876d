// Package cloudflare is a provider for Workers AI by its REST API,
// accounts/ACCOUNT/ai/run/MODEL.
//
// A chat or a completion goes out as it was submitted, for Workers AI takes
// OpenAI's fields as far as a model has them; max_completion_tokens becomes
// max_tokens. Answers come in two forms, the API's own and, from newer models,
// OpenAI's; both are understood. For embeddings, input becomes text; for
// pictures, size becomes width and height, and the result is the bytes of the
// picture. Models that want a form instead of JSON, such as flux-2, cannot be
// asked.
package cloudflare

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"

	"agent9/fsys"
	"agent9/providers/models"
	"agent9/providers/models/httpapi"
)

// BaseURL is where Cloudflare's API is.
const BaseURL = "https://api.cloudflare.com/client/v4"

// Config says whom to ask.
type Config struct {
	Account string // the account's ID
	BaseURL string // empty is Cloudflare's
	Key     string // an API token that may run Workers AI
	KeyName string // what the user calls it; empty is CLOUDFLARE_API_TOKEN
}

type Provider struct {
	api  httpapi.API
	info models.Info
}

var (
	_ models.Provider = (*Provider)(nil)
	_ models.Informer = (*Provider)(nil)

	account = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	model   = regexp.MustCompile(`^@?[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$`)
)

// New returns a Provider. It does not ask the server.
func New(c Config) (*Provider, error) {
	if !account.MatchString(c.Account) {
		return nil, fsys.E(fsys.Invalid, "cloudflare needs the ID of an account, as in cloudflare:023e105f4ecef8ad9ca31a8372d0c353")
	}
	if c.BaseURL == "" {
		c.BaseURL = BaseURL
	}
	u, err := httpapi.Base(c.BaseURL, "/client/v4", "cloudflare", BaseURL)
	if err != nil {
		return nil, err
	}
	if c.KeyName == "" {
		c.KeyName = "CLOUDFLARE_API_TOKEN"
	}
	target := u.String() + "/accounts/" + c.Account + "/ai"
	return &Provider{
		api: httpapi.API{Target: target, Key: c.Key, KeyName: c.KeyName, Client: httpapi.Client(), Code: codeOf},
		info: models.Info{
			Driver: "cloudflare",
			Target: target,
			Kinds:  []models.Kind{models.Chat, models.Complete, models.Embeddings, models.Image},
		},
	}, nil
}

func (p *Provider) Info() models.Info { return p.info }

// codeOf knows the API's own numbers of errors ("Errors" in the documentation
// of Workers AI) where the status says less.
func codeOf(_ int, body []byte) fsys.Code {
	var e struct {
		Errors []struct {
			Code int `json:"code"`
		} `json:"errors"`
	}
	if json.Unmarshal(body, &e) != nil || len(e.Errors) == 0 {
		return fsys.Internal
	}
	switch e.Errors[0].Code {
	case 5007, 3042: // no such model
		return fsys.NotExist
	case 7000, 7003: // no such account
		return fsys.NotExist
	case 3006:
		return fsys.TooLarge
	}
	return fsys.Internal
}

func (p *Provider) Run(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
	if !model.MatchString(req.Model) || strings.Contains(req.Model, "..") {
		return models.Usage{}, fsys.E(fsys.Invalid, "cloudflare needs a model, such as @cf/meta/llama-3.1-8b-instruct")
	}
	body := req.Body.Delete("model")
	if body = body.Delete("max_completion_tokens"); req.MaxOutput > 0 {
		body = body.Set("max_tokens", req.MaxOutput)
	}
	switch req.Kind {
	case models.Chat, models.Complete:
		return p.stream(ctx, req, body.Delete("stream_options").Set("stream", true), emit)
	case models.Embeddings:
		return p.embed(ctx, req, body.Delete("input").Delete("encoding_format").Set("text", body.Get("input")), emit)
	case models.Image:
		return p.image(ctx, req, body, emit)
	}
	return models.Usage{}, fsys.E(fsys.Unsupported, "this driver cannot do "+string(req.Kind))
}

func (p *Provider) post(ctx context.Context, req models.Request, body models.Body) (*http.Response, error) {
	return p.api.Post(ctx, "/run/"+req.Model, body.Bytes())
}

// stream asks for an answer in pieces.
func (p *Provider) stream(ctx context.Context, req models.Request, body models.Body, emit func(models.Chunk) error) (models.Usage, error) {
	if req.Choices > 1 {
		return models.Usage{}, fsys.E(fsys.Invalid, "cloudflare gives one answer to a request; leave out n")
	}
	res, err := p.post(ctx, req, body)
	if err != nil {
		return httpapi.Unanswered(ctx, req, err), err
	}
	a := &answer{Stream: httpapi.Stream{Req: req, Emit: emit}, api: &p.api}
	if httpapi.MediaType(res) == "application/json" { // a model that does not stream
		raw, err := p.api.Body(ctx, res)
		if err == nil {
			err = a.whole(raw)
		}
		return a.End(err)
	}
	defer res.Body.Close()
	return a.End(p.api.Events(ctx, res, func(data []byte) (bool, error) {
		if bytes.HasPrefix(data, []byte("[DONE]")) {
			return false, a.done()
		}
		return true, a.event(data)
	}))
}
