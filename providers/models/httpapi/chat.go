package httpapi

import (
	"encoding/json"

	"agent9/providers/models"
)

// ChatEvent is one event of a stream in OpenAI's form, of a chat or of a
// completion.
type ChatEvent struct {
	ID      string `json:"id"`
	Model   string `json:"model"`
	Choices []struct {
		Index        int    `json:"index"`
		Delta        Delta  `json:"delta"`
		Message      Delta  `json:"message"` // of a whole response; see [ChatEvent.Whole]
		Text         string `json:"text"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage *models.WireUsage `json:"usage"`
	Tier  string            `json:"service_tier"`
	Error json.RawMessage   `json:"error"`
}

// Delta is a message, or what it grew by.
type Delta struct {
	Content          string            `json:"content"`
	ReasoningContent string            `json:"reasoning_content"`
	Reasoning        string            `json:"reasoning"`
	Refusal          string            `json:"refusal"`
	ToolCalls        []models.ToolCall `json:"tool_calls"`
}

// Chunk returns d in our form.
func (d Delta) Chunk() models.Chunk {
	c := models.Chunk{Text: d.Content, Reasoning: d.ReasoningContent, Refusal: d.Refusal, ToolCalls: d.ToolCalls}
	if c.Reasoning == "" {
		c.Reasoning = d.Reasoning
	}
	return c
}

// Failed reports whether e is an error.
func (e *ChatEvent) Failed() bool { return e.Error != nil && string(e.Error) != "null" }

// Whole makes e, which is a whole response, an event that has all of it.
func (e *ChatEvent) Whole() {
	for i := range e.Choices {
		c := &e.Choices[i]
		for j := range c.Message.ToolCalls { // which need no indices
			c.Message.ToolCalls[j].Index = j
		}
		c.Delta = c.Message
	}
}

// Add passes e on.
func (s *Stream) Add(e ChatEvent) error {
	if s.size == 0 {
		s.ID, s.Model = e.ID, e.Model
	}
	for _, choice := range e.Choices {
		c := choice.Delta.Chunk()
		c.Choice, c.Finish = choice.Index, choice.FinishReason
		c.Text += choice.Text
		if err := s.Send(c); err != nil {
			return err
		}
	}
	if e.Tier != "" {
		s.Percent = s.Req.Dearer("service_tier", e.Tier)
	}
	if e.Usage != nil {
		u := e.Usage.Usage(s.Req.Kind)
		s.Count(u)
	}
	return nil
}
