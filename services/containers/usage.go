package containers

import (
	"context"

	"agent9/namespace/budget"
)

type serviceUsage struct {
	Held     budget.Micros   `json:"held_microusd"`
	Spent    budget.Micros   `json:"spent_microusd"`
	Sessions map[State]int64 `json:"sessions"`
	// Kept is how many bytes of output the sessions have that ended.
	Kept       int64       `json:"kept_bytes"`
	Workspaces int         `json:"workspaces"`
	Limits     usageLimits `json:"limits"`
	// Budget is that of who asks.
	Budget *budget.Usage `json:"budget,omitempty"`
}

type usageLimits struct {
	Concurrent int `json:"max_concurrent"`
	Queued     int `json:"max_queued"`
}

func (s *Service) usage(ctx context.Context) (serviceUsage, error) {
	t, err := table.Totals(ctx, s.st)
	if err != nil {
		return serviceUsage{}, err
	}
	for _, state := range states {
		t.Sessions[state] += 0
	}
	most, waiting := s.ledger.Crew.Limits()
	u := serviceUsage{Held: t.Held, Spent: t.Spent, Sessions: t.Sessions, Kept: t.Kept, Workspaces: t.Works, Limits: usageLimits{most, waiting}}
	if a, ok := budget.From(ctx); ok {
		b, err := a.Usage(ctx)
		if err != nil {
			return serviceUsage{}, err
		}
		u.Budget = &b
	}
	return u, nil
}
