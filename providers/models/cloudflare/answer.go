package cloudflare

import (
	"encoding/json"

	"agent9/fsys"
	"agent9/providers/models"
	"agent9/providers/models/httpapi"
)

// answer is an answer as far as it came.
type answer struct {
	*httpapi.Stream
	api    *httpapi.API
	calls  int
	finish bool // a chunk had a finish reason
}

// piece is an event of a stream, or a whole response, in either form.
type piece struct {
	httpapi.ChatEvent
	// The API's own form.
	Response  json.RawMessage    `json:"response"` // a text; with JSON asked for also an object
	ToolCalls []httpapi.ToolCall `json:"tool_calls"`
	Errors    json.RawMessage    `json:"errors"`
}

func (a *answer) event(data []byte) error {
	var p piece
	if err := json.Unmarshal(data, &p); err != nil {
		return httpapi.NotAnAnswer(err)
	}
	if p.Failed() || len(p.Errors) > 0 && string(p.Errors) != "[]" && string(p.Errors) != "null" {
		return a.api.BrokeOff(fsys.Unavailable, data)
	}
	return a.add(p)
}

func (a *answer) add(p piece) error {
	for _, c := range p.Choices {
		a.finish = a.finish || c.FinishReason != ""
	}
	usage := p.Usage // is of what is said below, too
	p.Usage = nil
	if err := a.Add(p.ChatEvent); err != nil {
		return err
	}
	c := models.Chunk{Text: httpapi.Text(p.Response)}
	for _, call := range p.ToolCalls {
		c.ToolCalls = append(c.ToolCalls, call.OpenAI(a.calls))
		a.calls++
	}
	err := a.Send(c)
	if usage != nil {
		a.Count(usage.Usage(a.Req.Kind))
	}
	return err
}

// done ends an answer. The API's own form does not say why it ended.
func (a *answer) done() error {
	a.Done = true
	if a.finish {
		return nil
	}
	if a.calls > 0 {
		return a.Send(models.Chunk{Finish: "tool_calls"})
	}
	return a.Send(models.Chunk{Finish: "stop"})
}

// whole takes a response that came in one piece.
func (a *answer) whole(raw []byte) error {
	var r struct {
		Result struct {
			piece
			Choices []struct {
				Message struct {
					httpapi.Delta
					ToolCalls []httpapi.ToolCall `json:"tool_calls"`
				} `json:"message"`
				Text         string `json:"text"`
				FinishReason string `json:"finish_reason"`
			} `json:"choices"`
		} `json:"result"`
		Success *bool `json:"success"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return httpapi.NotAnAnswer(err)
	}
	if r.Success != nil && !*r.Success {
		return a.api.BrokeOff(fsys.Unavailable, raw)
	}
	for _, choice := range r.Result.Choices {
		c := choice.Message.Chunk()
		c.Text += choice.Text
		c.ToolCalls, c.Finish = nil, choice.FinishReason
		a.finish = a.finish || c.Finish != ""
		r.Result.ToolCalls = append(r.Result.ToolCalls, choice.Message.ToolCalls...)
		if err := a.Send(c); err != nil {
			return err
		}
	}
	if err := a.add(r.Result.piece); err != nil {
		return err
	}
	return a.done()
}
