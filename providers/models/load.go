package models

import (
	"math"

	"agent9/namespace/budget"
)

// A Load is the most that a request can make a provider bill. It is computed
// from the body as it goes out, and never from what a request says of its cost.
//
// Text is a token for every byte of the body. A picture is as many tokens as
// one can be, and a part that nobody here can measure (a document, a file that
// is somewhere else) fills the model's context, as does what a tool that the
// provider runs finds. The bytes of a PDF bound nothing: a few kilobytes can have
// as many pages as the provider takes (OpenAI names no bound, Anthropic 600), each
// with compressed text that others share, of which it reads the text and a picture.
// A field that may cost more in a way that is not known
// here makes no Load: see [Request.Load].
type Load struct {
	Input int64 // tokens
	// Answers is how often as many tokens may come as a request allows, and
	// Beside how many more with each. Bounded says that a request bounds them.
	Answers, Beside int64
	Bounded         bool
	// Percent is what the way of serving makes of the price of a token.
	Percent int64
	// Cache says that the input may be put into a cache, and LongCache into one that costs twice.
	Cache, LongCache bool
	// Sound says that sound goes in or out, whose tokens have another price.
	Sound bool
	// Fees are for uses of tools that the provider bills apart.
	Fees budget.Micros
}

// What nobody bounds: how many tokens any context has, a picture that goes in
// at most (at the detail low) and one that comes out; what a server adds to
// the input of its own, for tools or to be safe; the tokens of sound for a byte of what is said.
const (
	maxContext   = 2_000_000
	pictureIn    = 50_000
	pictureInLow = 3_000
	pictureOut   = 32_000
	added        = 1_000
	soundOut     = 8
	transcript   = 16_384
)

// maxTokens is more than any answer has, and little enough to count with.
const maxTokens = 1 << 40

// Load returns the most that r can be billed by a provider whose model has this
// context; 0 is not known. It refuses, with Invalid, what may be billed in a way
// that is not known here, unless allow says of its name that it costs nothing
// more.
func (r Request) Load(context int, allow func(name string) bool) (Load, error) {
	limit := int64(context)
	if limit <= 0 {
		limit = maxContext
	}
	m := measure{limit: limit, allow: allow, load: Load{Percent: 100, Input: int64(len(r.Body.Bytes()))}}
	m.best, m.prompts = max(r.Choices, 1), 1
	for name, value := range r.Body.All() {
		if string(value) == "null" {
			continue
		}
		tree, err := tree(name, value)
		if err == nil {
			err = m.field(r, name, value, tree)
		}
		if err != nil {
			return Load{}, err
		}
	}
	l := &m.load
	l.Answers = saturated(saturated(m.best, m.prompts), m.uses+1)
	if limit = saturated(limit, m.prompts); m.fills {
		l.Input = limit
	}
	l.Input = min(l.Input, limit) + saturated(m.uses, limit)
	switch r.Kind {
	case Chat, Complete:
		l.Bounded = true
	case Embeddings:
		l.Answers = 0
	case Image:
		l.Beside = pictureOut
	case Speak:
		l.Beside = saturated(soundOut, l.Input)
	case Transcribe:
		l.Beside = min(l.Input, transcript)
	}
	return *l, nil
}

// Usage is what l comes to if an answer may have so many tokens.
func (l Load) Usage(tokens int64) Usage {
	if !l.Bounded {
		tokens = 0
	}
	return Usage{Input: l.Input, Output: saturated(min(tokens, maxTokens)+l.Beside, l.Answers)}
}

// Most is the most that l comes to at p, which is a price that [Load.Price] gave,
// if an answer may have so many tokens.
func (l Load) Most(p Price, tokens int64) budget.Micros {
	u := l.Usage(tokens)
	most := Price{Input: max(p.Input, p.Cached, p.Write), Output: p.Output}.Cost(u)
	if p.Long != nil && u.Input > p.LongOver {
		most = max(most, Load{Bounded: l.Bounded, Input: l.Input, Answers: l.Answers, Beside: l.Beside}.Most(*p.Long, tokens))
	}
	return min(most+l.Fees, budget.Most)
}

// Price is what a million tokens of a request cost where they cost p otherwise.
func (l Load) Price(p Price) Price {
	if l.Cache && p.Write <= 0 { // as Anthropic has it
		p.Write = min(p.Input+p.Input/4+1, budget.Most)
	}
	if l.LongCache {
		p.Write = max(p.Write, min(2*p.Input, budget.Most))
	}
	if l.Percent != 100 {
		for _, m := range []*budget.Micros{&p.Input, &p.Cached, &p.Output, &p.Write} {
			*m = times(int64(*m), budget.Micros(l.Percent)*perPrice/100)
		}
	}
	if p.Long != nil {
		long := l.Price(*p.Long)
		p.Long = &long
	}
	return p
}

func saturated(a, b int64) int64 {
	if a <= 0 || b <= 0 {
		return 0
	}
	if a > math.MaxInt64/2/b {
		return math.MaxInt64 / 2
	}
	return a * b
}
