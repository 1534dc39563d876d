package anthropic

import (
	"encoding/json"

	"agent9/fsys"
	"agent9/providers/models/httpapi"
)

// tool is a tool in Anthropic's form.
type tool struct {
	Name         string          `json:"name"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"input_schema"`
	Strict       *bool           `json:"strict,omitempty"`
	CacheControl json.RawMessage `json:"cache_control,omitempty"`
}

// tools translates functions; other tools are taken to be Anthropic's.
func (b *builder) tools(value json.RawMessage) error {
	var list []json.RawMessage
	if err := httpapi.Read(value, &list, "tools", "an array of objects"); err != nil {
		return err
	}
	for i, item := range list {
		var t struct {
			Type     string `json:"type"`
			Function struct {
				Name        string          `json:"name"`
				Description string          `json:"description"`
				Parameters  json.RawMessage `json:"parameters"`
				Strict      *bool           `json:"strict"`
			} `json:"function"`
			CacheControl json.RawMessage `json:"cache_control"`
		}
		if err := httpapi.Read(item, &t, "tools", "an array of objects"); err != nil {
			return err
		}
		if t.Type != "function" {
			continue
		}
		f := t.Function
		if f.Parameters == nil {
			f.Parameters = json.RawMessage(`{"type":"object"}`)
		}
		list[i] = httpapi.Raw(tool{f.Name, f.Description, f.Parameters, f.Strict, t.CacheControl})
	}
	if len(list) > 0 {
		b.body = b.body.Set("tools", list)
	}
	return nil
}

func (b *builder) toolChoice(value json.RawMessage) error {
	var word string
	if json.Unmarshal(value, &word) == nil {
		types := map[string]string{"auto": "auto", "none": "none", "required": "any"}
		if b.choice.Type = types[word]; b.choice.Type == "" {
			return fsys.E(fsys.Invalid, "tool_choice must be auto, none, required or a function")
		}
		return nil
	}
	var choice struct {
		Type     string `json:"type"`
		Name     string `json:"name"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if err := httpapi.Read(value, &choice, "tool_choice", "auto, none, required or a function"); err != nil {
		return err
	}
	if choice.Type == "function" {
		choice.Type, choice.Name = "tool", choice.Function.Name
	}
	b.choice.Type, b.choice.Name = choice.Type, choice.Name
	return nil
}

func (b *builder) parallel(value json.RawMessage) error {
	var parallel bool
	if err := httpapi.Read(value, &parallel, "parallel_tool_calls", "true or false"); err != nil {
		return err
	}
	if !parallel {
		disable := true
		b.choice.Parallel = &disable
	}
	return nil
}
