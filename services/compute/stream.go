package compute

import (
	"context"
	"io"
	"runtime"

	"agent9/fsys"
)

func (j *job) outputTape() *fsys.Tape { return j.output.Tape() }
func (j *job) chunksTape() *fsys.Tape { return j.chunks.Tape() }

// stream is a log of a job, opened when somebody looks at it.
type stream struct {
	j    *job
	tape func(*job) *fsys.Tape
}

func (s stream) now(ctx context.Context) (*fsys.Tape, error) {
	if err := s.j.open(ctx); err != nil {
		return nil, err
	}
	return s.tape(s.j), nil
}

func (s stream) Stat(ctx context.Context) (fsys.Info, error) {
	t, err := s.now(ctx)
	if err != nil {
		return fsys.Info{}, err
	}
	return t.Stat(ctx)
}

func (s stream) Open(ctx context.Context, flag fsys.Flag) (fsys.Handle, error) {
	t, err := s.now(ctx)
	if err != nil {
		return nil, err
	}
	h, err := t.Open(ctx, flag)
	if err != nil {
		return nil, err
	}
	return streamHandle{h, s.j}, nil
}

// streamHandle keeps the job in memory, so that there are no second logs on
// what it reads.
type streamHandle struct {
	h fsys.Handle
	j *job
}

func (h streamHandle) Close() error { return h.h.Close() }

func (h streamHandle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	defer runtime.KeepAlive(h.j)
	return fsys.ReadAt(ctx, h.h, p, off)
}

// result is the whole response. It is a stream of length 0 until the job has
// ended, and reads of it wait for that.
type result struct{ j *job }

func (n result) Stat(context.Context) (fsys.Info, error) {
	r := n.j.record()
	return fsys.Info{Kind: fsys.Stream, Perm: 0o444, Size: r.resultSize()}, nil
}

func (n result) Open(_ context.Context, flag fsys.Flag) (fsys.Handle, error) {
	if flag != fsys.Read {
		return nil, fsys.E(fsys.Permission, "a result is read-only")
	}
	return &resultHandle{j: n.j}, nil
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
	switch {
	case !r.State.ended():
		return 0
	case r.State == Done:
		return r.Result
	}
	return int64(len(r.failedResult()))
}

type resultHandle struct {
	j    *job
	text snapshot
}

func (h *resultHandle) Close() error { return nil }

func (h *resultHandle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	select {
	case <-h.j.done:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	text, err := h.text.get(func() ([]byte, error) { return h.j.loadResult(ctx) })
	switch {
	case err != nil:
		return 0, err
	case off < 0:
		return 0, fsys.E(fsys.Invalid, "a negative offset")
	case off >= int64(len(text)):
		return 0, io.EOF
	}
	return copy(p, text[off:]), nil
}

func (j *job) loadResult(ctx context.Context) ([]byte, error) {
	r := j.record()
	if r.State != Done {
		return r.failedResult(), nil
	}
	return j.s.st.Get(ctx, resultKey(j.n))
}
