package compute

import (
	"fmt"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/models"
)

// meter stops an attempt whose provider does not keep to what it was asked for:
// what it counts costs more than was held, or its answer is longer than the
// tokens that it may have.
type meter struct {
	c     *candidate
	hold  budget.Micros
	bytes int64 // that are not counted
}

// add counts c, and returns an error if that was too much.
func (m *meter) add(c models.Chunk) error {
	if m.c.free || c.Result != nil || c.Finish != "" {
		return nil // or it is all there
	}
	m.bytes += c.Bytes()
	switch most := m.c.load.Usage(m.c.req.MaxOutput).Output; {
	case c.Usage != nil && !c.Usage.Estimated:
		m.bytes = 0
		if m.c.price.Cost(*c.Usage) > m.hold {
			return fsys.E(fsys.Exhausted, fmt.Sprintf("budget: the run was stopped when it had cost the %s that was held for it", m.hold.Dollars()))
		}
	case m.c.load.Bounded && models.Exceeds(m.bytes, most):
		return fsys.E(fsys.Exhausted, fmt.Sprintf("budget: the run was stopped, as its answer is longer than %d tokens", most))
	}
	return nil
}
