package ollama

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"agent9/fsys"
	"agent9/providers/models"
	"agent9/providers/models/httpapi"
)

// Models asks the server for what it has, and what each model can do. What it
// does not tell in time is not known of a model.
func (p *Provider) Models(ctx context.Context) ([]models.Model, error) {
	type tags struct {
		Models []struct {
			Name   string `json:"name"`
			Digest string `json:"digest"`
		} `json:"models"`
	}
	return httpapi.List(ctx, &p.API, "/api/tags", func(list tags) (all []models.Model) {
		for _, m := range list.Models {
			all = append(all, p.show(ctx, m.Name, m.Name+" "+m.Digest).Named(m.Name))
		}
		return all
	})
}

// show returns what is known of a model, which is asked for once.
func (p *Provider) show(ctx context.Context, name, version string) models.Model {
	p.mu.Lock()
	m, ok := p.shown[version]
	p.mu.Unlock()
	if ok || ctx.Err() != nil {
		return m
	}
	res, err := p.Post(ctx, "/api/show", fsys.Line(struct {
		Model string `json:"model"`
	}{name}))
	if err != nil {
		return m
	}
	raw, err := p.Body(ctx, res)
	if err != nil {
		return m
	}
	m = describe(raw)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shown[version] = m
	return m
}

// describe reads the answer of /api/show.
func describe(raw []byte) models.Model {
	var show struct {
		Capabilities []string                   `json:"capabilities"`
		Info         map[string]json.RawMessage `json:"model_info"`
	}
	var m models.Model
	if json.Unmarshal(raw, &show) != nil {
		return m
	}
	for name, value := range show.Info {
		if strings.HasSuffix(name, ".context_length") {
			json.Unmarshal(value, &m.Context) // 0 if it is not a number
		}
	}
	if slices.Contains(show.Capabilities, "completion") {
		m.Kinds = append(m.Kinds, models.Chat, models.Complete)
	}
	if slices.Contains(show.Capabilities, "embedding") {
		m.Kinds = append(m.Kinds, models.Embeddings)
	}
	return m
}
