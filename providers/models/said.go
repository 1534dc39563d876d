package models

import (
	"encoding/json"
	"slices"
	"strings"

	"agent9/fsys"
)

// What is known of the keys of messages, and of parts of them. Any other costs
// its bytes too, unless it [refers] to something.
var (
	// textKeys have text, whatever it says: it is not looked up.
	textKeys = set("role", "type", "id", "text", "name", "refusal", "thinking", "signature", "reasoning", "reasoning_content", "encrypted_content",
		"tool_call_id", "tool_use_id", "function_call", "function", "custom", "input", "arguments", "is_error", "index", "phase", "title")
	// partKeys have parts, or a text.
	partKeys = set("content", "thinking_blocks", "reasoning_details", "summary", "tool_calls", "annotations")
	// partTypes are the types that are known, with the keys that have text in
	// one of them only.
	partTypes = map[string][]string{
		"": nil, "message": nil, "text": nil, "input_text": nil, "output_text": nil, "summary_text": nil, "refusal": nil,
		"thinking": nil, "redacted_thinking": {"data"}, "reasoning": nil, "reasoning_text": nil, "reasoning.text": nil, "reasoning.summary": nil, "reasoning.encrypted": {"data"},
		"tool_use": nil, "tool_result": nil, "function": nil, "custom": nil, "search_result": {"source"}, "url_citation": {"url_citation", "url"},
		"input_audio": nil, "image_url": nil, "image": {"source"},
	}
	// elsewhere are what is in the names of keys that refer to something.
	elsewhere = []string{"url", "uri", "href", "link", "path", "file", "source", "image", "audio", "video", "media", "data", "document", "attachment", "reference"}
)

// said measures a conversation, what goes before it, and the parts of both.
func (m *measure) said(tree any) error {
	var err error
	switch v := tree.(type) {
	case []any:
		for i := 0; i < len(v) && err == nil; i++ {
			err = m.said(v[i])
		}
	case map[string]any:
		err = m.part(v)
	}
	return err
}

func (m *measure) part(part map[string]any) error {
	kind, _ := part["type"].(string)
	own, known := partTypes[kind]
	if !known || kind == "" && part["role"] == nil && part["function"] == nil && part["id"] != nil {
		m.fills = true
	}
	if kind == "image_url" || kind == "image" || part["image_url"] != nil {
		m.picture(part)
	}
	for key, value := range part {
		var err error
		switch {
		case partKeys[key]:
			err = m.said(value)
		case key == "cache_control":
			m.cache(value)
		case key == "input_audio":
			err = m.sound(value)
		case textKeys[key], key == "image_url", slices.Contains(own, key):
		default:
			m.fills = m.fills || refers(key, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// refers reports whether the value of a key that nobody here knows may be
// something elsewhere, by the key's name or by what a text in it says.
func refers(key string, value any) bool {
	switch v := value.(type) {
	case string:
		if strings.Contains(v, "://") || strings.HasPrefix(v, "data:") {
			return true
		}
		if v == "" {
			return false
		}
	case []any:
		return slices.ContainsFunc(v, func(item any) bool { return refers(key, item) })
	case map[string]any:
		kind, _ := v["type"].(string)
		if _, known := partTypes[kind]; !known {
			return true
		}
		for name, item := range v {
			if refers(key+" "+name, item) {
				return true
			}
		}
		return false
	case json.Number:
	default: // null, true, false
		return false
	}
	name := strings.ReplaceAll(fold(key), "metadata", "")
	return slices.ContainsFunc(elsewhere, func(word string) bool { return strings.Contains(name, word) })
}

const base64Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=\r\n"

// sound counts one that is in the request.
func (m *measure) sound(tree any) error {
	if tree == nil {
		return nil
	}
	m.load.Sound = true
	part, _ := tree.(map[string]any)
	data, ok := part["data"].(string)
	if _, inside, is := strings.Cut(data, ";base64,"); is && strings.HasPrefix(data, "data:") {
		data = inside
	}
	if !ok || strings.Trim(data, base64Digits) != "" {
		return fsys.E(fsys.Invalid, "input_audio needs data with the sound itself, in base64")
	}
	return nil
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
	} else if strings.HasPrefix(url, "data:") {
		m.fills = true
	}
	if source, _ := part["source"].(map[string]any); source["type"] == "base64" {
		data, _ := source["data"].(string)
		tokens -= int64(len(data))
	}
	m.load.Input += tokens
}
