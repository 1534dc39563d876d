package agent

import (
	"encoding/json"

	"agent9/services/tools"
	"agent9/store"
)

func (a *Agent) toolsOptions() tools.Options {
	return tools.Options{
		Store: store.Sub(a.st, toolsPart), Provider: a.house.Tools, Secret: a.secrets.Get, Note: a.note,
		Account: a.budget, Working: a.mayWork, Now: a.house.Now,
		Servers: func() map[string]json.RawMessage { return a.status.Config().Tools },
	}
}
