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
	"regexp"
	"strings"

	"agent9/fsys"
	"agent9/providers/models"
	"agent9/providers/models/httpapi"
)

// BaseURL is where Cloudflare's API is.
const BaseURL = "https://api.cloudflare.com/client/v4"

// Config says whom to ask: the account's ID, and an API token that may run
// Workers AI.
type Config = httpapi.Config

type Provider struct{ *httpapi.Provider }

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
	api, err := httpapi.Open(c, httpapi.Driver{
		Name: "cloudflare", BaseURL: BaseURL, Path: "/client/v4", KeyName: "CLOUDFLARE_API_TOKEN",
		Target: func(base string) string { return base + "/accounts/" + c.Account + "/ai" },
		Kinds:  []models.Kind{models.Chat, models.Complete, models.Embeddings, models.Image},
	})
	if err != nil {
		return nil, err
	}
	p := &Provider{api}
	p.Code = codeOf
	p.Work = httpapi.Work{
		models.Chat: p.stream, models.Complete: p.stream, models.Embeddings: p.embed, models.Image: p.image,
	}
	return p, nil
}

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

// request returns the path for the model of req, and what all kinds have of a body.
func request(req models.Request) (path string, body models.Body, err error) {
	if !model.MatchString(req.Model) || strings.Contains(req.Model, "..") {
		return "", body, fsys.E(fsys.Invalid, "cloudflare needs a model, such as @cf/meta/llama-3.1-8b-instruct")
	}
	body = req.Body.Delete("model").Delete("max_completion_tokens")
	if req.MaxOutput > 0 {
		body = body.Set("max_tokens", req.MaxOutput)
	}
	return "/run/" + req.Model, body, nil
}

// stream asks for an answer in pieces.
func (p *Provider) stream(ctx context.Context, s *httpapi.Stream) (models.Usage, error) {
	path, body, err := request(s.Req)
	if err == nil && s.Req.Choices > 1 {
		err = fsys.E(fsys.Invalid, "cloudflare gives one answer to a request; leave out n")
	}
	if err != nil {
		return models.Usage{}, err
	}
	res, err := p.Post(ctx, path, body.Delete("stream_options").Set("stream", true).Bytes())
	return s.Answer(ctx, res, err, func() error {
		a := &answer{Stream: s, api: &p.API}
		if httpapi.MediaType(res) == "application/json" { // a model that does not stream
			raw, err := p.Body(ctx, res)
			if err != nil {
				return err
			}
			return a.whole(raw)
		}
		return p.Events(ctx, res, func(data []byte) (bool, error) {
			if bytes.HasPrefix(data, []byte("[DONE]")) {
				return false, a.done()
			}
			return true, a.event(data)
		})
	})
}
