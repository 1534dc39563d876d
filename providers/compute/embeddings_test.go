package compute_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"agent9/conformance"
	"agent9/providers/compute"
	"agent9/providers/compute/fake"
)

// The rule about embeddings finds the provider that breaks it.
func TestSuiteFindsBrokenEmbeddings(t *testing.T) {
	about := compute.Info{Driver: "x", Kinds: []compute.Kind{compute.Chat, compute.Embeddings}}
	const good = `{"data":[{"embedding":[0.5]}]}`
	for want, c := range map[string]struct {
		about  compute.Info
		result string
		usage  compute.Usage
		err    error
	}{
		"":                                    {about, good, compute.Usage{Input: 1}, nil},
		"embeddings is not among the kinds":   {compute.Info{Driver: "x", Kinds: []compute.Kind{compute.Chat}}, good, compute.Usage{Input: 1}, nil},
		"embeddings: Run: no":                 {about, good, compute.Usage{Input: 1}, errors.New("no")},
		"the result of embeddings is not a":   {about, `{`, compute.Usage{Input: 1}, nil},
		"the result of embeddings has no v":   {about, `{"data":[]}`, compute.Usage{Input: 1}, nil},
		"the usage of embeddings is {Input:0": {about, good, compute.Usage{}, nil},
	} {
		b := &broken{Provider: fake.Provider{About: c.about}}
		b.run = func(ctx context.Context, req compute.Request, emit func(compute.Chunk) error) (compute.Usage, error) {
			if req.Kind != compute.Embeddings {
				return b.Provider.Run(ctx, req, emit)
			}
			if c.err != nil {
				return c.usage, c.err
			}
			return c.usage, emit(compute.Chunk{Result: []byte(c.result)})
		}
		err := conformance.CheckCompute(t.Context(), conformance.Compute{
			Provider: b, Model: "fake", Say: "hello", Want: "hello ", Slow: "begin;wait forever", Embed: "vectors",
		})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("found: %v\nwant: %s", err, want)
		}
	}
}
