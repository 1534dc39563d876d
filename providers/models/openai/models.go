package openai

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	"agent9/fsys"
	"agent9/providers/models"
)

// Models asks the server for its list.
func (p *Provider) Models(ctx context.Context) ([]models.Model, error) {
	var res *http.Response
	err := p.client.Get(ctx, "models", nil, &res)
	if err = p.api.Explain(ctx, res, err); err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var list struct {
		Data []struct {
			ID      string `json:"id"`
			OwnedBy string `json:"owned_by"`
			Context int    `json:"context_length"`
			MaxLen  int    `json:"max_model_len"`
		} `json:"data"`
	}
	raw, err := io.ReadAll(io.LimitReader(res.Body, 8<<20))
	if err == nil {
		err = json.Unmarshal(raw, &list)
	}
	if err != nil {
		return nil, &fsys.Error{Code: fsys.Unavailable, Reason: "the server's list of models is not one", Err: err}
	}
	all := []models.Model{}
	anyName := len(list.Data) == 0
	for _, m := range list.Data {
		if m.ID == "" || slices.ContainsFunc(all, func(o models.Model) bool { return o.Name == m.ID }) {
			continue
		}
		model := models.Model{Name: m.ID, Context: max(m.Context, m.MaxLen), Kinds: kinds(m.ID)}
		if p.priced {
			model.Price = models.PriceOf(m.ID)
		}
		all = append(all, model)
		// llama.cpp serves the one model that it has under every name.
		anyName = anyName || m.OwnedBy == "llamacpp"
	}
	if anyName {
		// Also a server that lists nothing, and may load what is asked for.
		all = append(all, models.Model{Name: "*"})
	}
	return all, nil
}

// special has parts of names that tell what a model is for, where that is not
// conversation.
var special = []struct {
	part  string
	kinds []models.Kind
}{
	{"embed", []models.Kind{models.Embeddings}},
	{"whisper", []models.Kind{models.Transcribe}},
	{"transcribe", []models.Kind{models.Transcribe}},
	{"tts", []models.Kind{models.Speak}},
	{"dall-e", []models.Kind{models.Image}},
	{"image", []models.Kind{models.Image}},
	{"davinci", []models.Kind{models.Complete}},
	{"babbage", []models.Kind{models.Complete}},
	{"moderation", []models.Kind{}},
	{"realtime", []models.Kind{}},
	{"sora", []models.Kind{}},
}

// kinds guesses what the model called name is for; nil if it does not tell.
// It serves to choose a default, never to refuse.
func kinds(name string) []models.Kind {
	for _, s := range special {
		if strings.Contains(strings.ToLower(name), s.part) {
			return s.kinds
		}
	}
	return nil
}
