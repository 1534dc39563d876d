package models_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"agent9/conformance"
	"agent9/providers/models"
	"agent9/providers/models/fake"
)

// The rule about embeddings finds the provider that breaks it.
func TestSuiteFindsBrokenEmbeddings(t *testing.T) {
	about := models.Info{Driver: "x", Kinds: []models.Kind{models.Chat, models.Embeddings}}
	const good = `{"data":[{"embedding":[0.5]}]}`
	for want, c := range map[string]struct {
		about  models.Info
		result string
		usage  models.Usage
		err    error
	}{
		"":                                    {about, good, models.Usage{Input: 1}, nil},
		"embeddings is not among the kinds":   {models.Info{Driver: "x", Kinds: []models.Kind{models.Chat}}, good, models.Usage{Input: 1}, nil},
		"embeddings: Run: no":                 {about, good, models.Usage{Input: 1}, errors.New("no")},
		"the result of embeddings is not a":   {about, `{`, models.Usage{Input: 1}, nil},
		"the result of embeddings has no v":   {about, `{"data":[]}`, models.Usage{Input: 1}, nil},
		"the usage of embeddings is {Input:0": {about, good, models.Usage{}, nil},
	} {
		b := &broken{Provider: fake.Provider{About: c.about}}
		b.run = func(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
			if req.Kind != models.Embeddings {
				return b.Provider.Run(ctx, req, emit)
			}
			if c.err != nil {
				return c.usage, c.err
			}
			return c.usage, emit(models.Chunk{Result: []byte(c.result)})
		}
		err := conformance.CheckCompute(t.Context(), conformance.Compute{
			Provider: b, Model: "fake", Say: "hello", Want: "hello ", Slow: "begin;wait forever", Embed: "vectors",
		})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("found: %v\nwant: %s", err, want)
		}
	}
}
