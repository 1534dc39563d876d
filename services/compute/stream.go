package compute

import (
	"context"

	"agent9/fsys"
	"agent9/services/internal/work"
)

func outputTape(ctx context.Context, j *job) (*fsys.Tape, error) {
	if err := j.Open(ctx); err != nil {
		return nil, err
	}
	return j.output.Tape(), nil
}

func chunksTape(ctx context.Context, j *job) (*fsys.Tape, error) {
	if err := j.Open(ctx); err != nil {
		return nil, err
	}
	return j.chunks.Tape(), nil
}

// resultFile is the whole response, when the job has ended.
func (j *job) resultFile() fsys.Node {
	return &work.Result{
		Done: j.Done,
		Size: func(context.Context) (int64, error) {
			r := j.Record()
			return r.resultSize(), nil
		},
		Load: j.loadResult,
	}
}

// errorResult is the response of a job that has none, in OpenAI's form.
type errorResult struct {
	Error struct {
		Message string `json:"message"`
		Code    string `json:"code"`
	} `json:"error"`
}

// failedResult is what a job that failed has for a result.
func (r *record) failedResult() []byte {
	var e errorResult
	if r.Failure != nil {
		e.Error.Message, e.Error.Code = r.Failure.Reason, r.Failure.Code
	}
	return fsys.Line(e)
}

func (r *record) resultSize() int64 {
	if r.State == Done {
		return r.Result
	}
	return int64(len(r.failedResult()))
}

func (j *job) loadResult(ctx context.Context) ([]byte, error) {
	r := j.Record()
	if r.State != Done {
		return r.failedResult(), nil
	}
	return j.s.st.Get(ctx, resultKey(j.N))
}
