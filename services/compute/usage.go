package compute

import (
	"context"

	"agent9/namespace/budget"
)

type serviceUsage struct {
	Held  budget.Micros   `json:"held_microusd"`
	Spent budget.Micros   `json:"spent_microusd"`
	Jobs  map[State]int64 `json:"jobs"`
	// Kept is how many bytes the jobs have that ended.
	Kept   int64       `json:"kept_bytes"`
	Limits usageLimits `json:"limits"`
	// Budget is that of who asks.
	Budget *budget.Usage `json:"budget,omitempty"`
}

type usageLimits struct {
	Concurrent int   `json:"max_concurrent"`
	Queued     int   `json:"max_queued"`
	Requests   int64 `json:"requests_per_minute,omitempty"`
	Tokens     int64 `json:"tokens_per_minute,omitempty"`
}

func (s *Service) usage(ctx context.Context) (serviceUsage, error) {
	t, err := table.Totals(ctx, s.st)
	if err != nil {
		return serviceUsage{}, err
	}
	for _, state := range []State{Awaiting, Queued, Running, Done, Failed, Cancelled} {
		t.Jobs[state] += 0
	}
	most, waiting := s.ledger.Crew.Limits()
	s.mu.Lock()
	u := serviceUsage{Held: t.Held, Spent: t.Spent, Jobs: t.Jobs, Kept: t.Kept, Limits: usageLimits{most, waiting, s.rates.requests, s.rates.tokens}}
	s.mu.Unlock()
	if a, ok := budget.From(ctx); ok {
		b, err := a.Usage(ctx)
		if err != nil {
			return serviceUsage{}, err
		}
		u.Budget = &b
	}
	return u, nil
}
