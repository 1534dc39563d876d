// Package echo is a provider that answers the last user message with itself,
// word by word. It is what there is when there is nothing else: everything
// around a model can be tried with it.
package echo

import (
	"context"
	"strings"
	"time"
	"unicode"

	"agent9/providers/models"
)

// Model is the name of the only model.
const Model = "echo"

// Config says how to answer.
type Config struct {
	// Pause is the time before each word.
	Pause time.Duration
}

type Provider struct{ pause time.Duration }

var (
	_ models.Provider = (*Provider)(nil)
	_ models.Informer = (*Provider)(nil)
)

func New(c Config) *Provider { return &Provider{pause: c.Pause} }

func (*Provider) Info() models.Info {
	return models.Info{Driver: "echo", Kinds: []models.Kind{models.Chat, models.Complete}, Free: true}
}

func (*Provider) Models(context.Context) ([]models.Model, error) {
	return []models.Model{{Name: Model, Kinds: []models.Kind{models.Chat, models.Complete}}}, nil
}

func (p *Provider) Run(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
	var tick <-chan time.Time
	if p.pause > 0 {
		t := time.NewTicker(p.pause)
		defer t.Stop()
		tick = t.C
	}
	sent := 0
	for word := range words(req.Last()) {
		if tick != nil {
			select {
			case <-tick:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return models.Estimate(req, sent), context.Cause(ctx)
		}
		if err := emit(models.Chunk{Text: word}); err != nil {
			return models.Estimate(req, sent), err
		}
		sent += len(word)
	}
	usage := models.Estimate(req, sent)
	return usage, emit(models.Chunk{Finish: "stop", Usage: &usage})
}

// words yields text in pieces that end where a word and the space after it do.
func words(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for text != "" {
			end := strings.IndexFunc(text, unicode.IsSpace)
			if end < 0 {
				end = len(text)
			}
			if n := strings.IndexFunc(text[end:], func(r rune) bool { return !unicode.IsSpace(r) }); n >= 0 {
				end += n
			} else {
				end = len(text)
			}
			if !yield(text[:end]) {
				return
			}
			text = text[end:]
		}
	}
}
