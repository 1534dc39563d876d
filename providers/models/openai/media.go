package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"strings"

	"agent9/fsys"
	"agent9/providers/models"
	"agent9/providers/models/httpapi"
)

// mediaUsage is what requests for pictures and transcripts used, as far as it
// is counted in tokens.
type mediaUsage struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
}

// image asks for pictures.
func (p *Provider) image(ctx context.Context, s *httpapi.Stream) (models.Usage, error) {
	body := s.Req.Body.Delete("stream").Delete("partial_images")
	if strings.HasPrefix(s.Req.Model, "dall-e") && !body.Has("response_format") {
		body = body.Set("response_format", "b64_json") // else an address that expires
	}
	raw, _, used, err := s.Whole(ctx, "/images/generations", "application/json", body.Bytes())
	if err != nil {
		return used, err
	}
	var r struct {
		Data []struct {
			Base64 []byte `json:"b64_json"`
		} `json:"data"`
		Usage *mediaUsage `json:"usage"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return used, httpapi.NotAnAnswer(err)
	}
	if r.Usage != nil {
		used = models.Usage{Input: r.Usage.Input, Output: r.Usage.Output}
	}
	if len(r.Data) == 1 && len(r.Data[0].Base64) > 0 {
		return s.Picture(used, r.Data[0].Base64)
	}
	return s.Give(used, httpapi.OneLine(raw), "")
}

// speak asks for a sound.
func (p *Provider) speak(ctx context.Context, s *httpapi.Stream) (models.Usage, error) {
	raw, kind, used, err := s.Whole(ctx, "/audio/speech", "application/json", s.Req.Body.Delete("stream").Delete("stream_format").Bytes())
	if err != nil {
		return used, err
	}
	if kind == "application/json" || len(raw) == 0 {
		return used, fsys.E(fsys.Unavailable, "the server gave no sound")
	}
	return s.Give(used, raw, cmp.Or(kind, "application/octet-stream"))
}

// transcribe asks for the text of a sound.
func (p *Provider) transcribe(ctx context.Context, s *httpapi.Stream) (models.Usage, error) {
	mediaType, form, err := form(s.Req)
	if err != nil {
		return models.Usage{}, err
	}
	raw, kind, used, err := s.Whole(ctx, "/audio/transcriptions", mediaType, form)
	if err != nil {
		return used, err
	}
	var r struct {
		Text  string      `json:"text"`
		Usage *mediaUsage `json:"usage"`
	}
	if json.Unmarshal(raw, &r) != nil { // text, srt, vtt
		r.Text = string(raw)
	} else {
		raw, kind = httpapi.OneLine(raw), ""
	}
	used = models.Estimate(s.Req, len(r.Text))
	if r.Usage != nil {
		used = models.Usage{Input: r.Usage.Input, Output: r.Usage.Output}
	}
	if err := s.Emit(models.Chunk{Text: r.Text, Finish: "stop"}); err != nil {
		return used, err
	}
	return s.Give(used, raw, kind)
}

// form returns the fields of a request as a form with a file. A list becomes a
// field NAME[] for each of its values.
func form(req models.Request) (mediaType string, body []byte, err error) {
	name, data, err := req.File()
	if err != nil {
		return "", nil, err
	}
	var buf bytes.Buffer
	w := multipart.NewWriter(&buf)
	for field, value := range req.Body.Delete("file").Delete("filename").Delete("stream").All() {
		var list []json.RawMessage
		if json.Unmarshal(value, &list) == nil && list != nil {
			field += "[]"
		} else {
			list = []json.RawMessage{value}
		}
		for _, v := range list {
			if err := w.WriteField(field, httpapi.Text(v)); err != nil {
				return "", nil, fmt.Errorf("a form in memory: %w", err)
			}
		}
	}
	part, err := w.CreateFormFile("file", name)
	if err == nil {
		_, err = part.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	return w.FormDataContentType(), buf.Bytes(), err
}
