package compute

import (
	"fmt"

	"agent9/fsys"
	"agent9/namespace/budget"
	provider "agent9/providers/compute"
)

// meter stops an attempt whose provider does not keep to what it was asked for:
// what it counts costs more than was held, or its answer is longer than the
// tokens that it may have.
type meter struct {
	c     *candidate
	hold  budget.Micros
	bytes int64 // that are not counted
}

// What is not counted and has so many bytes for each token, and a few more, is too long: most
// tokens have about four.
const (
	perToken = 16
	spare    = 1 << 10
)

// add counts c, and returns an error if that was too much.
func (m *meter) add(c provider.Chunk) error {
	if m.c.free || c.Result != nil || c.Finish != "" {
		return nil // or it is all there
	}
	m.bytes += int64(len(c.Text) + len(c.Reasoning) + len(c.Refusal))
	for _, call := range c.ToolCalls {
		m.bytes += int64(len(call.Function.Arguments))
	}
	switch most := m.c.load.Usage(m.c.req.MaxOutput).Output; {
	case c.Usage != nil && !c.Usage.Estimated:
		m.bytes = 0
		if m.c.price.Cost(*c.Usage) > m.hold {
			return fsys.E(fsys.Exhausted, fmt.Sprintf("budget: the run was stopped when it had cost the %s that was held for it", m.hold.Dollars()))
		}
	case m.c.load.Bounded && (m.bytes-spare)/perToken > most:
		return fsys.E(fsys.Exhausted, fmt.Sprintf("budget: the run was stopped, as its answer is longer than %d tokens", most))
	}
	return nil
}
