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
func (p *Provider) embed(ctx context.Context, s *httpapi.Stream) (models.Usage, error) {
	path, body, err := request(s.Req)
	if err != nil {
		return models.Usage{}, err
	}
	body = body.Delete("input").Delete("encoding_format").Set("text", body.Get("input"))
	return s.Vectors(ctx, path, body, func(raw []byte) ([]json.RawMessage, int64, error) {
		var r struct {
			Result struct {
				Data  []json.RawMessage `json:"data"`
				Usage models.WireUsage  `json:"usage"`
			} `json:"result"`
		}
		err := json.Unmarshal(raw, &r)
		return r.Result.Data, r.Result.Usage.Prompt, err
	})
}

// image asks for a picture, which comes as bytes or in base64.
func (p *Provider) image(ctx context.Context, s *httpapi.Stream) (models.Usage, error) {
	path, body, err := request(s.Req)
	if err == nil {
		body, err = sized(body)
	}
	if err == nil && s.Req.Choices > 1 {
		err = fsys.E(fsys.Invalid, "cloudflare gives one picture to a request; leave out n")
	}
	if err != nil {
		return models.Usage{}, err
	}
	raw, kind, used, err := s.Whole(ctx, path, "application/json", body.Delete("n").Delete("response_format").Bytes())
	if err != nil {
		return used, err
	}
	if strings.HasPrefix(kind, "image/") {
		return s.Picture(used, raw)
	}
	var r struct {
		Result struct {
			Image []byte `json:"image"`
		} `json:"result"`
	}
	if err := json.Unmarshal(raw, &r); err != nil || len(r.Result.Image) == 0 {
		return used, fsys.E(fsys.Unavailable, "the server gave no picture")
	}
	return s.Picture(used, r.Result.Image)
}

// sized translates the size of a picture.
func sized(body models.Body) (models.Body, error) {
	raw := body.Get("size")
	if raw == nil {
		return body, nil
	}
	var size string
	var width, height int
	const want = "a string such as 1024x768"
	if err := httpapi.Read(raw, &size, "size", want); err != nil {
		return body, err
	}
	if n, err := fmt.Sscanf(size, "%dx%d", &width, &height); size != "auto" && (n != 2 || err != nil) {
		return body, fsys.E(fsys.Invalid, "size must be "+want)
	}
	if body = body.Delete("size"); width > 0 {
		body = body.Set("width", width).Set("height", height)
	}
	return body, nil
}
