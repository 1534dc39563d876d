package ollama

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"

	"agent9/fsys"
	"agent9/providers/models"
)

// message is one in Ollama's form.
type message struct {
	Role      string     `json:"role"`
	Content   string     `json:"content"`
	Thinking  string     `json:"thinking,omitempty"`
	Images    []string   `json:"images,omitempty"`
	ToolCalls []toolCall `json:"tool_calls,omitempty"`
	ToolName  string     `json:"tool_name,omitempty"`
	ToolID    string     `json:"tool_call_id,omitempty"`
}

type toolCall struct {
	ID       string `json:"id,omitempty"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// openai returns c as the call of this index.
func (c toolCall) openai(index int) models.ToolCall {
	id := c.ID
	if id == "" {
		id = "call_" + strconv.Itoa(index)
	}
	return models.ToolCall{Index: index, ID: id, Type: "function", Function: models.ToolFunction{Name: c.Function.Name, Arguments: string(c.Function.Arguments)}}
}

// options are OpenAI's fields that Ollama has among its options, and their
// names there.
var options = map[string]string{
	"temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "min_p": "min_p", "seed": "seed", "stop": "stop",
	"frequency_penalty": "frequency_penalty", "presence_penalty": "presence_penalty",
}

// passed are the fields that go out as they are.
var passed = []string{"model", "tools", "format", "think", "keep_alive", "suffix", "system", "raw", "template"}

// common translates all but what is asked.
func common(req models.Request) (models.Body, error) {
	var body, opts models.Body
	for _, name := range passed {
		if v := req.Body.Get(name); v != nil {
			body = body.Set(name, v)
		}
	}
	for name, value := range req.Body.All() {
		as := options[name]
		if as == "" || string(value) == "null" {
			continue
		}
		if name == "stop" && value[0] == '"' { // here it is always a list
			value = slices.Concat(json.RawMessage("["), value, json.RawMessage("]"))
		}
		opts = opts.Set(as, value)
	}
	if raw := req.Body.Get("options"); raw != nil {
		own, err := models.ParseBody(raw)
		if err != nil {
			return body, fsys.E(fsys.Invalid, "options must be an object")
		}
		for name, value := range own.All() {
			opts = opts.Set(name, value)
		}
	}
	if req.MaxOutput > 0 { // whatever the options say
		opts = opts.Set("num_predict", req.MaxOutput)
	}
	body = body.Set("options", opts).Set("stream", true)
	if req.Choices > 1 {
		return body, fsys.E(fsys.Invalid, "ollama gives one answer to a request; leave out n")
	}
	return formatted(req, body)
}

// formatted translates response_format and reasoning_effort.
func formatted(req models.Request, body models.Body) (models.Body, error) {
	var format struct {
		Type   string `json:"type"`
		Schema struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	}
	if raw := req.Body.Get("response_format"); raw != nil && json.Unmarshal(raw, &format) != nil {
		return body, fsys.E(fsys.Invalid, "response_format must be an object with a type")
	}
	switch {
	case format.Type == "json_object":
		body = body.Set("format", "json")
	case format.Type == "json_schema" && format.Schema.Schema != nil:
		body = body.Set("format", format.Schema.Schema)
	case format.Type != "" && format.Type != "text":
		return body, fsys.E(fsys.Invalid, "response_format is text, json_object, or json_schema with a schema")
	}
	var effort string
	if raw := req.Body.Get("reasoning_effort"); raw != nil && json.Unmarshal(raw, &effort) != nil {
		return body, fsys.E(fsys.Invalid, "reasoning_effort must be a string")
	}
	switch effort {
	case "":
	case "none":
		body = body.Set("think", false)
	case "minimal":
		body = body.Set("think", "low")
	default:
		body = body.Set("think", effort)
	}
	return body, nil
}

func generate(req models.Request) (models.Body, error) {
	body, err := common(req)
	return body.Set("prompt", req.Prompt), err
}

func chat(req models.Request) (models.Body, error) {
	body, err := common(req)
	if err != nil {
		return body, err
	}
	var list []struct {
		Role      string            `json:"role"`
		Content   json.RawMessage   `json:"content"`
		Reasoning string            `json:"reasoning_content"`
		ToolCalls []models.ToolCall `json:"tool_calls"`
		ToolID    string            `json:"tool_call_id"`
	}
	if json.Unmarshal(req.Body.Get("messages"), &list) != nil {
		return body, fsys.E(fsys.Invalid, "messages must be an array of objects with a role and content")
	}
	var messages []message
	names := map[string]string{} // of tools, by the call's id
	for i, m := range list {
		out := message{Role: m.Role, Content: req.Messages[i].Text, Thinking: m.Reasoning, ToolID: m.ToolID, ToolName: names[m.ToolID]}
		if m.Role == "developer" {
			out.Role = "system"
		}
		if out.Images, err = images(m.Content); err != nil {
			return body, err
		}
		for _, c := range m.ToolCalls {
			names[c.ID] = c.Function.Name
			call := toolCall{ID: c.ID}
			call.Function.Name = c.Function.Name
			call.Function.Arguments = json.RawMessage(c.Function.Arguments)
			if c.Function.Arguments == "" {
				call.Function.Arguments = json.RawMessage("{}")
			}
			if !json.Valid(call.Function.Arguments) {
				return body, fsys.E(fsys.Invalid, "the arguments of the tool call "+c.ID+" are not JSON")
			}
			out.ToolCalls = append(out.ToolCalls, call)
		}
		messages = append(messages, out)
	}
	return body.Set("messages", messages), nil
}

// images returns the pictures in the content of a message, in base64.
func images(content json.RawMessage) ([]string, error) {
	var parts []struct {
		Type  string          `json:"type"`
		Image json.RawMessage `json:"image_url"`
	}
	if len(content) == 0 || content[0] != '[' {
		return nil, nil
	}
	if json.Unmarshal(content, &parts) != nil {
		return nil, fsys.E(fsys.Invalid, "content must be a text or an array of parts")
	}
	var list []string
	for _, p := range parts {
		var image struct {
			URL string `json:"url"`
		}
		switch p.Type {
		case "text":
			continue
		case "image_url":
		default:
			return nil, fsys.E(fsys.Invalid, "ollama takes text and pictures, not "+p.Type)
		}
		if json.Unmarshal(p.Image, &image.URL) != nil && json.Unmarshal(p.Image, &image) != nil {
			return nil, fsys.E(fsys.Invalid, "image_url must be an object with a url")
		}
		_, data, err := models.DataURL(image.URL)
		if err != nil {
			return nil, fsys.E(fsys.Invalid, "ollama takes pictures as data: URLs only, data:TYPE;base64,TEXT")
		}
		list = append(list, base64.StdEncoding.EncodeToString(data))
	}
	return list, nil
}
