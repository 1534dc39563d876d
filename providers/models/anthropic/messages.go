package anthropic

import (
	"encoding/json"
	"strings"

	"agent9/fsys"
	"agent9/providers/models"
)

// turn is a message in Anthropic's form. Its content is blocks.
type turn struct {
	Role    string            `json:"role"`
	Content []json.RawMessage `json:"content"`
}

// message is one in OpenAI's form.
type message struct {
	Role       string            `json:"role"`
	Content    json.RawMessage   `json:"content"`
	Refusal    string            `json:"refusal"`
	ToolCalls  []models.ToolCall `json:"tool_calls"`
	ToolCallID string            `json:"tool_call_id"`
	Thinking   []json.RawMessage `json:"thinking_blocks"`
}

type (
	textBlock struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	toolUse struct {
		Type  string          `json:"type"`
		ID    string          `json:"id"`
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	}
	toolResult struct {
		Type      string            `json:"type"`
		ToolUseID string            `json:"tool_use_id"`
		Content   []json.RawMessage `json:"content,omitempty"`
	}
	fileBlock struct { // a picture or a document
		Type         string          `json:"type"`
		Source       source          `json:"source"`
		CacheControl json.RawMessage `json:"cache_control,omitempty"`
	}
	source struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type,omitempty"`
		Data      []byte `json:"data,omitempty"`
		URL       string `json:"url,omitempty"`
	}
)

func (b *builder) messages(value json.RawMessage) error {
	var list []message
	if err := read(value, &list, "messages", "an array of objects with a role and content"); err != nil {
		return err
	}
	for _, m := range list {
		content, err := blocks(m.Content)
		if err != nil {
			return err
		}
		switch m.Role {
		case "system", "developer":
			b.system = append(b.system, content...)
		case "user":
			b.say("user", content...)
		case "assistant":
			calls, err := m.calls()
			if err != nil {
				return err
			}
			if m.Refusal != "" {
				content = append(content, raw(textBlock{"text", m.Refusal}))
			}
			b.say("assistant", append(append(m.Thinking, content...), calls...)...)
		case "tool":
			b.say("user", raw(toolResult{"tool_result", m.ToolCallID, content}))
		default:
			return fsys.E(fsys.Invalid, "the role of a message is system, developer, user, assistant or tool, not "+m.Role)
		}
	}
	return nil
}

// say adds blocks to the conversation. Those of one role after another are one
// turn: the results of tools must all be in the turn after the calls.
func (b *builder) say(role string, content ...json.RawMessage) {
	if len(content) == 0 {
		return
	}
	if n := len(b.turns); n > 0 && b.turns[n-1].Role == role {
		b.turns[n-1].Content = append(b.turns[n-1].Content, content...)
		return
	}
	b.turns = append(b.turns, turn{role, content})
}

func (m message) calls() ([]json.RawMessage, error) {
	var list []json.RawMessage
	for _, c := range m.ToolCalls {
		input := json.RawMessage(c.Function.Arguments)
		if strings.TrimSpace(c.Function.Arguments) == "" {
			input = json.RawMessage("{}")
		}
		if !json.Valid(input) {
			return nil, fsys.E(fsys.Invalid, "the arguments of the tool call "+c.ID+" are not JSON")
		}
		list = append(list, raw(toolUse{"tool_use", c.ID, c.Function.Name, input}))
	}
	return list, nil
}

// blocks translates the content of a message: a text, null, or parts.
func blocks(content json.RawMessage) ([]json.RawMessage, error) {
	var text string
	var parts []json.RawMessage
	if content == nil || json.Unmarshal(content, &text) == nil {
		if text != "" {
			parts = append(parts, raw(textBlock{"text", text}))
		}
		return parts, nil // the API takes no empty text
	}
	if err := read(content, &parts, "content", "a text or an array of parts"); err != nil {
		return nil, err
	}
	var list []json.RawMessage
	for _, p := range parts {
		block, err := part(p)
		if err != nil {
			return nil, err
		}
		if block != nil {
			list = append(list, block)
		}
	}
	return list, nil
}

// part translates one part. Those that OpenAI does not have are taken to be
// Anthropic's.
func part(p json.RawMessage) (json.RawMessage, error) {
	var c struct {
		Type     string          `json:"type"`
		Text     string          `json:"text"`
		Refusal  string          `json:"refusal"`
		ImageURL json.RawMessage `json:"image_url"`
		File     struct {
			Data string `json:"file_data"`
		} `json:"file"`
		CacheControl json.RawMessage `json:"cache_control"`
	}
	if err := read(p, &c, "content", "a text or an array of parts"); err != nil {
		return nil, err
	}
	switch c.Type {
	case "text":
		if c.Text == "" {
			return nil, nil
		}
	case "refusal":
		return raw(textBlock{"text", c.Refusal}), nil
	case "image_url":
		var image struct {
			URL string `json:"url"`
		}
		if json.Unmarshal(c.ImageURL, &image.URL) != nil && json.Unmarshal(c.ImageURL, &image) != nil {
			return nil, fsys.E(fsys.Invalid, "image_url must be an object with a url")
		}
		return file("image", image.URL, c.CacheControl)
	case "file":
		return file("document", c.File.Data, c.CacheControl)
	case "input_audio":
		return nil, fsys.E(fsys.Invalid, "this API does not listen to sound")
	}
	return p, nil
}

// file is a block with what is at url, which may be a data: URL.
func file(kind, url string, cache json.RawMessage) (json.RawMessage, error) {
	if strings.HasPrefix(url, "https://") || strings.HasPrefix(url, "http://") {
		return raw(fileBlock{kind, source{Type: "url", URL: url}, cache}), nil
	}
	mediaType, data, err := models.DataURL(url)
	if err != nil {
		return nil, err
	}
	return raw(fileBlock{kind, source{Type: "base64", MediaType: mediaType, Data: data}, cache}), nil
}
