package models

import (
	"math/bits"

	"agent9/namespace/budget"
)

// perPrice is how many tokens a Price is for.
const perPrice = 1_000_000

// absurd is how many times what was held for a request a provider may say that it
// cost.
const absurd = 10

// Bill is what a request costs for which held was set aside, if its provider says
// that it used u. What was counted costs what it comes to at p, and what was not
// (or p is nil) all that was held. A cost that the provider states counts if it
// is more than that; one above ten times what was held is not believed, nor is
// then what it counted.
func (p *Price) Bill(u Usage, held budget.Micros) budget.Micros {
	believed := u.Cost <= times(absurd*perPrice, held)
	if u.Estimated || p == nil || !believed {
		held = u.Served(held)
	} else {
		held = p.Cost(u)
	}
	if believed {
		held = max(held, u.Cost)
	}
	return held
}

// Cost is what u comes to at p, in which a price of 0 for cached input is that of
// input, and what is written to the cache costs no less than input. It is rounded
// up to a whole micro-dollar, and never more than budget.Most.
func (p Price) Cost(u Usage) budget.Micros {
	if p.Long != nil && u.Input > p.LongOver {
		return p.Long.Cost(u)
	}
	input := max(u.Input, 0)
	cached := min(max(u.Cached, 0), input)
	read := p.Cached
	if read <= 0 {
		read = p.Input
	}
	written := min(max(u.Written, 0), input-cached)
	var sum product
	sum.add(input-cached-written, p.Input)
	sum.add(cached, read)
	sum.add(written, max(p.Write, p.Input))
	sum.add(u.Output, p.Output)
	return min(u.Served(sum.cost())+max(u.Fees, 0), budget.Most)
}

// Served is what u comes to, whose tokens come to cost as they were asked for.
func (u Usage) Served(cost budget.Micros) budget.Micros {
	if u.Percent <= 100 {
		return cost
	}
	return times(int64(cost), budget.Micros(min(u.Percent, maxTokens))*perPrice/100)
}

// How many bytes of an answer may be a token, and a few more in all: most
// tokens have about four.
const (
	perToken = 16
	spare    = 1 << 10
)

// Exceeds reports whether so many bytes of answers are more than so many tokens
// can be.
func Exceeds(bytes, tokens int64) bool { return (bytes-spare)/perToken > tokens }

// counts reports whether u can be what a provider counted for work of kind whose
// answer has so many bytes. What cannot is as if nobody had counted.
func (u Usage) counts(kind Kind, bytes int64) bool {
	switch {
	case u.Cached > u.Input || u.Written > u.Input-u.Cached:
		return false
	case u.Input == 0: // every request has a prompt
		return false
	case kind == Image:
		return u.Output > 0
	}
	return (bytes == 0 || u.Output > 0) && !Exceeds(bytes, u.Output)
}

// fits reports whether so many tokens fit into the contexts that req can fill.
func (u Usage) fits(req Request) bool {
	if max(u.Input, u.Output) <= maxContext {
		return true
	}
	l, err := req.Load(0, func(string) bool { return true })
	return err == nil && max(u.Input, u.Output) <= saturated(max(l.Answers, 1), maxContext)
}

// judged is u, which a driver says that req was whose answer has so many bytes as
// yet, or an estimate if that cannot be. Nothing at all may be what an answer
// without a byte used that did not come to its end.
func (u Usage) judged(req Request, bytes int, ended bool) Usage {
	negative := min(u.Input, u.Output, u.Cached, u.Written, int64(u.Fees), int64(u.Cost)) < 0
	switch {
	case u == (Usage{}) && bytes == 0 && !ended:
		return u
	case negative, !u.Estimated && (!u.counts(req.Kind, int64(bytes)) || !u.fits(req)):
		e := Estimate(req, bytes)
		e.Percent = u.Percent
		return e
	}
	return u
}

// WithOutput returns p for an answer of text: one that costs input, and nothing
// for output, is not meant, and costs as much.
func (p Price) WithOutput() Price {
	if p.Output <= 0 {
		p.Output = p.Input
	}
	if p.Long != nil {
		long := p.Long.WithOutput()
		p.Long = &long
	}
	return p
}

// product is a sum of tokens × price, of which perPrice are a micro-dollar.
type product struct{ hi, lo uint64 }

func (s *product) add(tokens int64, price budget.Micros) {
	hi, lo := bits.Mul64(uint64(max(tokens, 0)), uint64(max(price, 0)))
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, lo, 0)
	s.hi += hi + carry
}

func (s *product) cost() budget.Micros {
	if s.hi >= perPrice {
		return budget.Most
	}
	cost, rest := bits.Div64(s.hi, s.lo, perPrice)
	if rest > 0 {
		cost++
	}
	return budget.Micros(min(cost, uint64(budget.Most)))
}

// times is what tokens cost, from 0 to budget.Most.
func times(tokens int64, price budget.Micros) budget.Micros {
	var s product
	s.add(tokens, price)
	return s.cost()
}
