package httpapi

import (
	"encoding/json"
	"strconv"
	"strings"

	"agent9/fsys"
	"agent9/providers/models"
)

// A Message is one of a chat, read for APIs that have another form.
type Message struct {
	Role      string
	Text      string // of all parts
	Parts     []Part // a text that is not empty is one
	Reasoning string
	Refusal   string
	Calls     []Call
	CallID    string            // whose result this is
	Thinking  []json.RawMessage // as the provider gave it
}

// A Part is one of the content of a [Message].
type Part struct {
	Type  string // as OpenAI calls it
	Text  string // of text and refusal
	URL   string // of image_url and file: http, https or data
	Cache json.RawMessage
	Raw   json.RawMessage // the whole part
}

// A Call is one of a tool. Its arguments are JSON.
type Call struct {
	ID, Name  string
	Arguments json.RawMessage
}

// Read reads the JSON of a field, or says what it must be.
func Read(value json.RawMessage, into any, name, want string) error {
	if json.Unmarshal(value, into) != nil {
		return fsys.E(fsys.Invalid, name+" must be "+want)
	}
	return nil
}

// Messages reads those of req.
func Messages(req models.Request) ([]Message, error) {
	var list []struct {
		Role      string            `json:"role"`
		Content   json.RawMessage   `json:"content"`
		Reasoning string            `json:"reasoning_content"`
		Refusal   string            `json:"refusal"`
		ToolCalls []models.ToolCall `json:"tool_calls"`
		CallID    string            `json:"tool_call_id"`
		Thinking  []json.RawMessage `json:"thinking_blocks"`
	}
	if err := Read(req.Body.Get("messages"), &list, "messages", "an array of objects with a role and content"); err != nil {
		return nil, err
	}
	var messages []Message
	for i, m := range list {
		out := Message{Role: m.Role, Text: req.Messages[i].Text, Reasoning: m.Reasoning, Refusal: m.Refusal, CallID: m.CallID, Thinking: m.Thinking}
		var err error
		if out.Parts, err = parts(m.Content); err != nil {
			return nil, err
		}
		for _, c := range m.ToolCalls {
			arguments := json.RawMessage(c.Function.Arguments)
			if strings.TrimSpace(c.Function.Arguments) == "" {
				arguments = json.RawMessage("{}")
			}
			if !json.Valid(arguments) {
				return nil, fsys.E(fsys.Invalid, "the arguments of the tool call "+c.ID+" are not JSON")
			}
			out.Calls = append(out.Calls, Call{c.ID, c.Function.Name, arguments})
		}
		messages = append(messages, out)
	}
	return messages, nil
}

// parts reads content: a text, null, or parts.
func parts(content json.RawMessage) ([]Part, error) {
	const want = "a text or an array of parts"
	var text string
	if content == nil || json.Unmarshal(content, &text) == nil {
		if text == "" {
			return nil, nil
		}
		return []Part{{Type: "text", Text: text, Raw: Raw(struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}{"text", text})}}, nil
	}
	var raws []json.RawMessage
	if err := Read(content, &raws, "content", want); err != nil {
		return nil, err
	}
	var list []Part
	for _, raw := range raws {
		var p struct {
			Type    string          `json:"type"`
			Text    string          `json:"text"`
			Refusal string          `json:"refusal"`
			Image   json.RawMessage `json:"image_url"`
			File    struct {
				Data string `json:"file_data"`
			} `json:"file"`
			Cache json.RawMessage `json:"cache_control"`
		}
		if err := Read(raw, &p, "content", want); err != nil {
			return nil, err
		}
		var image struct {
			URL string `json:"url"`
		}
		if p.Type == "image_url" && json.Unmarshal(p.Image, &image.URL) != nil && json.Unmarshal(p.Image, &image) != nil {
			return nil, fsys.E(fsys.Invalid, "image_url must be an object with a url")
		}
		list = append(list, Part{Type: p.Type, Text: p.Text + p.Refusal, URL: image.URL + p.File.Data, Cache: p.Cache, Raw: raw})
	}
	return list, nil
}

// Format reads response_format, which may be nil: its type, which may be empty, and
// the schema of json_schema.
func Format(value json.RawMessage) (kind string, schema json.RawMessage, err error) {
	var format struct {
		Type   string `json:"type"`
		Schema struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	}
	if value != nil {
		err = Read(value, &format, "response_format", "an object with a type")
	}
	return format.Type, format.Schema.Schema, err
}

// Effort reads reasoning_effort, which may be nil, with low for minimal, which OpenAI alone has.
func Effort(value json.RawMessage) (effort string, err error) {
	if value != nil {
		err = Read(value, &effort, "reasoning_effort", "a string")
	}
	if effort == "minimal" {
		effort = "low"
	}
	return effort, err
}

// A ToolCall is a call in an answer that is whole: with a name and arguments of
// its own or in a function, arguments as a text or as JSON, and maybe no ID.
type ToolCall struct {
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Function  struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// OpenAI returns c as the call of this index.
func (c ToolCall) OpenAI(index int) models.ToolCall {
	call := models.ToolCall{Index: index, ID: c.ID, Type: "function", Function: models.ToolFunction{Name: c.Name, Arguments: Text(c.Arguments)}}
	if c.Name == "" {
		call.Function = models.ToolFunction{Name: c.Function.Name, Arguments: Text(c.Function.Arguments)}
	}
	if call.ID == "" {
		call.ID = "call_" + strconv.Itoa(index)
	}
	return call
}

// Text is a value as a text: that of a string without its quotes.
func Text(v json.RawMessage) string {
	var text string
	if v == nil || json.Unmarshal(v, &text) == nil {
		return text
	}
	return string(v)
}

// Raw is v as JSON, on one line.
func Raw(v any) json.RawMessage {
	line := fsys.Line(v)
	return line[:len(line)-1]
}
