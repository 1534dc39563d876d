package httpapi

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"agent9/namespace/budget"
	"agent9/providers/models"
)

// scripted is a server that answers with events.
type scripted struct{ events []string }

func (scripted) Models(context.Context) ([]models.Model, error) { return nil, nil }

func (p scripted) Run(_ context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
	s := &Stream{Req: req, Emit: emit, Done: true}
	for _, event := range p.events {
		var e ChatEvent
		if err := json.Unmarshal([]byte(strings.Replace(event, "TEXT", strings.Repeat("word ", 800), 1)), &e); err != nil {
			return models.Usage{}, err
		}
		if err := s.Add(e); err != nil {
			return models.Usage{}, err
		}
	}
	return s.End(nil)
}

// What a server says of a stream counts if it can be true, and was said last:
// else nobody counted.
func TestUsageThatCannotBeIsNone(t *testing.T) {
	const text, end = `{"choices":[{"index":0,"delta":{"content":"TEXT"}}]}`, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	usage := func(u string) string { return `{"choices":[],"usage":` + u + `}` }
	const good = `{"prompt_tokens":9,"completion_tokens":1500}`
	for _, c := range []struct {
		name    string
		events  []string
		counted bool
	}{
		{"right", []string{text, end, usage(good)}, true},
		{"zeros at first", []string{usage(`{"prompt_tokens":0,"completion_tokens":0}`), text, end, usage(good)}, true},
		{"each time", []string{text, usage(`{"prompt_tokens":9,"completion_tokens":500}`), text, end, usage(good)}, true},
		{"none", []string{text, end}, false},
		{"empty", []string{text, end, usage(`{}`)}, false},
		{"null", []string{text, end, usage(`null`)}, false},
		{"zeros", []string{text, end, usage(`{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`)}, false},
		{"nulls", []string{text, end, usage(`{"prompt_tokens":null,"completion_tokens":null}`)}, false},
		{"a sum only", []string{text, end, usage(`{"total_tokens":50}`)}, false},
		{"other names", []string{text, end, usage(`{"input_tokens":9,"output_tokens":1500}`)}, false},
		{"no output", []string{text, end, usage(`{"prompt_tokens":9}`)}, false},
		{"no output, and nothing said", []string{end, usage(`{"prompt_tokens":9}`)}, false},
		{"no input", []string{text, end, usage(`{"completion_tokens":1500}`)}, false},
		{"negative", []string{text, end, usage(`{"prompt_tokens":9,"completion_tokens":-1}`)}, false},
		{"negative input", []string{text, end, usage(`{"prompt_tokens":-9,"completion_tokens":1500}`)}, false},
		{"nothing for what was said", []string{text, end, usage(`{"prompt_tokens":9,"completion_tokens":0}`)}, false},
		{"too little for what was said", []string{text, end, usage(`{"prompt_tokens":9,"completion_tokens":1}`)}, false},
		{"more cached than there was", []string{text, end, usage(`{"prompt_tokens":9,"completion_tokens":1500,"prompt_tokens_details":{"cached_tokens":10}}`)}, false},
		{"early, and not again", []string{usage(`{"prompt_tokens":9,"completion_tokens":1500}`), text, end}, false},
		{"zeros at last", []string{text, usage(good), end, usage(`{"prompt_tokens":0,"completion_tokens":0}`)}, false},
	} {
		got, err := models.NewRunner("p", scripted{c.events}).Run(t.Context(), new(budget.Hold), models.Ask("m", "hi"), func(models.Chunk) error { return nil })
		want := models.Usage{Input: 9, Output: 1500}
		if err != nil || got.Estimated == c.counted || c.counted && got != want || min(got.Input, got.Output, got.Cached) < 0 {
			t.Errorf("%s: got %+v, %v", c.name, got, err)
		}
	}
}
