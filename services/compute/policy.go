package compute

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/models"
	"agent9/services/internal/work"
	"agent9/store"
)

// Policy says what may be asked of whom. Names are globs, in which * is any
// text; what is blocked is not allowed by anything, and an empty list of what
// is allowed allows all.
type Policy struct {
	DefaultProvider string   `json:"default_provider"`
	DefaultModel    string   `json:"default_model"`
	AllowProviders  []string `json:"allow_providers"`
	BlockProviders  []string `json:"block_providers"`
	AllowModels     []string `json:"allow_models"`
	BlockModels     []string `json:"block_models"`
	// DefaultMaxTokens bounds the answer to a request that does not, and that
	// may cost money.
	DefaultMaxTokens int64 `json:"default_max_tokens"`
	// AllowFields are names of fields of requests that cost nothing more than
	// their tokens, as the operator knows: see [models.Request.Load].
	AllowFields []string `json:"allow_fields"`
	// MaxCostRequired refuses requests without max_cost_microusd, but of a
	// free provider.
	MaxCostRequired bool `json:"max_cost_required"`
	// Prices are for a million tokens, by glob of the model's name. The
	// longest glob that matches counts, before what a provider says.
	Prices map[string]models.Price `json:"prices"`
	// DefaultPrice is that of a model of which no price is known; null is
	// none: such a model is refused, but of a free provider.
	DefaultPrice *models.Price `json:"default_price"`
	// Prefer is the order in which those who have a model are asked: cost,
	// latency, or quality, which is the order in which providers were given.
	Prefer string `json:"prefer"`
	// Fallback are asked after those, unless the request names a provider.
	Fallback []Fallback `json:"fallback"`
	// MaxAttempts is how often a provider is asked for a job in all, and
	// MaxRetryWait the longest that a job waits before it asks again.
	MaxAttempts  int   `json:"max_attempts"`
	MaxRetryWait int64 `json:"max_retry_wait_ms"`
	// MaxConcurrent jobs run at once, and MaxQueued more may wait.
	MaxConcurrent int `json:"max_concurrent"`
	MaxQueued     int `json:"max_queued"`
	// RequestsPerMinute and TokensPerMinute bound what is asked for in any
	// minute; 0 is no bound. The tokens of an answer count when it is there.
	RequestsPerMinute int64 `json:"requests_per_minute"`
	TokensPerMinute   int64 `json:"tokens_per_minute"`
	// DefaultTimeout is for requests without timeout_ms.
	DefaultTimeout int64 `json:"default_timeout_ms"`
	// IdempotencyTTL is how long a key stands for its job.
	IdempotencyTTL work.Duration `json:"idempotency_ttl"`
	// Of jobs that have ended, those of the last KeepResults are kept, and no
	// more than KeepBytes of them.
	KeepResults work.Duration `json:"keep_results"`
	KeepBytes   int64         `json:"keep_bytes"`

	unpriced []string // of Prices and DefaultPrice, those that [storedPolicy] left out
}

// A Fallback is a provider, or any that has the model; without a model it is
// for the one that was asked for.
type Fallback struct {
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
}

// defaultPolicy holds until a policy is written, and for the fields that it
// does not have.
func defaultPolicy() Policy {
	return Policy{
		AllowProviders:   []string{},
		BlockProviders:   []string{},
		AllowModels:      []string{},
		BlockModels:      []string{},
		AllowFields:      []string{},
		DefaultMaxTokens: 8192,
		Prices:           map[string]models.Price{},
		Prefer:           preferQuality,
		Fallback:         []Fallback{},
		MaxAttempts:      4,
		MaxRetryWait:     60_000,
		MaxConcurrent:    16,
		MaxQueued:        1024,
		DefaultTimeout:   3_600_000,
		IdempotencyTTL:   work.Duration(work.Day),
		KeepResults:      work.Duration(30 * work.Day),
		KeepBytes:        1 << 30,
	}
}

// maxTimeout is a day, in milliseconds.
const maxTimeout = 24 * 3_600_000

// limit makes p hold for what comes, and for what waits.
func (s *Service) limit(p Policy) {
	s.mu.Lock()
	s.rates = p.rates()
	s.mu.Unlock()
	s.ledger.Crew.Limit(p.MaxConcurrent, p.MaxQueued)
}

func (p *Policy) rates() rates { return rates{p.RequestsPerMinute, p.TokensPerMinute} }

// parsePolicy reads a policy strictly.
func parsePolicy(doc []byte) (Policy, error) {
	p := defaultPolicy()
	if err := fsys.Strictly(doc, &p); err != nil {
		return Policy{}, fsys.Wrap(fsys.Invalid, "policy", err)
	}
	return p, p.check()
}

func (p *Policy) check() error {
	for _, f := range []struct {
		name     string
		n        int64
		min, max int64
	}{
		{"default_max_tokens", p.DefaultMaxTokens, 1, 1 << 40},
		{"max_attempts", int64(p.MaxAttempts), 1, 32},
		{"max_retry_wait_ms", p.MaxRetryWait, 0, 3_600_000},
		{"max_concurrent", int64(p.MaxConcurrent), 1, 10_000},
		{"max_queued", int64(p.MaxQueued), 0, 100_000},
		{"requests_per_minute", p.RequestsPerMinute, 0, 1 << 30},
		{"tokens_per_minute", p.TokensPerMinute, 0, 1 << 40},
		{"keep_bytes", p.KeepBytes, 0, 1 << 50},
		{"default_timeout_ms", p.DefaultTimeout, 1, maxTimeout},
	} {
		if f.n < f.min || f.n > f.max {
			return fsys.E(fsys.Invalid, fmt.Sprintf("policy: %s is from %d to %d, not %d", f.name, f.min, f.max, f.n))
		}
	}
	if !slices.Contains([]string{preferCost, preferLatency, preferQuality}, p.Prefer) {
		return fsys.E(fsys.Invalid, fmt.Sprintf("policy: prefer is cost, latency or quality, not %q", p.Prefer))
	}
	for _, f := range p.Fallback {
		if f == (Fallback{}) {
			return fsys.E(fsys.Invalid, "policy: a fallback needs a provider, a model, or both")
		}
	}
	if p.DefaultPrice != nil {
		if err := checkPrice("default_price", *p.DefaultPrice); err != nil {
			return err
		}
	}
	globs := slices.Concat(p.AllowProviders, p.BlockProviders, p.AllowModels, p.BlockModels, p.AllowFields)
	for glob, price := range p.Prices {
		globs = append(globs, glob)
		if err := checkPrice("the price of "+glob, price); err != nil {
			return err
		}
	}
	for _, glob := range globs {
		if _, err := path.Match(glob, ""); err != nil || glob == "" {
			return fsys.E(fsys.Invalid, fmt.Sprintf("policy: %q is not a pattern for names", glob))
		}
	}
	return nil
}

// whole checks that all prices of a policy that is written say what input and
// output cost: what is left out would cost nothing.
func whole(doc []byte) error {
	type price struct {
		Input  *json.RawMessage `json:"input_microusd"`
		Output *json.RawMessage `json:"output_microusd"`
		Long   *price           `json:"long"`
	}
	var p struct {
		Prices  map[string]*price `json:"prices"`
		Default *price            `json:"default_price"`
	}
	if err := json.Unmarshal(doc, &p); err != nil {
		return fsys.Wrap(fsys.Invalid, "policy", err)
	}
	if p.Prices == nil {
		p.Prices = make(map[string]*price)
	}
	if p.Default != nil {
		p.Prices["default_price"] = p.Default
	}
	for name, price := range p.Prices {
		if price == nil {
			return fsys.E(fsys.Invalid, "policy: the price of "+name+" is null; leave it out, or say what input and output cost")
		}
		for ; price != nil; price = price.Long {
			if price.Input == nil || price.Output == nil {
				return fsys.E(fsys.Invalid, "policy: the price of "+name+" needs input_microusd and output_microusd; what has no output, such as embeddings, has 0")
			}
		}
	}
	return nil
}

func checkPrice(what string, p models.Price) error {
	for _, m := range []budget.Micros{p.Input, p.Cached, p.Output, p.Write, budget.Micros(p.LongOver)} {
		if m < 0 || m > budget.Most {
			return fsys.E(fsys.Invalid, fmt.Sprintf("policy: %s is from 0 to %d for a million tokens, not %d", what, budget.Most, m))
		}
	}
	if p.Long != nil {
		return checkPrice(what, *p.Long)
	}
	return nil
}

func allowed(allow, block []string, name string) bool {
	match := func(glob string) bool { return models.Match(glob, name) }
	return !slices.ContainsFunc(block, match) && (len(allow) == 0 || slices.ContainsFunc(allow, match))
}

// priceOf returns the price of a model of a provider, or that it costs nothing:
// the policy's price, else none if the provider is free, else what it says, else
// what is publicly known, else the policy's default; nil if there is none. Own
// says that the price is the policy's.
func (p *Policy) priceOf(free bool, m models.Model) (price *models.Price, isFree, own bool) {
	best := ""
	for glob := range p.Prices {
		if models.Match(glob, m.Name) && (len(glob) > len(best) || len(glob) == len(best) && glob < best) {
			best = glob
		}
	}
	if best != "" {
		price := p.Prices[best]
		return &price, false, true
	}
	if free {
		return nil, true, false
	}
	if price := cmp.Or(m.Price, models.PriceOf(m.Name)); price != nil {
		return price, false, false
	}
	return p.DefaultPrice, false, true
}

// policies is the document at policyKey.
func policies() *work.Document[Policy] {
	return &work.Document[Policy]{Key: policyKey, Default: defaultPolicy, Parse: storedPolicy}
}

// stored is a policy as it is kept. Whole says that its prices say what they are,
// as [whole] has checked.
type stored struct {
	Policy
	Whole bool `json:"whole"`
}

// storedPolicy reads a policy that may have been written when there were more
// fields: a model without a price is always refused, and a bound of tokens has
// taken the place of one of money. A price may also have been written that said
// nothing, and be kept as one of 0: it is left out, as if it were not known.
func storedPolicy(doc []byte) (Policy, error) {
	body, err := models.ParseBody(doc)
	if err != nil {
		return parsePolicy(doc)
	}
	p, err := parsePolicy(body.Delete("default_max_cost_microusd").Delete("require_price").Delete("whole").Bytes())
	if err != nil || string(body.Get("whole")) == "true" {
		return p, err
	}
	for glob, price := range p.Prices {
		if saysNothing(price) {
			delete(p.Prices, glob)
			p.unpriced = append(p.unpriced, glob)
		}
	}
	if p.DefaultPrice != nil && saysNothing(*p.DefaultPrice) {
		p.DefaultPrice = nil
		p.unpriced = append(p.unpriced, "default_price")
	}
	slices.Sort(p.unpriced)
	return p, nil
}

func saysNothing(p models.Price) bool {
	return max(p.Input, p.Cached, p.Output, p.Write) == 0 || p.Long != nil && saysNothing(*p.Long)
}

func (s *Service) savePolicy(ctx context.Context, doc []byte) error {
	p, err := parsePolicy(doc)
	if err == nil {
		err = whole(doc)
	}
	if err != nil {
		return err
	}
	if p.DefaultProvider != "" && s.config.Providers.Get(p.DefaultProvider) == nil {
		return fsys.E(fsys.Invalid, "policy: default_provider: "+s.config.Providers.None(p.DefaultProvider))
	}
	for _, f := range p.Fallback {
		if f.Provider != "" && s.config.Providers.Get(f.Provider) == nil {
			return fsys.E(fsys.Invalid, "policy: fallback: "+s.config.Providers.None(f.Provider))
		}
	}
	return s.st.Update(ctx, func(tx store.Store) error {
		if err := store.PutJSON(ctx, tx, policyKey, stored{p, true}); err != nil {
			return err
		}
		store.After(tx, func() { s.limit(p) })
		return s.config.Note.Record(tx, "compute.policy", p)
	})
}
