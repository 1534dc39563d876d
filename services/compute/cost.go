package compute

import (
	"fmt"
	"sort"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/models"
)

// measure says what the request of c can make its provider bill, and what a
// token of it costs, or why that cannot be known.
func (c *candidate) measure(p Policy, own bool) (err error) {
	if c.list == nil {
		return fsys.E(fsys.Invalid, "the price of the model "+c.model.Name+" is not known; set prices or default_price in compute/policy, or, for a server that costs nothing, start agentd with --compute "+c.runner.ID()+"=openai,price=0:URL")
	}
	c.load, err = c.req.Load(c.model.Context, func(name string) bool { return len(p.AllowFields) > 0 && allowed(p.AllowFields, nil, name) })
	if err != nil {
		return err
	}
	if c.load.Sound && !own {
		return fsys.E(fsys.Invalid, "the price of sound is not known; set one for "+c.model.Name+" among prices in compute/policy")
	}
	list := *c.list
	if own && c.req.Kind != models.Embeddings {
		list = list.WithOutput()
	}
	price := c.load.Price(list)
	c.price = &price
	if c.load.Bounded && c.req.MaxOutput == 0 {
		c.bound = p.DefaultMaxTokens
		if context := int64(c.model.Context); context > 0 {
			c.bound = max(min(c.bound, max(context-c.load.Input, context/4)), 1)
		}
	}
	return nil
}

// within returns c with a request that can cost no more than money, or refuses
// it: this is the one place that says what may be asked for how much. An answer
// of which the request does not say how long it may be is as long as money
// allows, and its bound is in the request that goes out.
func (c candidate) within(money budget.Micros) (candidate, error) {
	if c.free {
		return c, nil
	}
	tokens := c.req.MaxOutput
	if c.bound > 0 {
		most := sort.Search(int(c.bound), func(n int) bool { return c.load.Most(*c.price, int64(n)+1) > money })
		tokens = max(int64(most), 1)
		c.bound, c.req = tokens, c.req.Bounded(tokens)
	}
	c.most = c.load.Most(*c.price, tokens)
	if c.most <= money {
		return c, nil
	}
	if c.bound > 0 {
		return c, fsys.E(fsys.Invalid, fmt.Sprintf("with an answer of one token the request may cost %s, and %s is the most it may", c.most.Dollars(), money.Dollars()))
	}
	return c, fsys.E(fsys.Invalid, fmt.Sprintf("the request may cost %s, and %s is the most it may; allow it more, or fewer tokens", c.most.Dollars(), money.Dollars()))
}

// cost is what usage comes to: see the package's documentation.
func (r *record) cost(u models.Usage) budget.Micros {
	if r.Free {
		return 0
	}
	return r.Price.Bill(u, r.Held)
}
