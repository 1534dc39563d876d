package compute

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"sync"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/models"
)

// candidate is a model of a provider that may do a request.
type candidate struct {
	runner *models.Runner
	model  models.Model
	req    models.Request // for this model
	free   bool
	list   *models.Price // of the model; nil: not known
	price  *models.Price // for this request: what its way of serving makes of list
	load   models.Load   // of what is not free
	most   budget.Micros // that req can cost; see [candidate.within]
	bound  int64         // tokens of the answer, where sub does not say how many
	wrong  error         // why it cannot be asked for money
	listed bool          // it is there because the policy's fallback names it
}

// maxChain is how many candidates a request may have.
const maxChain = 8

// offer is what a provider says that it has.
type offer struct {
	runner  *models.Runner
	catalog models.Catalog
}

// chain returns who may do sub, in the order in which they are asked; at least
// one.
func (s *Service) chain(ctx context.Context, p Policy, sub *submission) ([]candidate, error) {
	runners, err := s.candidates(p, sub)
	if err != nil {
		return nil, err
	}
	offers := ask(ctx, runners)
	chain, err := wanted(p, offers, sub)
	if err != nil {
		return nil, err
	}
	for i := range chain {
		chain[i].complete(p, sub)
	}
	prefer(p.Prefer, chain)
	if sub.provider == "" {
		chain = append(chain, fallbacks(p, offers, sub)...)
	}
	return affordable(p, sub, distinct(chain))
}

// ask asks all of runners at once what they have.
func ask(ctx context.Context, runners []*models.Runner) []offer {
	offers := make([]offer, len(runners))
	var asked sync.WaitGroup
	for i, r := range runners {
		asked.Go(func() { offers[i] = offer{r, r.Catalog(ctx)} })
	}
	asked.Wait()
	return offers
}

// wanted returns who has what sub asks for.
func wanted(p Policy, offers []offer, sub *submission) ([]candidate, error) {
	if name := sub.req.Model; name != "" {
		return named(p, offers, sub, name)
	}
	if p.DefaultModel != "" && sub.req.Kind == models.Chat {
		chain, err := named(p, offers, sub, p.DefaultModel)
		if err == nil || sub.provider == "" {
			return chain, err
		}
	}
	var chain []candidate
	for i, o := range offers {
		m, ok := o.first(p, sub)
		if ok || i == 0 {
			chain = append(chain, candidate{runner: o.runner, model: m})
		}
	}
	return chain, nil
}

// first returns the first model that fits a request that names none, or the
// nameless one, which is whatever the provider takes for its own.
func (o offer) first(p Policy, sub *submission) (models.Model, bool) {
	for _, m := range o.catalog.Models {
		if m.Name != "*" && does(m, sub.req.Kind) && allowed(p.AllowModels, p.BlockModels, m.Name) {
			return m, true
		}
	}
	return models.Model{}, false
}

// does reports whether m does work of a kind, as far as that is known.
func does(m models.Model, kind models.Kind) bool {
	return m.Kinds == nil || slices.Contains(m.Kinds, kind)
}

// named returns who has the model called name: those who list it, else those
// who take any name, else those who cannot tell now what they have.
func named(p Policy, offers []offer, sub *submission, name string) ([]candidate, error) {
	var groups [3][]candidate
	var have []string
	other := false
	for _, o := range offers {
		m, ok := o.catalog.Find(name)
		switch {
		case ok && o.catalog.Lists(m.Name):
			if !does(m, sub.req.Kind) {
				other = true
				continue
			}
			groups[0] = append(groups[0], candidate{runner: o.runner, model: m.Named(name)})
		case ok:
			groups[1] = append(groups[1], candidate{runner: o.runner, model: models.Model{Name: name}})
		case !o.catalog.Known:
			groups[2] = append(groups[2], candidate{runner: o.runner, model: models.Model{Name: name}})
		}
		for _, m := range o.catalog.Models {
			have = append(have, m.Name)
		}
	}
	i := slices.IndexFunc(groups[:], func(g []candidate) bool { return len(g) > 0 })
	switch {
	case i < 0 && other:
		return nil, fsys.E(fsys.Invalid, "the model "+name+" cannot do work of kind "+string(sub.req.Kind))
	case i < 0:
		return nil, fsys.E(fsys.Invalid, "no provider here has the model "+name+"; there are: "+some(have))
	case !allowed(p.AllowModels, p.BlockModels, name):
		return nil, fsys.E(fsys.Permission, "the policy does not allow the model "+name)
	}
	return groups[i], nil
}

// fallbacks are the candidates that the policy names, as far as they are there
// and allowed.
func fallbacks(p Policy, offers []offer, sub *submission) []candidate {
	var chain []candidate
	for _, f := range p.Fallback {
		as := *sub
		if f.Model != "" {
			as.req.Model = f.Model
		}
		of := offers
		if f.Provider != "" {
			of = slices.DeleteFunc(slices.Clone(offers), func(o offer) bool { return o.runner.ID() != f.Provider })
		}
		if len(of) == 0 {
			continue
		}
		more, err := wanted(p, of, &as)
		if err != nil {
			continue
		}
		for i := range more {
			more[i].listed = true
			more[i].complete(p, sub)
		}
		chain = append(chain, more...)
	}
	return chain
}

// complete adds to c what follows from the model.
func (c *candidate) complete(p Policy, sub *submission) {
	c.named(sub)
	var own bool
	if c.list, c.free, own = p.priceOf(c.runner.Info().Free, c.model); !c.free {
		c.wrong = c.measure(p, own)
	}
}

// named makes the request of c one for its model.
func (c *candidate) named(sub *submission) {
	c.req = sub.req
	if c.model.Name != sub.req.Model {
		c.req = sub.req.WithModel(c.model.Name)
	}
}

// distinct takes away who is there a second time, and who is too many.
func distinct(chain []candidate) []candidate {
	var out []candidate
	for _, c := range chain {
		i := slices.IndexFunc(out, func(d candidate) bool { return d.runner == c.runner && d.model.Name == c.model.Name })
		switch {
		case i >= 0:
			out[i].listed = out[i].listed || c.listed
		case len(out) < maxChain:
			out = append(out, c)
		}
	}
	return out
}

// affordable takes away who may not be asked for what it costs: of whom nobody
// knows how much that is, or whom max_cost_microusd does not pay; and, behind one
// that is free, who is not, unless the request or the policy says so.
func affordable(p Policy, sub *submission, chain []candidate) ([]candidate, error) {
	most := budget.Most
	if sub.maxCost != nil {
		most = *sub.maxCost
	}
	var why error
	var able []candidate
	for _, c := range chain {
		if !c.free && chain[0].free && sub.maxCost == nil && !c.listed {
			continue
		}
		err := c.wrong
		if err == nil {
			c, err = c.within(most)
		}
		if err == nil {
			able = append(able, c)
		} else if why == nil {
			why = err
		}
	}
	if len(able) == 0 {
		return nil, why
	}
	return able, nil
}

// The orders in which those who have a model may be asked.
const (
	preferCost    = "cost"    // the cheapest first; an unknown price last
	preferLatency = "latency" // the first to answer first, who was not measured before
	preferQuality = "quality" // in the order in which the operator gave them
)

// prefer brings chain in order. Those who are equal stay as they are.
func prefer(how string, chain []candidate) {
	switch how {
	case preferCost:
		slices.SortStableFunc(chain, func(a, b candidate) int { return cmp.Compare(a.typical(), b.typical()) })
	case preferLatency:
		slices.SortStableFunc(chain, func(a, b candidate) int {
			l, _ := a.runner.Latency(a.model.Name)
			m, _ := b.runner.Latency(b.model.Name)
			return cmp.Compare(l.First, m.First)
		})
	}
}

// typical is what c would cost, to compare it with others: with an answer of a
// thousand tokens, or as many as the request allows.
func (c candidate) typical() budget.Micros {
	switch {
	case c.free:
		return 0
	case c.price == nil:
		return math.MaxInt64
	}
	u := models.Estimate(c.req, 0)
	if u.Output = 1000; c.req.MaxOutput > 0 {
		u.Output = c.req.MaxOutput
	}
	return c.price.Cost(u)
}

// some returns the first of names, for a reason.
func some(names []string) string {
	const most = 20
	if len(names) > most {
		return strings.Join(names[:most], ", ") + " …"
	}
	return strings.Join(names, ", ")
}
