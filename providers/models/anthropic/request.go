package anthropic

import (
	"cmp"
	"encoding/json"

	"agent9/fsys"
	"agent9/providers/models"
	"agent9/providers/models/httpapi"
)

// defaultMaxTokens is asked for where a request sets no bound.
const defaultMaxTokens = 8192

// fields has what becomes of OpenAI's fields that Anthropic has under another
// name, in another form, or not at all; nil leaves one out. All others go out
// as they are.
var fields = map[string]func(b *builder, value json.RawMessage) error{
	"messages":              (*builder).messages,
	"max_tokens":            nil,
	"max_completion_tokens": nil,
	"stream":                nil,
	"stop":                  (*builder).stop,
	"user":                  (*builder).user,
	"tools":                 (*builder).tools,
	"tool_choice":           (*builder).toolChoice,
	"parallel_tool_calls":   (*builder).parallel,
	"response_format":       (*builder).responseFormat,
	"reasoning_effort":      (*builder).effort,
	"n":                     (*builder).one,
	"service_tier":          (*builder).tier,
	"modalities":            refuse("this API answers with text only; leave out modalities"),
	"audio":                 refuse("this API answers with text only; leave out audio"),
	"functions":             refuse("functions are tools now; use tools"),
	"frequency_penalty":     nil,
	"function_call":         nil,
	"logit_bias":            nil,
	"logprobs":              nil,
	"metadata":              (*builder).metadata,
	"prediction":            nil,
	"presence_penalty":      nil,
	"prompt_cache_key":      nil,
	"safety_identifier":     nil,
	"seed":                  nil,
	"store":                 nil,
	"stream_options":        nil,
	"top_logprobs":          nil,
	"verbosity":             nil,
}

// builder is a request in Anthropic's form in the making.
type builder struct {
	req    models.Request
	body   models.Body
	system []json.RawMessage
	turns  []turn
	choice toolChoice
	output outputConfig
}

type toolChoice struct {
	Type     string `json:"type,omitempty"`
	Name     string `json:"name,omitempty"`
	Parallel *bool  `json:"disable_parallel_tool_use,omitempty"`
}

type outputConfig struct {
	Effort string          `json:"effort,omitempty"`
	Format json.RawMessage `json:"format,omitempty"`
}

// translate returns req in Anthropic's form.
func translate(req models.Request) (models.Body, error) {
	b := &builder{req: req}
	for name, value := range req.Body.All() {
		do, ours := fields[name]
		switch {
		case !ours:
			b.body = b.body.Set(name, value)
		case do == nil || string(value) == "null":
		default:
			if err := do(b, value); err != nil {
				return models.Body{}, err
			}
		}
	}
	b.body = b.body.Set("max_tokens", cmp.Or(req.MaxOutput, defaultMaxTokens)).Set("messages", b.turns).Set("stream", true)
	if b.system != nil && !b.body.Has("system") {
		b.body = b.body.Set("system", b.system)
	}
	if b.choice != (toolChoice{}) && b.body.Has("tools") {
		if b.choice.Type == "" {
			b.choice.Type = "auto"
		}
		b.body = b.body.Set("tool_choice", b.choice)
	}
	if (b.output.Effort != "" || b.output.Format != nil) && !b.body.Has("output_config") {
		b.body = b.body.Set("output_config", b.output)
	}
	return b.body, nil
}

// refuse is for fields without which the answer would be another.
func refuse(reason string) func(*builder, json.RawMessage) error {
	return func(*builder, json.RawMessage) error { return fsys.E(fsys.Invalid, reason) }
}

func (b *builder) one(value json.RawMessage) error {
	if string(value) != "1" {
		return fsys.E(fsys.Invalid, "this API gives one answer to a request; leave out n")
	}
	return nil
}

func (b *builder) stop(value json.RawMessage) error {
	var list []string
	if json.Unmarshal(value, &list) != nil {
		list = make([]string, 1)
		if err := httpapi.Read(value, &list[0], "stop", "a string or an array of strings"); err != nil {
			return err
		}
	}
	b.body = b.body.Set("stop_sequences", list)
	return nil
}

type metadata struct {
	UserID string `json:"user_id"`
}

func (b *builder) user(value json.RawMessage) error {
	var m metadata
	if err := httpapi.Read(value, &m.UserID, "user", "a string"); err != nil {
		return err
	}
	b.body = b.body.Set("metadata", m)
	return nil
}

// metadata keeps Anthropic's only field of it.
func (b *builder) metadata(value json.RawMessage) error {
	var m metadata
	if err := httpapi.Read(value, &m, "metadata", "an object of strings"); err != nil {
		return err
	}
	if m.UserID != "" {
		b.body = b.body.Set("metadata", m)
	}
	return nil
}

// tier keeps Anthropic's names, and leaves out OpenAI's.
func (b *builder) tier(value json.RawMessage) error {
	var tier string
	if err := httpapi.Read(value, &tier, "service_tier", "a string"); err != nil {
		return err
	}
	if tier == "auto" || tier == "standard_only" {
		b.body = b.body.Set("service_tier", tier)
	}
	return nil
}

func (b *builder) effort(value json.RawMessage) error {
	effort, err := httpapi.Effort(value)
	if effort == "none" {
		b.body = b.body.Set("thinking", json.RawMessage(`{"type":"disabled"}`))
	} else {
		b.output.Effort = effort
	}
	return err
}

func (b *builder) responseFormat(value json.RawMessage) error {
	kind, schema, err := httpapi.Format(value)
	switch {
	case err != nil, kind == "text":
		return err
	case kind == "json_schema" && schema == nil:
		return fsys.E(fsys.Invalid, "response_format needs json_schema with a schema")
	case kind == "json_schema":
		b.output.Format = httpapi.Raw(struct {
			Type   string          `json:"type"`
			Schema json.RawMessage `json:"schema"`
		}{"json_schema", schema})
		return nil
	}
	return fsys.E(fsys.Invalid, "this API gives JSON only by a schema; use the response_format json_schema")
}
