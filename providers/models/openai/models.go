package openai

import (
	"context"
	"strings"

	"agent9/providers/models"
	"agent9/providers/models/httpapi"
)

// Models asks the server for its list.
func (p *Provider) Models(ctx context.Context) ([]models.Model, error) {
	type list struct {
		Data []struct {
			ID      string `json:"id"`
			OwnedBy string `json:"owned_by"`
			Context int    `json:"context_length"`
			MaxLen  int    `json:"max_model_len"`
		} `json:"data"`
	}
	return httpapi.List(ctx, &p.API, "/models", func(list list) (all []models.Model) {
		anyName := false
		for _, m := range list.Data {
			model := models.Model{Name: m.ID, Context: max(m.Context, m.MaxLen), Kinds: kinds(m.ID)}
			if p.priced {
				model.Price = models.PriceOf(m.ID)
			}
			all = append(all, model)
			// llama.cpp serves the one model that it has under every name.
			anyName = anyName || m.OwnedBy == "llamacpp"
		}
		if anyName {
			all = append(all, models.Model{Name: "*"})
		}
		return all
	})
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
