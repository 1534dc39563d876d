package compute

import (
	"context"

	"agent9/fsys"
	"agent9/providers/models"
	"agent9/services/internal/work"
)

// planAgain is the plan that rec was made of.
func (s *Service) planAgain(ctx context.Context, rec record) (plan, error) {
	raw, err := s.st.Get(ctx, work.RequestKey(rec.Number))
	if err != nil {
		return plan{}, err
	}
	sub, err := parseSubmission(raw)
	if err != nil {
		return plan{}, err
	}
	p, err := s.policies.Read(ctx, s.st)
	if err != nil {
		return plan{}, err
	}
	pl := plan{max: rec.Held, timeout: rec.Timeout, retry: p.retry()}
	why := fsys.E(fsys.Unavailable, s.config.Providers.None(rec.Provider))
	for _, l := range rec.Chain {
		c, err := s.linked(p, l, sub)
		if err == nil {
			pl.chain = append(pl.chain, c)
		} else if c.runner != nil {
			why = err
		}
	}
	if len(pl.chain) == 0 {
		return plan{}, why
	}
	return pl, nil
}

// link is a candidate in the record of a job that waits.
type link struct {
	Provider string        `json:"provider"`
	Model    string        `json:"model"`
	Context  int           `json:"context,omitempty"`
	Free     bool          `json:"free,omitempty"`
	Price    *models.Price `json:"price,omitempty"`
}

// links are those of the chain of pl.
func (pl plan) links() []link {
	var links []link
	for _, c := range pl.chain {
		links = append(links, link{c.runner.ID(), c.model.Name, c.model.Context, c.free, c.list})
	}
	return links
}

// linked is the candidate that l stands for, measured anew at its old price. It
// has no runner if the provider is gone.
func (s *Service) linked(p Policy, l link, sub *submission) (candidate, error) {
	c := candidate{runner: s.config.Providers.Get(l.Provider), model: models.Model{Name: l.Model, Context: l.Context}, free: l.Free}
	if c.runner == nil {
		return c, fsys.NotExist
	}
	c.named(sub)
	if c.free {
		return c, nil
	}
	c.list = l.Price
	if err := c.measure(p, true); err != nil {
		return c, err
	}
	return c, nil
}
