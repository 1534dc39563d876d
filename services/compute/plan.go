package compute

import (
	"context"
	"slices"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/models"
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
		if !c.free && p.MaxCostRequired {
			return plan{}, fsys.E(fsys.Invalid, "the policy wants max_cost_microusd in every request")
		}
		pl.max = max(pl.max, c.most)
	}
	return pl, nil
}

// candidates returns the providers that may do sub, the preferred one first.
func (s *Service) candidates(p Policy, sub *submission) ([]*models.Runner, error) {
	runners := slices.Clone(s.config.Providers)
	if id := sub.provider; id != "" {
		if s.config.Providers.Get(id) == nil {
			return nil, fsys.E(fsys.Invalid, s.config.Providers.None(id))
		}
		runners = []*models.Runner{s.config.Providers.Get(id)}
	} else if i := slices.Index(runners, s.config.Providers.Get(p.DefaultProvider)); i > 0 {
		first := runners[i]
		runners = slices.Insert(slices.Delete(runners, i, i+1), 0, first)
	}
	runners = slices.DeleteFunc(runners, func(r *models.Runner) bool {
		return !allowed(p.AllowProviders, p.BlockProviders, r.ID())
	})
	if len(runners) == 0 && sub.provider != "" {
		return nil, fsys.E(fsys.Permission, "the policy does not allow the provider "+sub.provider)
	}
	if len(runners) == 0 {
		return nil, fsys.E(fsys.Permission, "the policy allows no provider")
	}
	runners = slices.DeleteFunc(runners, func(r *models.Runner) bool { return !r.Can(sub.req.Kind) })
	if len(runners) == 0 {
		return nil, fsys.E(fsys.Invalid, "no provider here can do work of kind "+string(sub.req.Kind))
	}
	return runners, nil
}
