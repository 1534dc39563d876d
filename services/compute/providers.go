package compute

import (
	"context"
	"strings"

	"agent9/fsys"
	provider "agent9/providers/compute"
)

// provider returns the provider called id, or nil.
func (s *Service) provider(id string) *provider.Runner {
	for _, r := range s.config.Providers {
		if r.ID() == id {
			return r
		}
	}
	return nil
}

func (s *Service) noProvider(id string) string {
	ids := make([]string, len(s.config.Providers))
	for i, r := range s.config.Providers {
		ids[i] = r.ID()
	}
	return "there is no provider " + id + "; there are: " + strings.Join(ids, ", ")
}

type providerInfo struct {
	ID string `json:"id"`
	provider.Info
}

type providerHealth struct {
	OK      bool     `json:"ok"`
	Checked string   `json:"checked,omitempty"`
	Error   *failure `json:"error,omitempty"`
}

func providerDir(r *provider.Runner) fsys.Node {
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
			c := r.Catalog(ctx)
			h := providerHealth{OK: c.Err == nil, Checked: stamp(c.Checked)}
			if c.Err != nil {
				h.Error = failureOf(c.Err)
			}
			return h, nil
		})},
	)
}
