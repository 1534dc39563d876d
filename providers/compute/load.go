package compute

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"agent9/fsys"
	"agent9/namespace/budget"
)

// A Load is the most that a request can make a provider bill. It is computed
// from the body as it goes out, and never from what a request says of its cost.
//
// Text is a token for every byte of the body. A picture is as many tokens as
// one can be, and a part that nobody here can measure (a document, a file that
// is somewhere else) fills the model's context, as does what a tool that the
// provider runs finds. A field that may cost more in a way that is not known
// here makes no Load: see [Request.Load].
type Load struct {
	Input int64 // tokens
	// Answers is how often as many tokens may come as a request allows, and
	// Beside how many more with each. Bounded says that a request bounds them.
	Answers, Beside int64
	Bounded         bool
	// Percent is what the way of serving makes of the price of a token.
	Percent int64
	// Cache says that the input may be put into a cache, and LongCache into one that costs twice.
	Cache, LongCache bool
	// Sound says that sound goes in or out, whose tokens have another price.
	Sound bool
	// Fees are for uses of tools that the provider bills apart.
	Fees budget.Micros
}

// What nobody bounds: how many tokens any context has, a picture that goes in
// at most (at the detail low) and one that comes out; how many tools add to the
// input; the tokens of sound for a byte of what is said.
const (
	maxContext   = 2_000_000
	pictureIn    = 50_000
	pictureInLow = 3_000
	pictureOut   = 32_000
	toolsPrompt  = 1_000
	soundOut     = 8
	transcript   = 16_384
)

// maxTokens is more than any answer has, and little enough to count with.
const maxTokens = 1 << 40

// Load returns the most that r can be billed by a provider whose model has this
// context; 0 is not known. It refuses, with Invalid, what may be billed in a way
// that is not known here, unless allow says of its name that it costs nothing
// more.
func (r Request) Load(context int, allow func(name string) bool) (Load, error) {
	limit := int64(context)
	if limit <= 0 {
		limit = maxContext
	}
	m := measure{limit: limit, allow: allow, load: Load{Percent: 100, Input: int64(len(r.Body.Bytes()))}}
	m.best, m.prompts = max(r.Choices, 1), 1
	for name, value := range r.Body.All() {
		if string(value) == "null" {
			continue
		}
		if err := m.field(r.Kind, name, value); err != nil {
			return Load{}, err
		}
	}
	l := &m.load
	l.Answers = saturated(saturated(m.best, m.prompts), m.uses+1)
	if m.fills {
		l.Input = limit
	}
	l.Input = min(l.Input, limit) + saturated(m.uses, limit)
	switch r.Kind {
	case Chat, Complete:
		l.Bounded = true
	case Embeddings:
		l.Answers = 0
	case Image:
		l.Beside = pictureOut
	case Speak:
		l.Beside = saturated(soundOut, l.Input)
	case Transcribe:
		l.Beside = min(l.Input, transcript)
	}
	return *l, nil
}

// Usage is what l comes to if an answer may have so many tokens.
func (l Load) Usage(tokens int64) Usage {
	if !l.Bounded {
		tokens = 0
	}
	return Usage{Input: l.Input, Output: saturated(min(tokens, maxTokens)+l.Beside, l.Answers)}
}

// Most is the most that l comes to at p, which is a price that [Load.Price] gave,
// if an answer may have so many tokens.
func (l Load) Most(p Price, tokens int64) budget.Micros {
	u := l.Usage(tokens)
	most := Price{Input: max(p.Input, p.Cached, p.Write), Output: p.Output}.Cost(u)
	if p.Long != nil && u.Input > p.LongOver {
		most = max(most, Load{Bounded: l.Bounded, Input: l.Input, Answers: l.Answers, Beside: l.Beside}.Most(*p.Long, tokens))
	}
	return min(most+l.Fees, budget.Most)
}

// Price is what a million tokens of a request cost where they cost p otherwise.
func (l Load) Price(p Price) Price {
	if l.Cache && p.Write <= 0 { // as Anthropic has it
		p.Write = min(p.Input+p.Input/4+1, budget.Most)
	}
	if l.LongCache {
		p.Write = max(p.Write, min(2*p.Input, budget.Most))
	}
	if l.Percent != 100 {
		for _, m := range []*budget.Micros{&p.Input, &p.Cached, &p.Output, &p.Write} {
			*m = times(int64(*m), budget.Micros(l.Percent)*perPrice/100)
		}
	}
	if p.Long != nil {
		long := l.Price(*p.Long)
		p.Long = &long
	}
	return p
}

func saturated(a, b int64) int64 {
	if a <= 0 || b <= 0 {
		return 0
	}
	if a > math.MaxInt64/2/b {
		return math.MaxInt64 / 2
	}
	return a * b
}

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
	"model", "messages", "prompt", "input", "system", "suffix", "max_tokens", "max_completion_tokens", "n", "best_of", "stream", "stream_options",
	"temperature", "top_p", "top_k", "top_a", "min_p", "typical_p", "seed", "stop", "stop_sequences", "stop_token_ids", "ignore_eos", "min_tokens",
	"frequency_penalty", "presence_penalty", "repetition_penalty", "logit_bias", "logprobs", "top_logprobs", "echo", "user", "metadata", "store",
	"safety_identifier", "prompt_cache_key", "prompt_cache_retention", "response_format", "verbosity", "reasoning_effort", "output_config", "output_format",
	"tool_choice", "parallel_tool_calls", "functions", "function_call", "guided_json", "guided_regex", "guided_choice", "guided_grammar", "grammar",
	"chat_template_kwargs", "encoding_format", "dimensions", "input_type", "truncate", "format", "think", "keep_alive", "options", "raw", "template",
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

// field measures one field of a body.
func (m *measure) field(kind Kind, name string, value json.RawMessage) error {
	tree, err := tree(value)
	if err != nil {
		return fsys.Wrap(fsys.Invalid, name, err)
	}
	switch name {
	case "messages", "system":
		m.messages(tree)
	case "tools":
		return m.tools(tree)
	case "prompt":
		m.prompts = prompts(tree)
	case "input":
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
			n, err := whole(fsys.Line(t["budget_tokens"]), "budget_tokens", 0, maxTokens)
			m.load.Beside += n
			return err
		}
	case "modalities", "audio":
		m.load.Sound = m.load.Sound || name == "audio" || !slices.Equal(texts(tree), []string{"text"})
	case "cache_control":
		m.cache(tree)
	default:
		return m.other(kind, name, tree)
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

// prompts is how many a completion has.
func prompts(tree any) int64 {
	list, ok := tree.([]any)
	if !ok || len(list) == 0 {
		return 1
	}
	if _, tokens := list[0].(json.Number); tokens {
		return 1
	}
	return int64(len(list))
}

// The keys that messages and parts of them have that are only text, and the
// types of such parts.
var (
	messageKeys = set("role", "content", "name", "tool_calls", "tool_call_id", "refusal", "reasoning_content", "reasoning", "thinking_blocks", "function_call")
	partKeys    = set("type", "text", "refusal", "cache_control", "thinking", "signature", "data", "id", "name", "input", "tool_use_id", "content",
		"is_error", "input_audio", "index", "function")
	partTypes = set("", "text", "refusal", "thinking", "redacted_thinking", "tool_use", "tool_result", "input_audio", "function")
)

// messages measures a conversation, or what goes before it.
func (m *measure) messages(tree any) {
	list, _ := tree.([]any)
	if one, ok := tree.(map[string]any); ok {
		list = []any{one}
	}
	for _, item := range list {
		msg, ok := item.(map[string]any)
		if !ok {
			continue
		}
		if msg["role"] == nil { // a block of system
			m.part(msg)
			continue
		}
		m.fills = m.fills || !only(msg, messageKeys)
		m.parts(msg["content"])
		m.parts(msg["thinking_blocks"])
	}
}

func (m *measure) parts(tree any) {
	list, _ := tree.([]any)
	for _, item := range list {
		if part, ok := item.(map[string]any); ok {
			m.part(part)
		}
	}
}

func (m *measure) part(part map[string]any) {
	kind, _ := part["type"].(string)
	m.cache(part["cache_control"])
	switch {
	case kind == "image_url" || kind == "image" || kind == "" && part["image_url"] != nil:
		m.picture(part)
	case !partTypes[kind] || !only(part, partKeys):
		m.fills = true
	case kind == "input_audio" || part["input_audio"] != nil:
		m.load.Sound = true
	}
	m.parts(part["content"])
}

// picture counts a picture for what one can be, in place of its bytes.
func (m *measure) picture(part map[string]any) {
	tokens := int64(pictureIn)
	image, _ := part["image_url"].(map[string]any)
	url, _ := part["image_url"].(string)
	if image != nil {
		url, _ = image["url"].(string)
		if image["detail"] == "low" {
			tokens = pictureInLow
		}
	}
	if strings.HasPrefix(url, "data:image/") {
		tokens -= int64(len(url))
	}
	if source, _ := part["source"].(map[string]any); source["type"] == "base64" {
		data, _ := source["data"].(string)
		tokens -= int64(len(data))
	}
	m.load.Input += tokens
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
	list, _ := tree.([]any)
	if len(list) > 0 {
		m.load.Input += toolsPrompt
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

func only(object map[string]any, keys map[string]bool) bool {
	for key, value := range object {
		if !keys[key] && value != nil {
			return false
		}
	}
	return true
}

// tree reads one JSON value, in which no object has a name twice: who reads it
// next might take the other one.
func tree(value json.RawMessage) (any, error) {
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	return branch(d)
}

func branch(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('['):
		list := []any{}
		for d.More() {
			item, err := branch(d)
			if err != nil {
				return nil, err
			}
			list = append(list, item)
		}
		_, err = d.Token()
		return list, err
	case json.Delim('{'):
		object := map[string]any{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			if _, twice := object[name.(string)]; twice {
				return nil, fsys.E(fsys.Invalid, "the field "+name.(string)+" is there twice")
			}
			if object[name.(string)], err = branch(d); err != nil {
				return nil, err
			}
		}
		_, err = d.Token()
		return object, err
	}
	return token, nil
}
