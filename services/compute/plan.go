package compute

import (
	"context"
	"slices"
	"strings"

	"agent9/fsys"
	"agent9/namespace/budget"
	provider "agent9/providers/compute"
)

// plan is who does a request, and what that may cost.
type plan struct {
	runner  *provider.Runner
	req     provider.Request
	free    bool
	price   *provider.Price // nil: not known
	max     budget.Micros
	timeout int64
}

// plan decides who does sub, and refuses what nobody can or may do.
func (s *Service) plan(ctx context.Context, p Policy, sub *submission) (plan, error) {
	runners, err := s.candidates(p, sub)
	if err != nil {
		return plan{}, err
	}
	runner, model, err := s.choose(ctx, p, runners, sub)
	if err != nil {
		return plan{}, err
	}
	if !allowed(p.AllowModels, p.BlockModels, model.Name) {
		return plan{}, fsys.E(fsys.Permission, "the policy does not allow the model "+model.Name)
	}
	pl := plan{runner: runner, req: sub.req, free: runner.Info().Free, price: p.priceOf(model), timeout: sub.timeout}
	if model.Name != sub.req.Model {
		pl.req = sub.req.WithModel(model.Name)
	}
	if pl.timeout == 0 {
		pl.timeout = p.DefaultTimeout
	}
	switch {
	case sub.maxCost != nil:
		pl.max = *sub.maxCost
	case pl.free:
	case p.MaxCostRequired:
		return plan{}, fsys.E(fsys.Invalid, "the policy wants max_cost_microusd in every request")
	default:
		pl.max = estimate(pl, model, p.DefaultMaxCost)
	}
	return pl, nil
}

// maxTokens is more than any answer has, and little enough to count with.
const maxTokens = 1 << 40

// estimate is the most that the tokens of a request come to: one for every
// byte of its text and for every three of the rest of it, and as many as it
// may be answered with. Without a price or a bound it is otherwise.
func estimate(pl plan, m provider.Model, otherwise budget.Micros) budget.Micros {
	bound := min(pl.req.MaxOutput, maxTokens)
	if bound == 0 {
		bound = min(int64(m.Context), maxTokens)
	}
	if pl.price == nil || bound == 0 && pl.req.Kind != provider.Embeddings {
		return otherwise
	}
	text := len(pl.req.Prompt)
	for _, msg := range pl.req.Messages {
		text += len(msg.Text)
	}
	in := int64(text + (len(pl.req.Body.Bytes())-text)/3)
	if m.Context > 0 {
		in = min(in, int64(m.Context))
	}
	if pl.req.Kind == provider.Embeddings {
		bound = 0
	}
	return price(*pl.price, provider.Usage{Input: in, Output: bound * pl.req.Choices})
}

// candidates returns the providers that may do sub, the preferred one first.
func (s *Service) candidates(p Policy, sub *submission) ([]*provider.Runner, error) {
	runners := slices.Clone(s.config.Providers)
	if id := sub.provider; id != "" {
		if s.provider(id) == nil {
			return nil, fsys.E(fsys.Invalid, s.noProvider(id))
		}
		runners = []*provider.Runner{s.provider(id)}
	} else if i := slices.Index(runners, s.provider(p.DefaultProvider)); i > 0 {
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

// choose returns the first of runners that has the model that is asked for,
// and that model as it knows it. Who cannot tell now what it has may have it.
func (s *Service) choose(ctx context.Context, p Policy, runners []*provider.Runner, sub *submission) (*provider.Runner, provider.Model, error) {
	if sub.req.Model == "" {
		return s.chooseDefault(ctx, p, runners, sub)
	}
	return s.named(ctx, runners, sub.req.Model)
}

func (s *Service) named(ctx context.Context, runners []*provider.Runner, name string) (*provider.Runner, provider.Model, error) {
	var anyName, unknown *provider.Runner
	var have []string
	for _, r := range runners {
		c := r.Catalog(ctx)
		switch m, ok := c.Find(name); {
		case ok && c.Lists(m.Name):
			return r, m.Named(name), nil
		case ok && anyName == nil:
			anyName = r
		case !c.Known && unknown == nil:
			unknown = r
		}
		for _, m := range c.Models {
			have = append(have, m.Name)
		}
	}
	if anyName == nil {
		anyName = unknown
	}
	if anyName == nil {
		return nil, provider.Model{}, fsys.E(fsys.Invalid, "no provider here has the model "+name+"; there are: "+some(have))
	}
	return anyName, provider.Model{Name: name}, nil
}

// chooseDefault chooses for a request that names no model: the policy's, if it
// is for conversation, else the first that the first provider has for it, else
// whatever that takes for its own.
func (s *Service) chooseDefault(ctx context.Context, p Policy, runners []*provider.Runner, sub *submission) (*provider.Runner, provider.Model, error) {
	if p.DefaultModel != "" && sub.req.Kind == provider.Chat {
		r, m, err := s.named(ctx, runners, p.DefaultModel)
		if err == nil || sub.provider == "" {
			return r, m, err
		}
	}
	for _, m := range runners[0].Catalog(ctx).Models {
		fits := m.Kinds == nil || slices.Contains(m.Kinds, sub.req.Kind)
		if m.Name != "*" && fits && allowed(p.AllowModels, p.BlockModels, m.Name) {
			return runners[0], m, nil
		}
	}
	return runners[0], provider.Model{}, nil
}

// some returns the first of names, for a reason.
func some(names []string) string {
	const most = 20
	if len(names) > most {
		return strings.Join(names[:most], ", ") + " …"
	}
	return strings.Join(names, ", ")
}
