package anthropic

import (
	"encoding/json"
	"strings"

	"agent9/fsys"
	"agent9/providers/models"
	"agent9/providers/models/httpapi"
)

// turn is a message in Anthropic's form. Its content is blocks.
type turn struct {
	Role    string            `json:"role"`
	Content []json.RawMessage `json:"content"`
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

func (b *builder) messages(json.RawMessage) error {
	list, err := httpapi.Messages(b.req)
	if err != nil {
		return err
	}
	for _, m := range list {
		content, err := blocks(m.Parts)
		if err != nil {
			return err
		}
		switch m.Role {
		case "system", "developer":
			b.system = append(b.system, content...)
		case "user":
			b.say("user", content...)
		case "assistant":
			if m.Refusal != "" {
				content = append(content, httpapi.Raw(textBlock{"text", m.Refusal}))
			}
			content = append(m.Thinking, content...)
			for _, c := range m.Calls {
				content = append(content, httpapi.Raw(toolUse{"tool_use", c.ID, c.Name, c.Arguments}))
			}
			b.say("assistant", content...)
		case "tool":
			b.say("user", httpapi.Raw(toolResult{"tool_result", m.CallID, content}))
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

// blocks translates the content of a message. Parts that OpenAI does not have are
// taken to be Anthropic's, which takes no empty text.
func blocks(parts []httpapi.Part) (list []json.RawMessage, err error) {
	for _, p := range parts {
		block := p.Raw
		switch {
		case p.Type == "text" && p.Text == "":
			continue
		case p.Type == "refusal":
			block = httpapi.Raw(textBlock{"text", p.Text})
		case p.Type == "image_url":
			block, err = file("image", p.URL, p.Cache)
		case p.Type == "file":
			block, err = file("document", p.URL, p.Cache)
		case p.Type == "input_audio":
			err = fsys.E(fsys.Invalid, "this API does not listen to sound")
		}
		if err != nil {
			return nil, err
		}
		list = append(list, block)
	}
	return list, nil
}

// file is a block with what is at url, which may be a data: URL.
func file(kind, url string, cache json.RawMessage) (json.RawMessage, error) {
	if strings.HasPrefix(url, "https://") || strings.HasPrefix(url, "http://") {
		return httpapi.Raw(fileBlock{kind, source{Type: "url", URL: url}, cache}), nil
	}
	mediaType, data, err := models.DataURL(url)
	if err != nil {
		return nil, err
	}
	return httpapi.Raw(fileBlock{kind, source{Type: "base64", MediaType: mediaType, Data: data}, cache}), nil
}
