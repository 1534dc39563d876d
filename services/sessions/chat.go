package sessions

import (
	"context"
	"encoding/json"
)

// historyBytes is how much of a transcript a model is told.
const historyBytes = 256 << 10

// chat is a request to a model.
type chat struct {
	Model    string    `json:"model,omitempty"`
	Messages []message `json:"messages"`
	Key      string    `json:"idempotency_key"`
}

type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"` // a string, or parts
}

func say(role, text string) message {
	content, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string has a JSON form
	}
	return message{role, content}
}

// chat is what the model is asked: what was said so far, and t.
func (m Model) chat(ctx context.Context, t Turn) (chat, error) {
	req := chat{Model: m.Name}
	if m.Prompt != "" {
		req.Messages = append(req.Messages, say("system", m.Prompt))
	}
	lines, err := t.History(ctx, historyBytes)
	if err != nil {
		return req, err
	}
	req.Messages = append(append(req.Messages, said(lines)...), asked(t.Text, t.Data))
	return req, nil
}

// said is what a model is told of lines: the prompts that were answered, with
// their answers.
func said(lines []Line) (messages []message) {
	var prompt *Line
	for i, l := range lines {
		switch {
		case l.Role == User:
			prompt = &lines[i]
		case l.Role == Assistant && l.Text != "" && prompt != nil && l.Prompt == prompt.Prompt &&
			(l.Outcome == Done || l.Outcome == Cancelled):
			messages = append(messages, asked(prompt.Text, prompt.Data), say("assistant", l.Text))
		}
	}
	return messages
}

// asked is a prompt as a model is told it. JSON with a field content in
// OpenAI's form is such a message; other JSON is told as its text.
func asked(text string, data json.RawMessage) message {
	if data == nil {
		return say("user", text)
	}
	var m message
	if json.Unmarshal(data, &m) == nil && len(m.Content) > 0 && (m.Content[0] == '"' || m.Content[0] == '[') {
		return message{"user", m.Content}
	}
	return say("user", string(data))
}
