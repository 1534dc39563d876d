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

// A job is one request, from submission on.
type job struct {
	work.Item[record]
	s *Service

	// Of a job that has not ended.
	plan    plan
	result  []byte            // the worker's
	spanEnd func(code string) // nil if the job is from before a restart

	mu     sync.Mutex
	output *store.Log // nil: not opened; then it stays
	chunks *store.Log
}

// hold is what pays for j.
func (j *job) hold() *budget.Hold { return j.Holds()[0] }

// asks notes that c is asked, or will be.
func (r *record) asks(c *candidate) {
	r.Provider, r.Model, r.Free, r.Price, r.Bound = c.runner.ID(), c.model.Name, c.free, c.price, c.bound
}

// Open opens the streams.
func (j *job) Open(ctx context.Context) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.output != nil {
		return nil
	}
	output, err := store.OpenLog(ctx, store.Sub(j.s.st, outputView(j.N)))
	if err != nil {
		return err
	}
	chunks, err := store.OpenLog(ctx, store.Sub(j.s.st, chunksView(j.N)))
	if err != nil {
		return err
	}
	j.output, j.chunks = output, chunks
	if r := j.Record(); r.State.ended() {
		output.Tape().End()
		chunks.Tape().End()
	}
	return nil
}

// logs are the streams; none if they are not open.
func (j *job) logs() []*store.Log {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.output == nil {
		return nil
	}
	return []*store.Log{j.output, j.chunks}
}

// streamed is how many bytes the streams have.
func (j *job) streamed() (n int64) {
	for _, log := range j.logs() {
		n += log.Size()
	}
	return n
}

// Release lets the readers of j go.
func (j *job) Release() {
	for _, log := range j.logs() {
		log.Tape().End()
	}
	j.mu.Lock()
	end := j.spanEnd
	j.spanEnd = nil
	j.mu.Unlock()
	if end == nil {
		return
	}
	code := ""
	if r := j.Record(); r.Failure != nil {
		code = r.Failure.Code
	}
	end(code)
}

// Drop deletes the streams and the result.
func (j *job) Drop(ctx context.Context, tx store.Store, _ *record) error {
	for _, log := range j.logs() {
		if err := log.Drop(tx); err != nil {
			return err
		}
	}
	for _, view := range []string{outputView(j.N), chunksView(j.N)} {
		if err := store.DeleteAll(ctx, tx, view); err != nil {
			return err
		}
	}
	return tx.Delete(ctx, resultKey(j.N))
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
	r := j.Record()
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
	r := j.Record()
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

func (j *job) request(ctx context.Context) ([]byte, error) { return j.s.ledger.Request(ctx, j) }

func (j *job) control(ctx context.Context, words []string) ([]byte, error) {
	if len(words) != 1 || words[0] != "cancel" {
		return nil, fsys.E(fsys.Invalid, "the only command is: cancel")
	}
	if r := j.Record(); r.State.ended() {
		return nil, fsys.E(fsys.Busy, "job "+strconv.FormatInt(j.N, 10)+" has ended: "+string(r.State))
	}
	return nil, j.s.ledger.Stop(j, errCancelled)
}

func (j *job) commands(context.Context) ([]byte, error) { return []byte("cancel\n"), nil }
