package cloudflare

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"agent9/fsys"
	"agent9/providers/models"
	"agent9/providers/models/httpapi"
)

// embed asks for vectors. The API does not count tokens for all models.
func (p *Provider) embed(ctx context.Context, req models.Request, body models.Body, emit func(models.Chunk) error) (models.Usage, error) {
	raw, _, used, err := p.fetch(ctx, req, body)
	if err != nil {
		return used, err
	}
	var r struct {
		Result struct {
			Data  []json.RawMessage `json:"data"`
			Usage *models.WireUsage `json:"usage"`
		} `json:"result"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return used, httpapi.NotAnAnswer(err)
	}
	if u := r.Result.Usage; u != nil && u.Prompt > 0 {
		used = models.Usage{Input: u.Prompt}
	}
	result, err := httpapi.Embeddings(req, r.Result.Data, used)
	if err != nil {
		return used, err
	}
	return used, emit(models.Chunk{Usage: &used, Result: result})
}

// image asks for a picture, which comes as bytes or in base64.
func (p *Provider) image(ctx context.Context, req models.Request, body models.Body, emit func(models.Chunk) error) (models.Usage, error) {
	var size string
	var width, height int
	if raw := body.Get("size"); raw != nil {
		if json.Unmarshal(raw, &size) != nil {
			return models.Usage{}, fsys.E(fsys.Invalid, "size must be a string such as 1024x768")
		}
		if n, err := fmt.Sscanf(size, "%dx%d", &width, &height); size != "auto" && (n != 2 || err != nil) {
			return models.Usage{}, fsys.E(fsys.Invalid, "size must be a string such as 1024x768")
		}
		if body = body.Delete("size"); width > 0 {
			body = body.Set("width", width).Set("height", height)
		}
	}
	if req.Choices > 1 {
		return models.Usage{}, fsys.E(fsys.Invalid, "cloudflare gives one picture to a request; leave out n")
	}
	raw, kind, used, err := p.fetch(ctx, req, body.Delete("n").Delete("response_format"))
	if err != nil {
		return used, err
	}
	if strings.HasPrefix(kind, "image/") {
		return used, emit(httpapi.Picture(raw, used))
	}
	var r struct {
		Result struct {
			Image []byte `json:"image"`
		} `json:"result"`
	}
	if err := json.Unmarshal(raw, &r); err != nil || len(r.Result.Image) == 0 {
		return used, fsys.E(fsys.Unavailable, "the server gave no picture")
	}
	return used, emit(httpapi.Picture(r.Result.Image, used))
}

// fetch returns a whole response and its media type.
func (p *Provider) fetch(ctx context.Context, req models.Request, body models.Body) ([]byte, string, models.Usage, error) {
	res, err := p.post(ctx, req, body)
	if err != nil {
		return nil, "", httpapi.Unanswered(ctx, req, err), err
	}
	raw, err := p.api.Body(ctx, res)
	return raw, httpapi.MediaType(res), models.Estimate(req, 0), err
}
