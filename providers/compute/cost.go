package compute

import (
	"math/bits"

	"agent9/namespace/budget"
)

// perPrice is how many tokens a Price is for.
const perPrice = 1_000_000

// Cost is what u comes to at p, rounded up to a whole micro-dollar, and never
// more than budget.Most.
func (p Price) Cost(u Usage) budget.Micros {
	if p.Long != nil && u.Input > p.LongOver {
		return p.Long.Cost(u)
	}
	write := p.Write
	if write <= 0 {
		write = p.Input
	}
	input := max(u.Input, 0)
	cached := min(max(u.Cached, 0), input)
	written := min(max(u.Written, 0), input-cached)
	var sum product
	sum.add(input-cached-written, p.Input)
	sum.add(cached, p.Cached)
	sum.add(written, write)
	sum.add(u.Output, p.Output)
	return min(sum.cost()+max(u.Fees, 0), budget.Most)
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
