package compute

import (
	"math/bits"

	"agent9/namespace/budget"
)

// perPrice is how many tokens a Price is for.
const perPrice = 1_000_000

// Cost is what u comes to at p: each kind of token rounded up to a whole
// micro-dollar, and never more than budget.Most.
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
	parts := [...]struct {
		tokens int64
		price  budget.Micros
	}{{input - cached - written, p.Input}, {cached, p.Cached}, {written, write}, {u.Output, p.Output}}
	var sum budget.Micros
	for _, part := range parts {
		sum = min(sum+times(part.tokens, part.price), budget.Most)
	}
	return sum
}

// times is what tokens cost, from 0 to budget.Most.
func times(tokens int64, price budget.Micros) budget.Micros {
	hi, lo := bits.Mul64(uint64(max(tokens, 0)), uint64(max(price, 0)))
	if hi >= perPrice {
		return budget.Most
	}
	cost, rest := bits.Div64(hi, lo, perPrice)
	if rest > 0 {
		cost++
	}
	return budget.Micros(min(cost, uint64(budget.Most)))
}
