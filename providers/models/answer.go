package models

import (
	"encoding/json"
	"slices"
	"strings"

	"agent9/fsys"
	"agent9/namespace/budget"
)

// An Answer gathers the chunks of one run into the whole response, in the
// form in which OpenAI answers a request that does not stream.
type Answer struct {
	kind      Kind
	id, model string
	choices   []choice // by Chunk.Choice
	size      int
	whole     bool // a chunk brought the Result
}

type choice struct {
	text, reasoning, refusal strings.Builder
	calls                    []ToolCall
	arguments                []*strings.Builder // of calls
	thinking                 []json.RawMessage
	finish                   string
}

var errTooLong = fsys.E(fsys.TooLarge, "the answer is longer than 4 MiB of text, or 16 MiB in all")

// NewAnswer returns an Answer to req.
func NewAnswer(req Request) *Answer { return &Answer{kind: req.Kind, model: req.Model} }

// Size is how many bytes of text, reasoning and arguments there are.
func (a *Answer) Size() int { return a.size }

// Add adds what c brings, or returns TooLarge.
func (a *Answer) Add(c Chunk) error {
	if c.Choice < 0 || c.Choice >= 128 {
		return fsys.E(fsys.Unavailable, "the provider numbers its answers wrongly")
	}
	a.size += len(c.Text) + len(c.Reasoning) + len(c.Refusal)
	for _, call := range c.ToolCalls {
		a.size += len(call.Function.Arguments)
	}
	for _, block := range c.Thinking {
		a.size += len(block)
	}
	if a.size > MaxAnswer || len(c.Result) > MaxResult {
		return errTooLong
	}
	if c.Result != nil {
		a.whole = true
		return nil
	}
	if c.ID != "" {
		a.id = c.ID
	}
	if c.Model != "" {
		a.model = c.Model
	}
	for len(a.choices) <= c.Choice {
		a.choices = append(a.choices, choice{})
	}
	return a.choices[c.Choice].add(c)
}

func (ch *choice) add(c Chunk) error {
	ch.text.WriteString(c.Text)
	ch.reasoning.WriteString(c.Reasoning)
	ch.refusal.WriteString(c.Refusal)
	ch.thinking = append(ch.thinking, c.Thinking...)
	if c.Finish != "" {
		ch.finish = c.Finish
	}
	for _, delta := range c.ToolCalls {
		if delta.Index < 0 || delta.Index >= 1024 {
			return fsys.E(fsys.Unavailable, "the provider numbers its tool calls wrongly")
		}
		for len(ch.calls) <= delta.Index {
			ch.calls = append(ch.calls, ToolCall{Type: "function"})
			ch.arguments = append(ch.arguments, new(strings.Builder))
		}
		call := &ch.calls[delta.Index]
		if delta.ID != "" {
			call.ID = delta.ID
		}
		if delta.Type != "" {
			call.Type = delta.Type
		}
		if delta.Function.Name != "" {
			call.Function.Name = delta.Function.Name
		}
		ch.arguments[delta.Index].WriteString(delta.Function.Arguments)
	}
	return nil
}

type (
	wireResponse struct {
		ID      string       `json:"id,omitempty"`
		Object  string       `json:"object"`
		Model   string       `json:"model"`
		Choices []wireChoice `json:"choices"`
		Usage   WireUsage    `json:"usage"`
	}
	wireChoice struct {
		Index   int         `json:"index"`
		Text    *string     `json:"text,omitempty"`
		Message *wireAnswer `json:"message,omitempty"`
		Finish  string      `json:"finish_reason"`
	}
	wireAnswer struct {
		Role      string         `json:"role"`
		Content   *string        `json:"content"`
		Reasoning string         `json:"reasoning_content,omitempty"`
		Refusal   string         `json:"refusal,omitempty"`
		ToolCalls []wireToolCall `json:"tool_calls,omitempty"`
		// As litellm and others name it; OpenAI has nothing for it.
		Thinking []json.RawMessage `json:"thinking_blocks,omitempty"`
	}
	wireToolCall struct {
		ID       string       `json:"id"`
		Type     string       `json:"type"`
		Function ToolFunction `json:"function"`
	}
)

// WireUsage is usage in OpenAI's form.
type WireUsage struct {
	Prompt     int64       `json:"prompt_tokens"`
	Completion *int64      `json:"completion_tokens"`
	Total      int64       `json:"total_tokens"`
	Details    *WireCached `json:"prompt_tokens_details,omitempty"`
	// Created is what Anthropic's own API calls it, and some servers here.
	Created int64 `json:"cache_creation_input_tokens,omitempty"`
	// Cost is OpenRouter's. For work with a key of the user's own (BYOK) it is the
	// fee only, and the provider bills Beside.
	Cost    dollars         `json:"cost,omitempty"`
	OwnKey  json.RawMessage `json:"is_byok,omitempty"`
	Beside  json.RawMessage `json:"cost_details,omitempty"`
	Thought *struct {
		Tokens int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details,omitempty"`
}

// WireCached is what the cache had to do with a prompt: what was written to it as
// OpenAI and OpenRouter call it, as Alibaba's servers do, and as LiteLLM does.
type WireCached struct {
	Cached       int64 `json:"cached_tokens"`
	Written      int64 `json:"cache_write_tokens,omitempty"`
	CreatedInput int64 `json:"cache_creation_input_tokens,omitempty"`
	Created      int64 `json:"cache_creation_tokens,omitempty"`
}

// dollars is an amount as servers state it, -1 if it is none.
type dollars budget.Micros

func (d *dollars) UnmarshalJSON(p []byte) error {
	number := strings.Trim(string(p), `"`)
	if number == "null" {
		number = ""
	}
	micros, ok := budget.FromDollars(number)
	if *d = dollars(micros); !ok {
		*d = -1
	}
	return nil
}

// stated is what the server says that the work costs, -1 if it says what cannot be.
func (u WireUsage) stated() budget.Micros {
	var beside struct {
		Upstream dollars `json:"upstream_inference_cost"`
	}
	if string(u.OwnKey) == "true" {
		json.Unmarshal(u.Beside, &beside) // what is not there is not billed
	}
	if min(u.Cost, beside.Upstream) < 0 {
		return -1
	}
	return min(budget.Micros(u.Cost+beside.Upstream), budget.Most)
}

// Usage returns u, which is of work of kind, as this package counts. A count of
// the answer that is not there, where there is an answer, is -1, which cannot be.
// Some servers count what a model thinks beside the completion: it shows in the
// total, or as more than the completion is.
func (u WireUsage) Usage(kind Kind) Usage {
	usage := Usage{Input: u.Prompt, Written: u.Created, Cost: u.stated()}
	switch {
	case u.Completion != nil:
		usage.Output = *u.Completion
		if u.Thought != nil && u.Thought.Tokens > usage.Output {
			usage.Output += u.Thought.Tokens
		}
		if usage.Output >= 0 && u.Prompt >= 0 {
			usage.Output = max(usage.Output, u.Total-u.Prompt)
		}
	case kind != Embeddings:
		usage.Output = -1
	}
	if d := u.Details; d != nil {
		usage.Cached = d.Cached
		usage.Written = max(u.Created, d.Written, d.CreatedInput, d.Created)
		if low := min(u.Created, d.Written, d.CreatedInput, d.Created); low < 0 {
			usage.Written = low // which cannot be
		}
	}
	return usage
}

func wireUsage(u Usage) WireUsage {
	w := WireUsage{Prompt: u.Input, Completion: &u.Output, Total: u.Input + u.Output}
	if u.Cached > 0 {
		w.Details = &WireCached{Cached: u.Cached}
	}
	return w
}

// Result returns the whole response as one JSON object.
func (a *Answer) Result(usage Usage) json.RawMessage {
	r := wireResponse{ID: a.id, Object: "chat.completion", Model: a.model, Choices: []wireChoice{}, Usage: wireUsage(usage)}
	choices := a.choices
	if len(choices) == 0 {
		choices = make([]choice, 1)
	}
	for i := range choices {
		r.Choices = append(r.Choices, choices[i].wire(i))
	}
	if a.kind == Complete {
		r.Object = "text_completion"
		for i, c := range r.Choices {
			r.Choices[i].Text, r.Choices[i].Message = c.Message.Content, nil
		}
	}
	line := fsys.Line(r)
	return line[:len(line)-1]
}

func (ch *choice) wire(index int) wireChoice {
	text := ch.text.String()
	m := &wireAnswer{Role: "assistant", Content: &text, Reasoning: ch.reasoning.String(), Refusal: ch.refusal.String(), Thinking: ch.thinking}
	for i, call := range slices.All(ch.calls) {
		call.Function.Arguments = ch.arguments[i].String()
		m.ToolCalls = append(m.ToolCalls, wireToolCall{call.ID, call.Type, call.Function})
	}
	if text == "" && (len(m.ToolCalls) > 0 || m.Refusal != "") {
		m.Content = nil
	}
	finish := ch.finish
	if finish == "" {
		finish = "stop"
	}
	return wireChoice{Index: index, Message: m, Finish: finish}
}
