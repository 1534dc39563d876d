package compute

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"

	"agent9/fsys"
	"agent9/namespace/budget"
	provider "agent9/providers/compute"
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
	// DefaultMaxCost is held for a request whose cost cannot be estimated.
	DefaultMaxCost budget.Micros `json:"default_max_cost_microusd"`
	// MaxCostRequired refuses requests without max_cost_microusd, but of a
	// free provider.
	MaxCostRequired bool `json:"max_cost_required"`
	// Prices are for a million tokens, by glob of the model's name. The
	// longest glob that matches counts, before what a provider says.
	Prices map[string]provider.Price `json:"prices"`
	// MaxConcurrent jobs run at once, and MaxQueued more may wait.
	MaxConcurrent int `json:"max_concurrent"`
	MaxQueued     int `json:"max_queued"`
	// DefaultTimeout is for requests without timeout_ms.
	DefaultTimeout int64 `json:"default_timeout_ms"`
}

// defaultPolicy holds until a policy is written, and for the fields that it
// does not have.
func defaultPolicy() Policy {
	return Policy{
		AllowProviders: []string{},
		BlockProviders: []string{},
		AllowModels:    []string{},
		BlockModels:    []string{},
		DefaultMaxCost: 100_000,
		Prices:         map[string]provider.Price{},
		MaxConcurrent:  16,
		MaxQueued:      1024,
		DefaultTimeout: 3_600_000,
	}
}

// maxTimeout is a day, in milliseconds.
const maxTimeout = 24 * 3_600_000

func (p *Policy) limits() limits { return limits{p.MaxConcurrent, p.MaxQueued} }

// parsePolicy reads a policy strictly.
func parsePolicy(doc []byte) (Policy, error) {
	p := defaultPolicy()
	d := json.NewDecoder(bytes.NewReader(doc))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return Policy{}, fsys.Wrap(fsys.Invalid, "policy", err)
	}
	if d.More() {
		return Policy{}, fsys.E(fsys.Invalid, "policy: there is more after the JSON object")
	}
	return p, p.check()
}

func (p *Policy) check() error {
	for _, f := range []struct {
		name     string
		n        int64
		min, max int64
	}{
		{"default_max_cost_microusd", int64(p.DefaultMaxCost), 0, int64(budget.Most)},
		{"max_concurrent", int64(p.MaxConcurrent), 1, 10_000},
		{"max_queued", int64(p.MaxQueued), 0, 100_000},
		{"default_timeout_ms", p.DefaultTimeout, 1, maxTimeout},
	} {
		if f.n < f.min || f.n > f.max {
			return fsys.E(fsys.Invalid, fmt.Sprintf("policy: %s is from %d to %d, not %d", f.name, f.min, f.max, f.n))
		}
	}
	globs := slices.Concat(p.AllowProviders, p.BlockProviders, p.AllowModels, p.BlockModels)
	for glob, price := range p.Prices {
		globs = append(globs, glob)
		for _, m := range []budget.Micros{price.Input, price.Cached, price.Output} {
			if m < 0 || m > budget.Most {
				return fsys.E(fsys.Invalid, fmt.Sprintf("policy: the price of %s is from 0 to %d for a million tokens, not %d", glob, budget.Most, m))
			}
		}
	}
	for _, glob := range globs {
		if _, err := path.Match(glob, ""); err != nil || glob == "" {
			return fsys.E(fsys.Invalid, fmt.Sprintf("policy: %q is not a pattern for names", glob))
		}
	}
	return nil
}

func allowed(allow, block []string, name string) bool {
	match := func(glob string) bool { return provider.Match(glob, name) }
	return !slices.ContainsFunc(block, match) && (len(allow) == 0 || slices.ContainsFunc(allow, match))
}

// priceOf returns the price of a model, or nil if nobody knows it.
func (p *Policy) priceOf(m provider.Model) *provider.Price {
	best := ""
	for glob := range p.Prices {
		if provider.Match(glob, m.Name) && (len(glob) > len(best) || len(glob) == len(best) && glob < best) {
			best = glob
		}
	}
	if best == "" {
		return m.Price
	}
	price := p.Prices[best]
	return &price
}

func (s *Service) readPolicy(ctx context.Context, st store.Store) (Policy, error) {
	doc, err := st.Get(ctx, policyKey)
	if missing(err) {
		return defaultPolicy(), nil
	}
	if err != nil {
		return Policy{}, err
	}
	return parsePolicy(doc)
}

func (s *Service) loadPolicy(ctx context.Context) ([]byte, error) {
	p, err := s.readPolicy(ctx, s.st)
	if err != nil {
		return nil, err
	}
	return fsys.Line(p), nil
}

func (s *Service) savePolicy(ctx context.Context, doc []byte) error {
	p, err := parsePolicy(doc)
	if err != nil {
		return err
	}
	if p.DefaultProvider != "" && s.provider(p.DefaultProvider) == nil {
		return fsys.E(fsys.Invalid, "policy: default_provider: "+s.noProvider(p.DefaultProvider))
	}
	return s.st.Update(ctx, func(tx store.Store) error {
		if err := store.PutJSON(ctx, tx, policyKey, p); err != nil {
			return err
		}
		store.After(tx, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.limit = p.limits()
			s.dispatch()
		})
		return s.config.Note(tx, "compute.policy", p)
	})
}
