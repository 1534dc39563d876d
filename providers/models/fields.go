package models

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"agent9/fsys"
	"agent9/namespace/budget"
)

// measure is a Load in the making.
type measure struct {
	limit int64
	allow func(name string) bool
	load  Load
	// best is how many answers are made to each of prompts.
	best, prompts int64
	// Something fills the context, and so often again do the tools that the
	// provider runs.
	fills bool
	uses  int64
}

// plain are the fields that cost nothing but their bytes. Those that bound or
// multiply the answer are read by [ParseRequest] and [measure.field].
var plain = set(
	"model", "suffix", "max_tokens", "max_completion_tokens", "n", "stream", "stream_options", "session_id",
	"temperature", "top_p", "top_k", "top_a", "min_p", "typical_p", "seed", "random_seed", "stop", "stop_sequences", "stop_token_ids", "ignore_eos", "min_tokens",
	"frequency_penalty", "presence_penalty", "repetition_penalty", "length_penalty", "logit_bias", "logprobs", "top_logprobs", "echo", "user", "metadata", "store",
	"safety_identifier", "prompt_cache_key", "prompt_cache_retention", "cache_prompt", "response_format", "verbosity", "reasoning_effort", "include_reasoning",
	"output_config", "output_format", "tool_choice", "parallel_tool_calls", "function_call", "guided_json", "guided_regex", "guided_choice", "guided_grammar",
	"grammar", "structured_outputs", "add_generation_prompt", "skip_special_tokens", "return_token_ids", "encoding_format", "dimensions", "input_type",
	"truncate", "format", "think", "keep_alive", "options",
	"size", "quality", "style", "background", "output_compression", "moderation", "partial_images", "width", "height", "negative_prompt", "guidance",
	"voice", "instructions", "stream_format", "file", "filename", "language", "timestamp_granularities", "include", "chunking_strategy", "lora",
)

// served are the fields that change the price of a token, in percent by their
// value: OpenAI's priority is up to 2.5 times as much (2026-06), Anthropic's
// inference in one country 1.1 times and its fast mode six times. What is
// cheaper is not counted as such.
var served = map[string]map[string]int64{
	"service_tier":  {"auto": 100, "default": 100, "standard": 100, "standard_only": 100, "flex": 100, "priority": 250},
	"inference_geo": {"global": 100, "us": 110},
	"speed":         {"standard": 100, "fast": 600},
}

// Dearer is the percentage of the price at which r was held for that its answer
// costs, which says how it was served in a field that r may have too, such as
// service_tier; 0 if that is no more than was asked for, or not known.
func (r Request) Dearer(field, way string) int64 {
	var asked string
	json.Unmarshal(r.Body.Get(field), &asked) // what is not there is none
	was := max(served[field][asked], 100)
	if percent := served[field][way]; percent > was {
		return (percent*100 + was - 1) / was
	}
	return 0
}

// field measures one field of a body, whose value is also there as a tree.
func (m *measure) field(r Request, name string, value json.RawMessage, tree any) error {
	switch name {
	case "messages", "system":
		return m.said(tree)
	case "tools":
		return m.tools(tree)
	case "functions":
		m.load.Input += added
	case "prompt", "input":
		m.prompts = max(m.prompts, prompts(tree))
		list, _ := tree.([]any)
		m.fills = m.fills || slices.ContainsFunc(list, func(item any) bool { _, is := item.(map[string]any); return is })
	case "best_of":
		n, err := whole(value, name, 1, 128)
		m.best = max(m.best, n)
		return err
	case "prediction":
		m.load.Beside += int64(len(value)) // what was not right is billed too
	case "thinking":
		if t, ok := tree.(map[string]any); ok && t["budget_tokens"] != nil {
			return m.thinks(fsys.Line(t["budget_tokens"]), "budget_tokens")
		}
	case "thinking_budget":
		return m.thinks(value, name)
	case "enable_thinking":
		if tree != false && !r.Names("thinking_budget") && (m.allow == nil || !m.allow(name)) {
			return fsys.E(fsys.Invalid, "enable_thinking needs thinking_budget, as not all servers count what is thought among max_tokens")
		}
	case "safe_prompt":
		m.load.Input += added // by the server, before the messages
	case "modalities", "audio":
		m.load.Sound = m.load.Sound || name == "audio" || !slices.Equal(texts(tree), []string{"text"})
	case "cache_control":
		m.cache(tree)
	case "raw", "template", "chat_template_kwargs":
		if templates(tree) {
			return m.unknown("the template in", name)
		}
	default:
		return m.other(r.Kind, name, tree)
	}
	return nil
}

func (m *measure) other(kind Kind, name string, tree any) error {
	if name == "speed" && kind == Speak || plain[name] {
		return nil
	}
	if ways := served[name]; ways != nil {
		way, _ := tree.(string)
		percent, ok := ways[way]
		if ok {
			m.load.Percent = m.load.Percent * percent / 100
			return nil
		}
		name += " " + fmt.Sprint(tree)
	}
	return m.unknown("the field", name)
}

// unknown refuses what may cost more, unless the policy knows better.
func (m *measure) unknown(what, name string) error {
	if m.allow != nil && m.allow(name) {
		return nil
	}
	return fsys.E(fsys.Invalid, fmt.Sprintf("nobody here knows what %s %s may cost; leave it out, or let the policy have it among allow_fields", what, name))
}

// thinks counts what is thought beside an answer.
func (m *measure) thinks(value json.RawMessage, name string) error {
	n, err := whole(value, name, 0, maxTokens)
	m.load.Beside += n
	return err
}

// prompts is how many there are: each has an answer, and a context.
func prompts(tree any) int64 {
	list, _ := tree.([]any)
	if !slices.ContainsFunc(list, func(item any) bool { _, token := item.(json.Number); return !token }) {
		return 1
	}
	return int64(len(list))
}

// templates reports whether a value, or one in it, may be a template, or be
// what one repeats: all but switches, numbers and a few words.
func templates(tree any) bool {
	switch v := tree.(type) {
	case string:
		return len(v) > 64 || strings.ContainsAny(v, "{}%")
	case []any:
		return len(v) > 0
	case map[string]any:
		for key, value := range v {
			if _, deep := value.(map[string]any); deep || strings.Contains(fold(key), "template") || templates(value) {
				return true
			}
		}
	}
	return false
}

// cache notes a cache that keeps what is put into it for longer, and costs more
// than the one of a Price.
func (m *measure) cache(tree any) {
	m.load.Cache = m.load.Cache || tree != nil
	if c, ok := tree.(map[string]any); ok && c["ttl"] != nil && c["ttl"] != "5m" {
		m.load.LongCache = true
	}
}

// SearchFee is what Anthropic bills for a search of its web_search, besides
// the tokens of what it finds ("Pricing" of its API documentation, 2026-10).
const SearchFee budget.Micros = 10_000

// The tools that whoever asks runs, by how their types begin, and those that the
// provider runs, with its fee for a use.
var (
	ownTools   = []string{"function", "custom", "bash_", "text_editor_", "computer_", "memory_"}
	theirTools = map[string]budget.Micros{"web_search_": SearchFee, "web_fetch_": 0}
)

func (m *measure) tools(tree any) error {
	list, ok := tree.([]any)
	if !ok {
		return fsys.E(fsys.Invalid, "tools must be an array")
	}
	if len(list) > 0 {
		m.load.Input += added
	}
	for _, item := range list {
		tool, _ := item.(map[string]any)
		m.cache(tool["cache_control"])
		kind, _ := tool["type"].(string)
		begins := func(prefix string) bool { return strings.HasPrefix(kind, prefix) }
		if kind == "" && tool["name"] != nil && tool["input_schema"] != nil || slices.ContainsFunc(ownTools, begins) {
			continue
		}
		prefix, ok := first(maps.Keys(theirTools), begins)
		if !ok {
			if err := m.unknown("the tool", "tools."+kind); err != nil {
				return err
			}
			continue
		}
		uses, err := whole(fsys.Line(tool["max_uses"]), "max_uses of the tool "+kind+", which the provider runs,", 1, 100)
		if err != nil {
			return err
		}
		m.uses += uses
		m.load.Fees += budget.Micros(uses) * theirTools[prefix]
	}
	return nil
}

func first[T any](seq func(func(T) bool), ok func(T) bool) (found T, is bool) {
	for v := range seq {
		if ok(v) {
			return v, true
		}
	}
	return found, false
}

func texts(tree any) (list []string) {
	items, _ := tree.([]any)
	for _, item := range items {
		text, _ := item.(string)
		list = append(list, text)
	}
	return list
}

// whole reads a whole number from least to most.
func whole(value json.RawMessage, name string, least, most int64) (n int64, err error) {
	value = bytes.TrimSpace(value)
	if string(value) == "null" || json.Unmarshal(value, &n) != nil || n < least || n > most {
		return least, fsys.E(fsys.Invalid, fmt.Sprintf("%s must be a whole number from %d to %d", name, least, most))
	}
	return n, nil
}

func set(names ...string) map[string]bool {
	s := map[string]bool{}
	for _, name := range names {
		s[name] = true
	}
	return s
}
