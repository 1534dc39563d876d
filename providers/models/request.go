package models

import (
	"encoding/json"
	"slices"
	"strings"

	"agent9/fsys"
)

// Kind is a kind of model work.
type Kind string

const (
	Chat       Kind = "chat"       // messages in, a message out
	Complete   Kind = "complete"   // a prompt in, text out
	Embeddings Kind = "embeddings" // texts in, vectors out
	Image      Kind = "image"      // a prompt in, pictures out
	Transcribe Kind = "transcribe" // speech in, text out
	Speak      Kind = "speak"      // text in, speech out
)

// Kinds is every Kind that there is.
var Kinds = []Kind{Chat, Complete, Embeddings, Image, Transcribe, Speak}

// A Request asks a model for output.
type Request struct {
	Kind  Kind
	Model string
	// Body is OpenAI's request body of this Kind, with "model" set if a model
	// is. Fields that nobody here knows are in it as they were submitted.
	Body Body

	// What was understood of Body.
	Messages  []Message
	Prompt    string // of Complete and of the kinds with a text in "input"
	MaxOutput int64  // tokens; 0 if the request sets no bound
	Choices   int64  // how many answers are wanted; at least 1
	// NoStream says that the answer is wanted, or can be had, only whole.
	NoStream bool
}

// A Message is one turn of a conversation.
type Message struct {
	Role string
	Text string // the text of its content, without what is not text
}

// Ask returns the request of kind Chat that asks model one thing. With no
// model it is for the provider's default.
func Ask(model, text string) Request {
	body := Body{}
	if model != "" {
		body = body.Set("model", model)
	}
	body = body.Set("messages", []struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}{{"user", text}})
	req, err := ParseRequest(Chat, body)
	if err != nil {
		panic(err) // made here, so it is well formed
	}
	return req
}

// ParseRequest reads what is needed of an OpenAI body. kind may be empty: the
// body then tells, by having messages, a prompt or an input. It is strict
// about the types of the fields that it reads, and leaves all others alone.
func ParseRequest(kind Kind, body Body) (Request, error) {
	if kind == "" {
		switch {
		case body.Has("messages"):
			kind = Chat
		case body.Has("prompt"):
			kind = Complete
		case body.Has("input"):
			kind = Embeddings
		default:
			return Request{}, fsys.E(fsys.Invalid, "a request needs messages, a prompt or an input")
		}
	}
	if !slices.Contains(Kinds, kind) {
		return Request{}, fsys.E(fsys.Invalid, "there is no kind "+string(kind)+" of work")
	}
	req := Request{Kind: kind, Body: body, Choices: 1}
	if err := req.parse(); err != nil {
		return Request{}, err
	}
	return req, nil
}

func (r *Request) parse() error {
	var newMax, oldMax *int64
	var messages []wireMessage
	var logprobs json.RawMessage
	var stream *bool
	b := r.Body
	for _, f := range []struct {
		name, want string
		into       any
	}{
		{"model", "a string", &r.Model},
		{"messages", "an array of objects with a role and content", &messages},
		{"max_completion_tokens", "a whole number", &newMax},
		{"max_tokens", "a whole number", &oldMax},
		{"n", "a whole number", &r.Choices},
		{"stream", "true or false", &stream},
		{"logprobs", "", &logprobs},
	} {
		if raw := b.Get(f.name); raw != nil && json.Unmarshal(raw, f.into) != nil {
			return fsys.E(fsys.Invalid, f.name+" must be "+f.want)
		}
	}
	for _, most := range []*int64{newMax, oldMax} {
		if most == nil {
			continue
		}
		if *most < 1 {
			return fsys.E(fsys.Invalid, "max_tokens and max_completion_tokens must be at least 1")
		}
		r.MaxOutput = max(r.MaxOutput, *most)
	}
	if r.Choices < 1 || r.Choices > 128 {
		return fsys.E(fsys.Invalid, "n must be from 1 to 128")
	}
	// Log probabilities and sound are not put together from pieces here.
	whole := logprobs != nil && string(logprobs) != "false" && string(logprobs) != "null"
	r.NoStream = stream != nil && !*stream || whole || b.Has("modalities")
	return r.input(messages)
}

// input reads what is asked.
func (r *Request) input(messages []wireMessage) error {
	switch r.Kind {
	case Chat:
		if len(messages) == 0 {
			return fsys.E(fsys.Invalid, "a chat needs at least one message")
		}
		for _, m := range messages {
			if m.Role == "" {
				return fsys.E(fsys.Invalid, "every message needs a role")
			}
			r.Messages = append(r.Messages, Message{m.Role, m.Content.text})
		}
		return nil
	case Transcribe:
		_, _, err := r.File()
		return err
	}
	name := "input"
	if r.Kind == Complete || r.Kind == Image {
		name = "prompt"
	}
	raw := r.Body.Get(name)
	if raw == nil || string(raw) == "null" {
		return fsys.E(fsys.Invalid, "a request of kind "+string(r.Kind)+" needs "+name)
	}
	if json.Unmarshal(raw, &r.Prompt) != nil {
		r.Prompt = string(raw) // several texts, or tokens
	}
	return nil
}

// Last returns what the user said last: the text of the last message whose
// role is user, or the prompt.
func (r Request) Last() string {
	for _, m := range slices.Backward(r.Messages) {
		if m.Role == "user" {
			return m.Text
		}
	}
	return r.Prompt
}

// WithModel returns r for model.
func (r Request) WithModel(model string) Request {
	r.Model = model
	r.Body = r.Body.Set("model", model)
	return r
}

// Names reports whether the body has a field that is not null.
func (r Request) Names(field string) bool {
	value := r.Body.Get(field)
	return value != nil && string(value) != "null"
}

// Bounded returns r with an answer of at most so many tokens, which its body
// does not say yet: drivers write it in the words of their API.
func (r Request) Bounded(tokens int64) Request {
	r.MaxOutput = tokens
	for _, name := range []string{"max_tokens", "max_completion_tokens"} {
		r.Body = r.Body.Delete(name) // null
	}
	return r
}

type wireMessage struct {
	Role    string  `json:"role"`
	Content content `json:"content"`
}

// content is a string, null, or an array of parts of which some are text.
type content struct{ text string }

func (c *content) UnmarshalJSON(p []byte) error {
	if len(p) == 0 || p[0] != '[' {
		return json.Unmarshal(p, &c.text)
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(p, &parts); err != nil {
		return err
	}
	var texts []string
	for _, part := range parts {
		if part.Text != "" {
			texts = append(texts, part.Text)
		}
	}
	c.text = strings.Join(texts, "\n")
	return nil
}
