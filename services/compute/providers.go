package compute

import (
	"cmp"
	"context"

	"agent9/fsys"
	"agent9/providers/models"
	"agent9/services/internal/work"
)

type providerInfo struct {
	ID string `json:"id"`
	models.Info
}

// providerHealth is how a provider did when it was asked last. State is ok,
// failing, or aside: others are asked before it.
type providerHealth struct {
	OK       bool           `json:"ok"`
	State    string         `json:"state"`
	Checked  string         `json:"checked,omitempty"`
	Failures int            `json:"failures,omitempty"`
	Until    string         `json:"aside_until,omitempty"`
	Latency  []modelLatency `json:"latency,omitempty"`
	Error    *work.Failure  `json:"error,omitempty"`
}

type modelLatency struct {
	Model string `json:"model"`
	First int64  `json:"first_ms"`
	Total int64  `json:"total_ms"`
	Runs  int    `json:"runs"`
}

func healthOf(ctx context.Context, r *models.Runner) providerHealth {
	c, h := r.Catalog(ctx), r.Health()
	f := providerHealth{OK: c.Err == nil && h.Failures == 0, State: "ok", Checked: work.Stamp(c.Checked), Failures: h.Failures, Until: work.Stamp(h.Until)}
	for _, l := range r.Latencies() {
		f.Latency = append(f.Latency, modelLatency{l.Model, l.First.Milliseconds(), l.Total.Milliseconds(), l.Runs})
	}
	switch err := cmp.Or(h.Err, c.Err); {
	case err == nil:
		return f
	case h.Until.IsZero():
		f.State, f.Error = "failing", work.FailureOf(err)
	default:
		f.State, f.Error = "aside", work.FailureOf(err)
	}
	return f
}

func providerDir(r *models.Runner) fsys.Node {
	return fsys.NewTable(
		fsys.Entry{Name: "info", Node: fsys.JSON(func(context.Context) (providerInfo, error) {
			return providerInfo{r.ID(), r.Info()}, nil
		})},
		fsys.Entry{Name: "models", Node: fsys.Text(func(ctx context.Context) ([]byte, error) {
			var lines []byte
			for _, m := range r.Catalog(ctx).Models {
				lines = append(lines, fsys.Line(m)...)
			}
			return lines, nil
		})},
		fsys.Entry{Name: "health", Node: fsys.JSON(func(ctx context.Context) (providerHealth, error) {
			return healthOf(ctx, r), nil
		})},
	)
}
