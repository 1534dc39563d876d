package compute

import (
	"context"
	"time"

	"agent9/fsys"
	"agent9/services/internal/work"
)

// files are what the directory of a job has.
var files = []work.File[*job]{
	{Name: "request", Node: func(j *job) fsys.Node { return fsys.Text(j.request) }},
	{Name: "status", Node: func(j *job) fsys.Node { return fsys.JSON(j.status) }},
	{Name: "output", Node: func(j *job) fsys.Node { return work.Stream(j, outputTape) }},
	{Name: "chunks", Node: func(j *job) fsys.Node { return work.Stream(j, chunksTape) }},
	{Name: "result", Node: (*job).resultFile},
	{Name: "usage", Node: func(j *job) fsys.Node { return fsys.JSON(j.usage) }},
	{Name: "ctl", Node: func(j *job) fsys.Node { return &fsys.Ctl{Do: j.control, Text: j.commands} }},
}

var _ work.Work = (*job)(nil)

func (j *job) ModTime() time.Time {
	r := j.Record()
	for _, t := range []time.Time{r.Ended, r.Started} {
		if !t.IsZero() {
			return t
		}
	}
	return r.Created
}

func (j *job) Hide(ctx context.Context, name string) error { return j.s.ledger.Hide(ctx, j, name) }

func (j *job) Remove(ctx context.Context) error { return j.s.ledger.Remove(ctx, j, errCancelled) }
