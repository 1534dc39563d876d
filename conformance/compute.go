// Package conformance holds the suites that every service, store, provider, transport
// and front end passes. Each is one exported function. For a tree there is fsys/fstest.
package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"agent9/fsys"
	"agent9/providers/models"
)

// Compute is a provider under test, and what it is known to do.
type Compute struct {
	// Provider is ready to be asked.
	Provider models.Provider
	// Model is the one to ask; empty leaves the choice to the provider.
	Model string
	// Say is a message whose answer is Want. With an empty Want the answer
	// may be any that is not empty.
	Say, Want string
	// Embed is a model that makes vectors; empty is a provider without one.
	Embed string
	// Slow is a message whose answer begins and then goes on for longer than
	// a test lasts.
	Slow string
	// Fail is a message whose run fails with FailCode and with FailReason in
	// its reason. Empty is a provider that does not fail.
	Fail       string
	FailCode   fsys.Code
	FailReason string
	// Bound is how soon a cancelled run must be over; 0 means 5 s.
	Bound time.Duration
	// Start is how soon the answer to Slow must begin; 0 means a minute.
	Start time.Duration
}

// TestCompute checks that a driver keeps the contract of compute.Provider.
func TestCompute(t *testing.T, c Compute) {
	for _, rule := range computeRules {
		t.Run(rule.name, func(t *testing.T) {
			if err := rule.check(c.defaults(), t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// CheckCompute is TestCompute without a test around it: it returns every
// finding, joined into one error.
func CheckCompute(ctx context.Context, c Compute) error {
	var errs []error
	for _, rule := range computeRules {
		if err := rule.check(c.defaults(), ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", rule.name, err))
		}
	}
	return errors.Join(errs...)
}

var computeRules = []struct {
	name  string
	check func(c Compute, ctx context.Context) error
}{
	{"models", Compute.models},
	{"answer", Compute.answer},
	{"result", Compute.result},
	{"cancelled while it runs", Compute.cancelled},
	{"cancelled before it runs", Compute.cancelledBefore},
	{"timed out", Compute.timedOut},
	{"emit fails", Compute.emitFails},
	{"failure", Compute.failure},
	{"many at once", Compute.manyAtOnce},
	{"embeddings", Compute.embeddings},
}

func (c Compute) defaults() Compute {
	if c.Bound == 0 {
		c.Bound = 5 * time.Second
	}
	if c.Start == 0 {
		c.Start = time.Minute
	}
	return c
}

func (c Compute) models(ctx context.Context) error {
	list, err := c.Provider.Models(ctx)
	if err != nil {
		return fmt.Errorf("Models: %w", err)
	}
	if len(list) == 0 {
		return errors.New("Models: there is none; a provider that cannot tell has \"*\"")
	}
	seen := map[string]bool{}
	for _, m := range list {
		switch {
		case m.Name == "":
			return errors.New("Models: one has no name")
		case seen[m.Name]:
			return fmt.Errorf("Models: %q is there twice", m.Name)
		}
		seen[m.Name] = true
	}
	if _, ok := (models.Catalog{Models: list}).Find(c.Model); c.Model != "" && !ok {
		return fmt.Errorf("Models: %q, which can be asked, is not there", c.Model)
	}
	if !slices.Contains(models.InfoOf(c.Provider).Kinds, models.Chat) {
		return errors.New("Info: chat is not among the kinds")
	}
	return nil
}

// ran is what one Run did.
type ran struct {
	text   string
	chunks []models.Chunk
	usage  models.Usage
	err    error
}

// run performs one request and checks what holds for every run. What emit
// gathers is not guarded: a driver that calls it twice at a time, or after Run
// has returned, is found by the race detector.
func (c Compute) run(ctx context.Context, say string, emit func(models.Chunk) error) (r ran, finding error) {
	r.usage, r.err = c.Provider.Run(ctx, models.Ask(c.Model, say), func(chunk models.Chunk) error {
		if chunk.Text != "" && !utf8.ValidString(chunk.Text) && utf8.ValidString(c.Want) {
			finding = fmt.Errorf("a chunk has a part of a character: %q", chunk.Text)
		}
		r.chunks = append(r.chunks, chunk)
		if chunk.Choice == 0 {
			r.text += chunk.Text
		}
		if emit != nil {
			return emit(chunk)
		}
		return nil
	})
	if r.usage.Input < 0 || r.usage.Output < 0 || r.usage.Cost < 0 || r.usage.Cached > r.usage.Input {
		return r, fmt.Errorf("the usage cannot be: %+v", r.usage)
	}
	return r, finding
}

func (c Compute) answer(ctx context.Context) error {
	r, finding := c.run(ctx, c.Say, nil)
	switch {
	case finding != nil:
		return finding
	case r.err != nil:
		return fmt.Errorf("Run: %w", r.err)
	case c.Want == "" && r.text == "":
		return errors.New("the answer is empty")
	case c.Want != "" && r.text != c.Want:
		return fmt.Errorf("the answer is %q, want %q", r.text, c.Want)
	case r.usage.Input == 0 || r.usage.Output == 0:
		return fmt.Errorf("the usage of an answer is %+v, want tokens in and out", r.usage)
	}
	finished := slices.ContainsFunc(r.chunks, func(c models.Chunk) bool { return c.Finish != "" })
	if !finished {
		return errors.New("no chunk has a finish reason")
	}
	return nil
}

// result checks that the response that a provider brings, or that is composed
// of its chunks, says what the chunks said.
func (c Compute) result(ctx context.Context) error {
	r, finding := c.run(ctx, c.Say, nil)
	if finding != nil || r.err != nil {
		return errors.Join(finding, r.err)
	}
	a := models.NewAnswer(models.Ask(c.Model, c.Say))
	var result json.RawMessage
	for i, chunk := range r.chunks {
		if err := a.Add(chunk); err != nil {
			return err
		}
		if chunk.Result != nil && i < len(r.chunks)-1 {
			return errors.New("a chunk came after the result")
		}
		result = chunk.Result
	}
	if result == nil {
		result = a.Result(r.usage)
	}
	var response struct {
		Choices []struct {
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(result, &response); err != nil {
		return fmt.Errorf("the result is not a response: %w", err)
	}
	if len(response.Choices) == 0 || response.Choices[0].Message.Content != r.text {
		return fmt.Errorf("the result is %s, and the text was %q", result, r.text)
	}
	return nil
}

// outcome is a run that was started in the background.
type outcome struct {
	ran
	finding error
}

func (c Compute) start(ctx context.Context, say string, emit func(models.Chunk) error) <-chan outcome {
	over := make(chan outcome, 1)
	go func() {
		r, finding := c.run(ctx, say, emit)
		over <- outcome{r, finding}
	}()
	return over
}

// end waits for a run that has been told to end.
func (c Compute) end(over <-chan outcome, why string) (outcome, error) {
	select {
	case o := <-over:
		return o, o.finding
	case <-time.After(c.Bound):
		return outcome{}, fmt.Errorf("a run that was stopped (%s) is not over after %v", why, c.Bound)
	}
}

// stopped runs the slow request, calls stop at the first text, and checks that
// the run is over within the bound, with code.
func (c Compute) stopped(ctx context.Context, stop context.CancelFunc, code fsys.Code) error {
	begun := make(chan struct{})
	var once sync.Once
	over := c.start(ctx, c.Slow, func(chunk models.Chunk) error {
		if chunk.Text != "" {
			once.Do(func() { close(begun) })
		}
		return nil
	})
	select {
	case <-begun:
		stop()
	case o := <-over:
		return fmt.Errorf("a slow run was over before it was stopped: %q, %v", o.text, o.err)
	case <-time.After(c.Start):
		return fmt.Errorf("a slow run gave nothing within %v: output is kept back until the end", c.Start)
	}
	o, finding := c.end(over, code.String())
	switch {
	case finding != nil:
		return finding
	case o.err == nil || fsys.CodeOf(o.err) != code:
		return fmt.Errorf("a run that was stopped ended with %v, want %v", o.err, code)
	case o.usage.Input == 0:
		return errors.New("a run that was stopped in its answer says that it used nothing")
	}
	return nil
}

func (c Compute) cancelled(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return c.stopped(ctx, cancel, fsys.Canceled)
}

func (c Compute) cancelledBefore(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	r, finding := c.end(c.start(ctx, c.Slow, nil), "before it began")
	if finding == nil && (r.err == nil || fsys.CodeOf(r.err) != fsys.Canceled) {
		return fmt.Errorf("a run that was cancelled before it began ended with %v, want %v", r.err, fsys.Canceled)
	}
	return finding
}

func (c Compute) timedOut(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	return c.stopped(ctx, func() { cancel(context.DeadlineExceeded) }, fsys.Timeout)
}

func (c Compute) emitFails(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	enough := errors.New("enough")
	var calls atomic.Int32
	failed := make(chan struct{})
	over := c.start(ctx, c.Slow, func(chunk models.Chunk) error {
		if calls.Add(1) == 1 {
			close(failed)
			return enough
		}
		return nil
	})
	select {
	case <-failed:
	case <-time.After(c.Start):
		return fmt.Errorf("a slow run gave nothing within %v: output is kept back until the end", c.Start)
	}
	o, finding := c.end(over, "emit failed")
	switch {
	case finding != nil:
		return finding
	case !errors.Is(o.err, enough):
		return fmt.Errorf("emit failed, and Run returned %v", o.err)
	case calls.Load() > 1:
		return errors.New("emit was called again after it had failed")
	}
	return nil
}

func (c Compute) failure(ctx context.Context) error {
	if c.Fail == "" {
		return nil
	}
	r, finding := c.run(ctx, c.Fail, nil)
	switch {
	case r.err == nil || fsys.CodeOf(r.err) != c.FailCode:
		return fmt.Errorf("a run that fails ended with %v, want %v", r.err, c.FailCode)
	case !strings.Contains(fsys.ReasonOf(r.err), c.FailReason) || fsys.ReasonOf(r.err) == "":
		return fmt.Errorf("the reason of a failure is %q, want one with %q", fsys.ReasonOf(r.err), c.FailReason)
	}
	return finding
}

// manyAtOnce checks that answers are not mixed up.
func (c Compute) manyAtOnce(ctx context.Context) error {
	findings := make(chan error, 8)
	for range cap(findings) {
		go func() { findings <- c.answer(ctx) }()
	}
	var errs []error
	for range cap(findings) {
		errs = append(errs, <-findings)
	}
	return errors.Join(errs...)
}
