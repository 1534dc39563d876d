package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"agent9/fsys/share"
)

// clientUse tells what clients have now.
type clientUse struct{ pool *share.Pool }

var _ prometheus.Collector = clientUse{}

// speaks are what clients speak, and of what numbers are told.
var speaks = []string{"9p", "http"}

var (
	keptBytes   = prometheus.NewDesc("agent9_client_bytes", "What clients make the daemon keep, as --max-memory counts it, by what it is kept for.", []string{"kind"}, nil)
	keptCallers = prometheus.NewDesc("agent9_client_shares", "Tokens and sockets that have a share of --max-memory now.", nil, nil)
	keptLargest = prometheus.NewDesc("agent9_client_share_largest_bytes", "The largest of these shares, with what its connections can have without asking.", nil, nil)
)

func (c clientUse) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, to) }

func (c clientUse) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, n int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	r := c.pool.Report()
	for _, s := range speaks {
		u := r.Speaks[s]
		for _, g := range []struct {
			name, help string
			n          int64
		}{
			{"connections", "Connections of " + s + ".", int64(u.Conns)},
			{"fids", "Files that clients of " + s + " have by a number.", int64(u.Fids)},
			{"requests", "Requests of " + s + " that are under way.", int64(u.Requests)},
			{"held_bytes", "What clients of " + s + " make the daemon keep.", u.Bytes},
		} {
			gauge(prometheus.NewDesc("agent9_"+s+"_"+g.name, g.help, nil, nil), g.n)
		}
	}
	for _, k := range share.Kinds() {
		gauge(keptBytes, r.Kinds[k], k.String())
	}
	gauge(keptCallers, int64(r.Callers))
	gauge(keptLargest, r.Largest)
}
