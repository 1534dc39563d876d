package cloudflare

import (
	"context"
	"encoding/json"
	"strconv"

	"agent9/namespace/budget"
	"agent9/providers/models"
	"agent9/providers/models/httpapi"
)

// kinds has what the API calls each kind of work that can be done here.
var kinds = map[string][]models.Kind{
	"Text Generation": {models.Chat, models.Complete},
	"Text Embeddings": {models.Embeddings},
	"Text-to-Image":   {models.Image},
}

// Models asks the API for what it has, with prices: those that are known
// exactly, else those that it states, in whole cents for many models.
func (p *Provider) Models(ctx context.Context) ([]models.Model, error) {
	type search struct {
		Result []struct {
			Name string `json:"name"`
			Task struct {
				Name string `json:"name"`
			} `json:"task"`
			Properties []property `json:"properties"`
		} `json:"result"`
	}
	return httpapi.List(ctx, &p.API, "/models/search?per_page=1000", func(list search) (all []models.Model) {
		for _, m := range list.Result {
			can, ok := kinds[m.Task.Name]
			if !ok {
				continue
			}
			model := models.Model{Name: m.Name, Kinds: can}
			for _, property := range m.Properties {
				property.describe(&model)
			}
			if known := models.PriceOf(m.Name); known != nil {
				model.Price = known
			}
			all = append(all, model)
		}
		return all
	})
}

type property struct {
	ID    string          `json:"property_id"`
	Value json.RawMessage `json:"value"`
}

// describe adds to m what a property says. What it does not say in the way
// that is known is not known.
func (p property) describe(m *models.Model) {
	switch p.ID {
	case "context_window":
		var tokens string
		if json.Unmarshal(p.Value, &tokens) == nil {
			m.Context, _ = strconv.Atoi(tokens) // 0 is not known
		}
	case "price":
		var list []struct {
			Unit     string      `json:"unit"`
			Price    json.Number `json:"price"`
			Currency string      `json:"currency"`
		}
		if json.Unmarshal(p.Value, &list) != nil {
			return
		}
		var price models.Price
		found := false
		for _, l := range list {
			micros, ok := budget.FromDollars(l.Price.String())
			if !ok || l.Currency != "USD" {
				return
			}
			switch l.Unit {
			case "per M input tokens":
				price.Input, found = micros, true
			case "per M cached input tokens":
				price.Cached = micros
			case "per M output tokens":
				price.Output = micros
			default:
				return // not by tokens
			}
		}
		if price.Cached == 0 {
			price.Cached = price.Input
		}
		if found {
			m.Price = &price
		}
	}
}
