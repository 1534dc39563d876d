package host

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"

	"agent9/fsys"
)

func newEventCount() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: "agent9_events_total", Help: "Events of all agents since the start."})
}

// metricsOf returns what the metrics file says: all numbers of the daemon, in
// the text format of Prometheus.
func metricsOf(h *Host) func(ctx context.Context) ([]byte, error) {
	registry := prometheus.NewRegistry()
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		h.count,
		gauge("agent9_agents_in_memory", "Agents that somebody refers to.", func() float64 {
			return float64(len(h.agents.inMemory()))
		}),
		gauge("agent9_ticks_running", "Agents that have a tick.", func() float64 { return float64(h.schedule.Running()) }),
		gauge("agent9_goroutines", "Goroutines of the daemon.", func() float64 { return float64(runtime.NumGoroutine()) }),
		gauge("agent9_uptime_seconds", "Time since the start.", func() float64 {
			return h.opts.Now().Sub(h.started).Seconds()
		}),
		agentCount{h.agents},
	)
	registry.MustRegister(h.opts.Collectors...)
	var length steady
	return func(ctx context.Context) ([]byte, error) {
		families, err := registry.Gather()
		if err != nil {
			return nil, fsys.Wrap(fsys.Internal, "the metrics", err)
		}
		var text bytes.Buffer
		for _, f := range families {
			if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
				return nil, fsys.Wrap(fsys.Internal, fmt.Sprintf("the metric %s", f.GetName()), err)
			}
		}
		return length.pad(text.Bytes()), nil
	}
}

// steady is the length of a text whose numbers change all the time. The zero
// value is a new one.
type steady struct {
	mu sync.Mutex
	n  int
}

// lengthStep is how the length grows.
const lengthStep = 1 << 10

// pad makes text no shorter than any before it, by a comment at its end: so a
// file of it never is shorter than a look at it said.
func (s *steady) pad(text []byte) []byte {
	const begin, end = "#", "\n"
	least := len(text) + len(begin) + len(end)
	s.mu.Lock()
	for s.n < least {
		s.n += lengthStep
	}
	more := s.n - least
	s.mu.Unlock()
	text = append(text, begin...)
	text = append(text, bytes.Repeat([]byte{' '}, more)...)
	return append(text, end...)
}

// agentCount counts the agents that exist when it is asked.
type agentCount struct{ agents *agents }

var agentsDesc = prometheus.NewDesc("agent9_agents", "Agents that exist.", nil, nil)

func (agentCount) Describe(d chan<- *prometheus.Desc) { d <- agentsDesc }

func (c agentCount) Collect(m chan<- prometheus.Metric) {
	list, err := c.agents.List(c.agents.house.Life)
	if err != nil {
		m <- prometheus.NewInvalidMetric(agentsDesc, err)
		return
	}
	m <- prometheus.MustNewConstMetric(agentsDesc, prometheus.GaugeValue, float64(len(list)))
}
