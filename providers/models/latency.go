package models

import (
	"slices"
	"time"
)

// Latency is how fast a model of a provider answers: averages in which each
// answer counts a quarter and what was before it the rest.
type Latency struct {
	Model string
	First time.Duration // until something of the answer was there
	Total time.Duration // until all of it was
	Runs  int
	Last  time.Time
}

// latencyTTL is how long a measurement says something.
const latencyTTL = 10 * time.Minute

// maxLatencies is how many models of a provider are measured: names come from
// requests.
const maxLatencies = 64

// latencies are in the order in which they were measured last, oldest first.
type latencies []Latency

func (l *latencies) add(model string, first, total time.Duration, now time.Time) {
	m := Latency{model, first, total, 1, now}
	if i := l.find(model); i >= 0 {
		old := (*l)[i]
		m.First = old.First + (first-old.First)/4
		m.Total = old.Total + (total-old.Total)/4
		m.Runs = old.Runs + 1
		*l = slices.Delete(*l, i, i+1)
	} else if len(*l) == maxLatencies {
		*l = slices.Delete(*l, 0, 1)
	}
	*l = append(*l, m)
}

func (l *latencies) find(model string) int {
	return slices.IndexFunc(*l, func(m Latency) bool { return m.Model == model })
}

// Latency returns how fast model answers here; false if it was not measured in
// the last ten minutes. Measurements are lost with the program.
func (r *Runner) Latency(model string) (Latency, bool) {
	h := &r.health
	h.mu.Lock()
	defer h.mu.Unlock()
	i := h.latency.find(model)
	if i < 0 || time.Since(h.latency[i].Last) > latencyTTL {
		return Latency{}, false
	}
	return h.latency[i], true
}

// Latencies returns all measurements, the latest one first.
func (r *Runner) Latencies() []Latency {
	h := &r.health
	h.mu.Lock()
	defer h.mu.Unlock()
	list := slices.Clone(h.latency)
	slices.Reverse(list)
	return list
}

func (h *health) measured(model string, first, total time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.latency.add(model, first, total, time.Now())
}
