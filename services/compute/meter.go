package compute

import (
	"fmt"

	"agent9/fsys"
	"agent9/namespace/budget"
	provider "agent9/providers/compute"
)

// meter counts what an attempt costs while it runs, to stop it where that is
// more than was held. It counts a token for every four bytes, unless the
// provider says how many there are, and no more than the request allows: less
// than [provider.Estimate], as who is stopped has lost the answer.
type meter struct {
	c      *candidate
	hold   budget.Micros
	usage  provider.Usage
	bytes  int64
	over   error
	counts bool // by the provider
}

// perToken is how many bytes are taken to be a token.
const perToken = 4

func newMeter(c *candidate, hold budget.Micros) meter {
	m := meter{c: c, hold: hold}
	in := len(c.req.Prompt)
	for _, msg := range c.req.Messages {
		in += len(msg.Text)
	}
	m.usage.Input = int64(in) / perToken
	return m
}

// add counts c, and returns an error if that was too much.
func (m *meter) add(c provider.Chunk) error {
	if m.c.free || m.c.price == nil {
		return nil
	}
	m.bytes += int64(len(c.Text) + len(c.Reasoning) + len(c.Refusal))
	for _, call := range c.ToolCalls {
		m.bytes += int64(len(call.Function.Arguments))
	}
	if c.Usage != nil && !c.Usage.Estimated {
		m.usage, m.bytes, m.counts = *c.Usage, 0, true
	}
	if c.Result != nil || c.Finish != "" {
		return nil // it is all there
	}
	u := m.usage
	u.Output += m.bytes / perToken
	if most := m.c.req.MaxOutput; most > 0 && !m.counts {
		u.Output = min(u.Output, min(most, maxTokens)*m.c.req.Choices)
	}
	if cost := m.c.price.Cost(u); cost > m.hold {
		m.over = fsys.E(fsys.Exhausted, fmt.Sprintf("budget: the run was stopped when it had cost the %d µ$ that were held for it", m.hold))
	}
	return m.over
}

// stopped returns what a run used that ended with err. If it was stopped here
// and nobody counted, it used what was held.
func (m *meter) stopped(u provider.Usage, err error) provider.Usage {
	if m.over != nil && err != nil && u.Estimated {
		u.Cost = m.hold
	}
	return u
}
