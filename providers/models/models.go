// Package models is what a model provider must implement, and the only way
// to run one: a [Runner], which asks for the money first.
//
// Drivers are in the packages below. A driver knows one kind of API and
// nothing about jobs, files, policy or budgets: it blocks until the answer is
// whole, emits what comes as it comes, and stops when its context ends.
package models

import (
	"context"
	"encoding/json"

	"agent9/namespace/budget"
)

// A Provider answers requests, each to completion. It is safe for concurrent
// use.
type Provider interface {
	// Models lists what can be asked for. A Name may be "*": any name is
	// taken.
	Models(ctx context.Context) ([]Model, error)

	// Run performs req, passing output to emit as it comes, and returns when
	// done or when ctx is. If emit fails, Run stops and returns that error.
	// emit is not called after Run returned, and not concurrently.
	//
	// The Usage is valid even with an error: it is what the attempt cost, and
	// zero if nothing was worked on. Where the provider does not say, it is
	// [Estimate]d; what it does say is passed on as it is, and the [Runner] sees
	// whether that can be. Errors carry an fsys.Code and a reason: Invalid (the
	// request), NotExist (the model), TooLarge, Busy (over a rate), Timeout,
	// Canceled, Unavailable (the provider failed). No error contains a key.
	Run(ctx context.Context, req Request, emit func(Chunk) error) (Usage, error)
}

// An Informer is a Provider that says what it is; see [InfoOf].
type Informer interface{ Info() Info }

// Info is what an agent may know about a provider.
type Info struct {
	Driver string `json:"driver"`
	// Target is where the work goes, without credentials; may be empty.
	Target string `json:"target,omitempty"`
	// Kinds are the kinds of request that the provider can do.
	Kinds []Kind `json:"kinds"`
	// Free says that its work costs no money, whatever was used.
	Free bool `json:"free"`
}

// InfoOf returns what p says about itself; a Provider that says nothing does
// chat.
func InfoOf(p Provider) Info {
	if i, ok := p.(Informer); ok {
		return i.Info()
	}
	return Info{Driver: "unknown", Kinds: []Kind{Chat}}
}

// Model is something that a Provider can run.
type Model struct {
	Name    string `json:"name"`
	Context int    `json:"context,omitempty"` // tokens in and out; 0 if not known
	Kinds   []Kind `json:"kinds,omitempty"`   // nil if not known
	Price   *Price `json:"price,omitempty"`   // nil if not known
}

// Price is what a million tokens cost.
type Price struct {
	Input budget.Micros `json:"input_microusd"`
	// Cached is for input that the provider read from its cache; 0 is as
	// Input.
	Cached budget.Micros `json:"cached_input_microusd"`
	Output budget.Micros `json:"output_microusd"`
	// Write is for tokens that are put into the provider's cache; less than
	// Input is as Input.
	Write budget.Micros `json:"cache_write_microusd,omitempty"`
	// Long, if there is one, is the price of everything in a request whose
	// input has more than LongOver tokens.
	LongOver int64  `json:"long_over_tokens,omitempty"`
	Long     *Price `json:"long,omitempty"`
}

// A Chunk is a piece of an answer as it came. It is one line of a job's
// chunks file.
type Chunk struct {
	// Choice is which of several answers (n > 1) this belongs to.
	Choice int `json:"choice,omitempty"`
	// Text is what the answer grew by.
	Text      string `json:"text,omitempty"`
	Reasoning string `json:"reasoning,omitempty"`
	Refusal   string `json:"refusal,omitempty"`
	// ToolCalls are deltas in OpenAI's form: an array of
	// {index, id, type, function: {name, arguments}}.
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
	// Finish is why the answer ended: stop, length, tool_calls ...
	Finish string `json:"finish_reason,omitempty"`
	Usage  *Usage `json:"usage,omitempty"`
	// ID and Model are the provider's own names for the answer and for the
	// model that gave it.
	ID    string `json:"id,omitempty"`
	Model string `json:"model,omitempty"`
	// Thinking are blocks of reasoning in the form in which the provider
	// wants them back in the next request, as thinking_blocks of the message.
	Thinking []json.RawMessage `json:"thinking_blocks,omitempty"`
	// Result is the whole response as it came, from a provider that has it;
	// without one the [Runner] composes it. It is the last chunk's.
	Result json.RawMessage `json:"-"`
	// Type is the media type of Result; empty is JSON. With any other type
	// Result has the bytes of a sound, a picture or a text as they are, to
	// which nothing may be added.
	Type string `json:"result_type,omitempty"`
}

// Says reports whether c has something of an answer, and not only tells of it.
func (c Chunk) Says() bool {
	return c.Text != "" || c.Reasoning != "" || c.Refusal != "" || len(c.ToolCalls) > 0 || len(c.Thinking) > 0 || c.Result != nil
}

// Bytes is how much of an answer is in c: text, reasoning, and calls.
func (c Chunk) Bytes() int64 {
	n := len(c.Text) + len(c.Reasoning) + len(c.Refusal)
	for _, call := range c.ToolCalls {
		n += len(call.Function.Name) + len(call.Function.Arguments)
	}
	return int64(n)
}

// A ToolCall is a call of a tool, or a piece of one: Arguments of the same
// Index are concatenated.
type ToolCall struct {
	Index    int          `json:"index"`
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function ToolFunction `json:"function"`
}

type ToolFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

// Usage is what an attempt consumed.
type Usage struct {
	Input  int64 `json:"input_tokens"`
	Cached int64 `json:"cached_tokens,omitempty"` // of Input, read from the provider's cache
	// Written are those of Input that were put into the provider's cache,
	// where that has a price of its own.
	Written int64 `json:"cache_write_tokens,omitempty"`
	Output  int64 `json:"output_tokens"`
	// Estimated says that the provider did not report the tokens.
	Estimated bool `json:"estimated,omitempty"`
	// Fees are for what the provider counted and bills apart from tokens, such
	// as searches.
	Fees budget.Micros `json:"fees_microusd,omitempty"`
	// Percent is what the way in which the provider says that it served the
	// request makes of the price of the way that was asked for, if that is more:
	// see [Request.Dearer]. 0 is 100.
	Percent int64 `json:"price_percent,omitempty"`
	// Cost is what the provider itself says that it charges; 0 if it does
	// not say, and negative if it says what cannot be. See [Price.Bill].
	Cost budget.Micros `json:"cost_microusd,omitempty"`
}
