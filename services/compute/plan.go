package compute

import (
	"context"
	"slices"

	"agent9/fsys"
	"agent9/namespace/budget"
	provider "agent9/providers/compute"
)

// plan is who does a request, and what that may cost.
type plan struct {
	chain   []candidate // in the order in which they are asked; at least one
	max     budget.Micros
	timeout int64
	retry   retry
	rates   rates
}

// plan decides who does sub, and refuses what nobody can or may do.
func (s *Service) plan(ctx context.Context, p Policy, sub *submission) (plan, error) {
	chain, err := s.chain(ctx, p, sub)
	if err != nil {
		return plan{}, err
	}
	pl := plan{chain: chain, timeout: sub.timeout, retry: p.retry(), rates: p.rates()}
	if pl.timeout == 0 {
		pl.timeout = p.DefaultTimeout
	}
	if sub.maxCost != nil {
		pl.max = *sub.maxCost
		return pl, nil
	}
	for _, c := range chain {
		switch {
		case c.free:
		case p.MaxCostRequired:
			return plan{}, fsys.E(fsys.Invalid, "the policy wants max_cost_microusd in every request")
		default:
			pl.max = max(pl.max, c.estimate(p.DefaultMaxCost))
		}
	}
	return pl, nil
}

// maxTokens is more than any answer has, and little enough to count with.
const maxTokens = 1 << 40

// estimate is the most that the tokens of a request come to: one for every
// byte of its text and for every three of the rest of it, and as many as it
// may be answered with. Without a price or a bound it is otherwise.
func (c candidate) estimate(otherwise budget.Micros) budget.Micros {
	bound := min(c.req.MaxOutput, maxTokens)
	if bound == 0 {
		bound = min(int64(c.model.Context), maxTokens)
	}
	if c.price == nil || bound == 0 && c.req.Kind != provider.Embeddings {
		return otherwise
	}
	text := len(c.req.Prompt)
	for _, msg := range c.req.Messages {
		text += len(msg.Text)
	}
	in := int64(text + (len(c.req.Body.Bytes())-text)/3)
	if c.model.Context > 0 {
		in = min(in, int64(c.model.Context))
	}
	if c.req.Kind == provider.Embeddings {
		bound = 0
	}
	return c.price.Cost(provider.Usage{Input: in, Output: bound * c.req.Choices})
}

// candidates returns the providers that may do sub, the preferred one first.
func (s *Service) candidates(p Policy, sub *submission) ([]*provider.Runner, error) {
	runners := slices.Clone(s.config.Providers)
	if id := sub.provider; id != "" {
		if s.config.Providers.Get(id) == nil {
			return nil, fsys.E(fsys.Invalid, s.config.Providers.None(id))
		}
		runners = []*provider.Runner{s.config.Providers.Get(id)}
	} else if i := slices.Index(runners, s.config.Providers.Get(p.DefaultProvider)); i > 0 {
		first := runners[i]
		runners = slices.Insert(slices.Delete(runners, i, i+1), 0, first)
	}
	runners = slices.DeleteFunc(runners, func(r *provider.Runner) bool {
		return !allowed(p.AllowProviders, p.BlockProviders, r.ID())
	})
	if len(runners) == 0 && sub.provider != "" {
		return nil, fsys.E(fsys.Permission, "the policy does not allow the provider "+sub.provider)
	}
	if len(runners) == 0 {
		return nil, fsys.E(fsys.Permission, "the policy allows no provider")
	}
	runners = slices.DeleteFunc(runners, func(r *provider.Runner) bool { return !r.Can(sub.req.Kind) })
	if len(runners) == 0 {
		return nil, fsys.E(fsys.Invalid, "no provider here can do work of kind "+string(sub.req.Kind))
	}
	return runners, nil
}
