package agent

import (
	"context"
	"encoding/json"

	"agent9/services/secrets"
	"agent9/services/tools"
	"agent9/store"
)

func (a *Agent) toolsOptions() tools.Options {
	return tools.Options{
		Store: store.Sub(a.st, toolsPart), Provider: a.house.Tools, Secret: a.secretFor(secrets.Tools), Note: a.note,
		Account: a.budget, Working: a.mayWork, Now: a.house.Now,
		Servers: func() map[string]json.RawMessage { return a.status.Config().Tools },
	}
}

// secretFor gives out secrets for one use.
func (a *Agent) secretFor(use secrets.Use) func(ctx context.Context, name, target string) ([]byte, error) {
	return func(ctx context.Context, name, target string) ([]byte, error) {
		return a.secrets.Get(ctx, name, use, target)
	}
}
