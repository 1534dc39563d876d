package containers

import (
	"context"

	"agent9/fsys"
	"agent9/providers/sandboxes"
	"agent9/services/internal/work"
)

type providerInfo struct {
	ID string `json:"id"`
	sandboxes.Info
}

// providerHealth is whether a provider can be used now.
type providerHealth struct {
	OK    bool          `json:"ok"`
	Error *work.Failure `json:"error,omitempty"`
	Left  []string      `json:"left,omitempty"` // see provider.Info
}

func (s *Service) providerDir(r *sandboxes.Runner) fsys.Node {
	return fsys.NewTable(
		// What does not answer has a health that says so, and its other files
		// are there as well, with what is known.
		fsys.Entry{Name: "info", Node: fsys.JSON(func(ctx context.Context) (providerInfo, error) {
			info, _ := s.info(ctx, r)
			return providerInfo{r.ID(), info}, nil
		})},
		fsys.Entry{Name: "images", Node: fsys.Text(func(ctx context.Context) ([]byte, error) {
			ctx, cancel := context.WithTimeout(ctx, askTimeout)
			defer cancel()
			images, _ := r.Images(ctx)
			var lines []byte
			for _, m := range images {
				lines = append(lines, fsys.Line(m)...)
			}
			return lines, nil
		})},
		fsys.Entry{Name: "health", Node: fsys.JSON(func(ctx context.Context) (providerHealth, error) {
			info, err := s.info(ctx, r)
			if err != nil {
				return providerHealth{Error: work.FailureOf(err)}, nil
			}
			return providerHealth{OK: true, Left: info.Left}, nil
		})},
	)
}
