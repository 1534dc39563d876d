package ollama

import (
	"encoding/base64"
	"encoding/json"
	"slices"

	"agent9/fsys"
	"agent9/providers/models"
	"agent9/providers/models/httpapi"
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
	ID       string   `json:"id,omitempty"`
	Function function `json:"function"`
}

type function struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
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
	kind, schema, err := httpapi.Format(req.Body.Get("response_format"))
	if err != nil {
		return body, err
	}
	switch {
	case kind == "json_object":
		body = body.Set("format", "json")
	case kind == "json_schema" && schema != nil:
		body = body.Set("format", schema)
	case kind != "" && kind != "text":
		return body, fsys.E(fsys.Invalid, "response_format is text, json_object, or json_schema with a schema")
	}
	switch effort, err := httpapi.Effort(req.Body.Get("reasoning_effort")); {
	case err != nil:
		return body, err
	case effort == "none":
		body = body.Set("think", false)
	case effort != "":
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
	list, err := httpapi.Messages(req)
	if err != nil {
		return body, err
	}
	var messages []message
	names := map[string]string{} // of tools, by the call's id
	for _, m := range list {
		out := message{Role: m.Role, Content: m.Text, Thinking: m.Reasoning, ToolID: m.CallID, ToolName: names[m.CallID]}
		if m.Role == "developer" {
			out.Role = "system"
		}
		if out.Images, err = images(m.Parts); err != nil {
			return body, err
		}
		for _, c := range m.Calls {
			names[c.ID] = c.Name
			out.ToolCalls = append(out.ToolCalls, toolCall{c.ID, function{c.Name, c.Arguments}})
		}
		messages = append(messages, out)
	}
	return body.Set("messages", messages), nil
}

// images returns the pictures among parts, in base64.
func images(parts []httpapi.Part) (list []string, err error) {
	for _, p := range parts {
		switch p.Type {
		case "text":
			continue
		case "image_url":
		default:
			return nil, fsys.E(fsys.Invalid, "ollama takes text and pictures, not "+p.Type)
		}
		_, data, err := models.DataURL(p.URL)
		if err != nil {
			return nil, fsys.E(fsys.Invalid, "ollama takes pictures as data: URLs only, data:TYPE;base64,TEXT")
		}
		list = append(list, base64.StdEncoding.EncodeToString(data))
	}
	return list, nil
}
