package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"agent9/fsys/ninep"
)

// clientUse tells what clients of 9P have now.
type clientUse struct{ memory *ninep.Memory }

var _ prometheus.Collector = clientUse{}

var (
	clientConns    = prometheus.NewDesc("agent9_9p_connections", "Connections of 9P.", nil, nil)
	clientFids     = prometheus.NewDesc("agent9_9p_fids", "Fids of all connections of 9P.", nil, nil)
	clientRequests = prometheus.NewDesc("agent9_9p_requests", "Requests of 9P that are under way.", nil, nil)
	clientBytes    = prometheus.NewDesc("agent9_9p_held_bytes", "What clients of 9P make the daemon hold, as --max-memory counts it, with the 64 KiB of each.", nil, nil)
)

func (c clientUse) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, to) }

func (c clientUse) Collect(to chan<- prometheus.Metric) {
	u := c.memory.Use()
	for _, g := range []struct {
		desc  *prometheus.Desc
		value float64
	}{
		{clientConns, float64(u.Conns)}, {clientFids, float64(u.Fids)},
		{clientRequests, float64(u.Requests)}, {clientBytes, float64(u.Bytes)},
	} {
		to <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, g.value)
	}
}
