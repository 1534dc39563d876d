package compute

import (
	"context"
	"strconv"
	"sync"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/models"
	"agent9/services/internal/work"
	"agent9/store"
)

// A job is one request, from submission on. While it has not ended the service
// keeps it; afterwards it is in memory as long as somebody looks at it, so
// that there is one of a number at any time.
type job struct {
	s *Service
	n int64

	// Of a job that has not ended.
	ctx     context.Context
	cancel  context.CancelCauseFunc
	plan    plan
	hold    *budget.Hold
	result  []byte            // the worker's
	spanEnd func(code string) // nil if the job is from before a restart

	done chan struct{} // closed when it has ended

	mu     sync.Mutex
	rec    record
	output *store.Log // nil: not opened; then it stays
	chunks *store.Log
	gone   bool
}

// newJob returns a job that has not been recorded yet.
func (s *Service) newJob(ctx context.Context, n int64, name string, sub *submission, pl plan, hold *budget.Hold, now bool) *job {
	j := &job{s: s, n: n, plan: pl, hold: hold, done: make(chan struct{})}
	j.rec = record{
		Number:  n,
		Name:    name,
		Key:     sub.key,
		Token:   fsys.TokenOf(ctx),
		State:   Queued,
		Kind:    pl.chain[0].req.Kind,
		Timeout: pl.timeout,
		Size:    int64(len(sub.raw)) + jobOverhead,
		Created: s.config.Now(),
		Hold:    hold.ID(),
		Held:    hold.Max(),
	}
	j.rec.asks(&pl.chain[0])
	switch {
	case hold.Waits():
		j.rec.State = Awaiting
	case now:
		j.rec.State, j.rec.Started = Running, j.rec.Created
	}
	if j.rec.State != Running { // the request is on disk, and is planned again when it begins
		j.rec.Chain, j.plan = pl.links(), plan{}
	}
	traced, end := s.config.Trace.Begin(s.life, ctx, "compute job", "job", strconv.FormatInt(n, 10), "kind", string(j.rec.Kind))
	j.spanEnd = end
	j.ctx, j.cancel = context.WithCancelCause(traced)
	return j
}

// asks notes that c is asked, or will be.
func (r *record) asks(c *candidate) {
	r.Provider, r.Model, r.Free, r.Price, r.Bound = c.runner.ID(), c.model.Name, c.free, c.price, c.bound
}

// open opens the streams.
func (j *job) open(ctx context.Context) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.output != nil {
		return nil
	}
	output, err := store.OpenLog(ctx, store.Sub(j.s.st, outputView(j.n)))
	if err != nil {
		return err
	}
	chunks, err := store.OpenLog(ctx, store.Sub(j.s.st, chunksView(j.n)))
	if err != nil {
		return err
	}
	j.output, j.chunks = output, chunks
	if j.rec.State.ended() {
		output.Tape().End()
		chunks.Tape().End()
	}
	return nil
}

// job returns job n, or NotExist.
func (s *Service) job(ctx context.Context, n int64) (*job, error) {
	j, err := s.jobs.Get(ctx, n, func() (*job, bool, error) {
		rec, err := store.GetJSON[record](ctx, s.st, recordKey(n))
		j := &job{s: s, n: n, rec: rec, done: make(chan struct{})}
		close(j.done)
		return j, rec.State.ended(), err
	})
	if err != nil {
		return nil, err
	}
	return j.present()
}

func (j *job) present() (*job, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.gone || j.rec.Removing {
		return nil, fsys.NotExist
	}
	return j, nil
}

func (j *job) record() record {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.rec
}

type statusFile struct {
	Job      int64         `json:"job"`
	Key      string        `json:"idempotency_key,omitempty"`
	State    State         `json:"state"`
	Approval string        `json:"approval,omitempty"` // what it waits for
	Kind     models.Kind   `json:"kind"`
	Provider string        `json:"provider"`
	Model    string        `json:"model"`
	Created  string        `json:"created"`
	Started  string        `json:"started,omitempty"`
	Ended    string        `json:"ended,omitempty"`
	Timeout  int64         `json:"timeout_ms"`
	Held     budget.Micros `json:"held_microusd"`
	Cost     budget.Micros `json:"cost_microusd"`
	// MaxTokens bounds the answer where the request does not.
	MaxTokens int64         `json:"max_tokens,omitempty"`
	Error     *work.Failure `json:"error,omitempty"`
}

func (j *job) status(context.Context) (statusFile, error) {
	r := j.record()
	f := statusFile{
		Job: r.Number, Key: r.Key, State: r.State, Kind: r.Kind, Provider: r.Provider, Model: r.Model,
		Created: work.Stamp(r.Created), Started: work.Stamp(r.Started), Ended: work.Stamp(r.Ended),
		Timeout: r.Timeout, Cost: max(r.Cost, r.Paid), MaxTokens: r.Bound, Error: r.Failure,
	}
	if !r.State.ended() {
		f.Held = r.Held
	}
	if r.State == Awaiting {
		f.Approval = r.Hold
	}
	return f, nil
}

type usageFile struct {
	Input     int64         `json:"input_tokens"`
	Cached    int64         `json:"cached_tokens"`
	Output    int64         `json:"output_tokens"`
	Estimated bool          `json:"estimated"`
	Percent   int64         `json:"price_percent,omitempty"` // of Price, if it was served in a dearer way
	Held      budget.Micros `json:"held_microusd"`
	Cost      budget.Micros `json:"cost_microusd"`
	Free      bool          `json:"free"`
	Price     *models.Price `json:"price"` // for a million tokens; null: not known
	// Attempts are there if there was more than one. The tokens are those of
	// all, and the price the last one's.
	Attempts []attempt `json:"attempts,omitempty"`
}

func (j *job) usage(context.Context) (usageFile, error) {
	r := j.record()
	f := usageFile{
		Input: r.Usage.Input, Cached: r.Usage.Cached, Output: r.Usage.Output, Estimated: r.Usage.Estimated, Percent: r.Usage.Percent,
		Cost: max(r.Cost, r.Paid), Free: r.Free, Price: r.Price, Attempts: r.Attempts,
	}
	if len(r.Attempts) > 0 {
		f.Input, f.Cached, f.Output, f.Estimated = 0, 0, 0, false
	}
	for _, a := range r.Attempts {
		f.Input, f.Cached, f.Output = f.Input+a.Usage.Input, f.Cached+a.Usage.Cached, f.Output+a.Usage.Output
		f.Estimated = f.Estimated || a.Usage.Estimated
	}
	if !r.State.ended() {
		f.Held = r.Held
	}
	return f, nil
}

func (j *job) request(ctx context.Context) ([]byte, error) {
	b, err := j.s.st.Get(ctx, requestKey(j.n))
	if err == nil && (len(b) == 0 || b[len(b)-1] != '\n') {
		b = append(b, '\n')
	}
	return b, err
}

func (j *job) control(ctx context.Context, words []string) ([]byte, error) {
	if len(words) != 1 || words[0] != "cancel" {
		return nil, fsys.E(fsys.Invalid, "the only command is: cancel")
	}
	if r := j.record(); r.State.ended() {
		return nil, fsys.E(fsys.Busy, "job "+strconv.FormatInt(j.n, 10)+" has ended: "+string(r.State))
	}
	return nil, j.s.cancel(j, errCancelled)
}

func (j *job) commands(context.Context) ([]byte, error) { return []byte("cancel\n"), nil }
