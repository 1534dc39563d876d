package containers

import (
	"math"
	"math/bits"
	"time"

	"agent9/namespace/budget"
)

// price is what a session costs, in micro-dollars: once, and for a second of
// its time, in parts of perSecond.
type price struct {
	Once budget.Micros `json:"once"`
	Rate uint64        `json:"rate"`
}

// perSecond is what a rate is divided by: MiB of a GiB, and milliseconds.
const perSecond = 1024 * 1000

func (p *Policy) price(l Limits) price {
	return price{p.PerSession, uint64(p.PerSecond)*1024 + uint64(p.PerGiBSecond)*uint64(l.Memory)}
}

// cost is what a session costs that ran for d.
func (p price) cost(d time.Duration) budget.Micros {
	high, low := bits.Mul64(p.Rate, uint64(max(d.Milliseconds(), 0)))
	if high >= perSecond {
		return budget.Most
	}
	n, rest := bits.Div64(high, low, perSecond)
	if rest > 0 {
		n++
	}
	return min(p.Once+budget.Micros(min(n, uint64(budget.Most))), budget.Most)
}

// cost is what r costs that ran for d: never more than what was held for it. The
// time in which its sandbox is ended is not billed.
func (r *record) cost(d time.Duration) budget.Micros { return min(r.Price.cost(d), r.Held) }

// lasts is how long a session may run for m.
func (p price) lasts(m budget.Micros) time.Duration {
	if p.Rate == 0 {
		return math.MaxInt64
	}
	high, low := bits.Mul64(uint64(max(m-p.Once, 0)), perSecond)
	if high >= p.Rate {
		return math.MaxInt64
	}
	ms, _ := bits.Div64(high, low, p.Rate)
	if ms >= math.MaxInt64/uint64(time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(ms) * time.Millisecond
}

// ran is how long w has cost money by now. It is measured: a clock that is set
// changes nothing, as w.up was read by this program.
func (w *session) ran(now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.up.IsZero() {
		return 0
	}
	return now.Sub(w.up)
}
