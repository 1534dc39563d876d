package anthropic

import (
	"encoding/json"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/models"
	"agent9/providers/models/httpapi"
)

// stream is one answer as far as it came: content blocks one after another,
// each with a start, deltas and a stop.
type stream struct {
	httpapi.Stream
	api *httpapi.API

	usage anthropic.Usage
	calls int // tool calls that have begun
	block block
}

// block is the content block that is being sent.
type block struct {
	kind      string
	arguments bool // of a tool call have come
	thinking  strings.Builder
	signature string
}

// event takes the data of one event.
func (s *stream) event(data []byte) (more bool, err error) {
	var e anthropic.MessageStreamEventUnion
	if err := json.Unmarshal(data, &e); err != nil {
		return false, httpapi.NotAnAnswer(err)
	}
	switch e.Type {
	case "message_start":
		s.ID, s.Model, s.usage = e.Message.ID, e.Message.Model, e.Message.Usage
		s.Prompt = s.tokens()
		for field, way := range map[string]string{"inference_geo": s.usage.InferenceGeo, "speed": string(s.usage.Speed)} {
			if percent := s.Req.Dearer(field, way); percent > 0 {
				s.Percent = max(s.Percent, 100) * percent / 100
			}
		}
	case "content_block_start":
		return true, s.start(e.ContentBlock)
	case "content_block_delta":
		return true, s.delta(e.Delta)
	case "content_block_stop":
		return true, s.stop()
	case "message_delta":
		s.count(e.Usage)
		return true, s.Send(models.Chunk{Finish: finish(string(e.Delta.StopReason))})
	case "message_stop":
		s.Done = true
		return false, nil
	case "error":
		return false, s.api.BrokeOff(codeOf(data), data)
	}
	return true, nil // ping, and what there will be
}

func (s *stream) start(b anthropic.ContentBlockStartEventContentBlockUnion) error {
	s.block = block{kind: b.Type}
	switch b.Type {
	case "text":
		return s.Send(models.Chunk{Text: b.Text})
	case "tool_use":
		s.calls++
		return s.Send(call(s.calls-1, models.ToolCall{ID: b.ID, Type: "function", Function: models.ToolFunction{Name: b.Name}}))
	case "thinking":
		s.block.thinking.WriteString(b.Thinking)
		s.block.signature = b.Signature
		return s.Send(models.Chunk{Reasoning: b.Thinking})
	case "redacted_thinking":
		return s.Send(models.Chunk{Thinking: []json.RawMessage{httpapi.OneLine([]byte(b.RawJSON()))}})
	}
	return nil
}

func (s *stream) delta(d anthropic.MessageStreamEventUnionDelta) error {
	switch d.Type {
	case "text_delta":
		return s.Send(models.Chunk{Text: d.Text})
	case "input_json_delta":
		if d.PartialJSON == "" || s.block.kind != "tool_use" {
			return nil
		}
		s.block.arguments = true
		return s.Send(call(s.calls-1, models.ToolCall{Function: models.ToolFunction{Arguments: d.PartialJSON}}))
	case "thinking_delta":
		s.block.thinking.WriteString(d.Thinking)
		return s.Send(models.Chunk{Reasoning: d.Thinking})
	case "signature_delta":
		s.block.signature += d.Signature
	}
	return nil
}

func (s *stream) stop() error {
	b := s.block
	s.block = block{}
	switch {
	case b.kind == "tool_use" && !b.arguments:
		return s.Send(call(s.calls-1, models.ToolCall{Function: models.ToolFunction{Arguments: "{}"}}))
	case b.kind == "thinking" && b.signature != "":
		return s.Send(models.Chunk{Thinking: []json.RawMessage{raw(thinking{"thinking", b.thinking.String(), b.signature})}})
	}
	return nil
}

func call(index int, c models.ToolCall) models.Chunk {
	c.Index = index
	return models.Chunk{ToolCalls: []models.ToolCall{c}}
}

type thinking struct {
	Type      string `json:"type"`
	Thinking  string `json:"thinking"`
	Signature string `json:"signature"`
}

// count takes the counts of the end, which are sums; those of the input that are
// not there stay as at the start. Without those of the output nothing is counted.
func (s *stream) count(u anthropic.MessageDeltaUsage) {
	for _, c := range []struct {
		sum  int64
		into *int64
	}{
		{u.InputTokens, &s.usage.InputTokens},
		{u.CacheReadInputTokens, &s.usage.CacheReadInputTokens},
		{u.CacheCreationInputTokens, &s.usage.CacheCreationInputTokens},
	} {
		if c.sum != 0 {
			*c.into = c.sum
		}
	}
	s.usage.OutputTokens = u.OutputTokens
	if n := u.ServerToolUse.WebSearchRequests; n > 0 {
		s.usage.ServerToolUse.WebSearchRequests = n
	}
	if !u.JSON.OutputTokens.Valid() {
		s.Usage = nil
		return
	}
	s.Count(*s.tokens())
}

// tokens counts as OpenAI does: what the cache has to do with is part of the
// input.
func (s *stream) tokens() *models.Usage {
	u := s.usage
	return &models.Usage{
		Input:   u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens,
		Cached:  u.CacheReadInputTokens,
		Written: u.CacheCreationInputTokens,
		Output:  u.OutputTokens,
		Fees:    budget.Micros(u.ServerToolUse.WebSearchRequests) * models.SearchFee,
	}
}

// finish says in OpenAI's words why an answer ended.
func finish(reason string) string {
	switch reason {
	case "end_turn", "stop_sequence":
		return "stop"
	case "max_tokens", "model_context_window_exceeded":
		return "length"
	case "tool_use":
		return "tool_calls"
	case "refusal":
		return "content_filter"
	}
	return reason
}

// codeOf is the class of an error in the middle of a stream.
func codeOf(data []byte) fsys.Code {
	var e struct {
		Error struct {
			Type string `json:"type"`
		} `json:"error"`
	}
	json.Unmarshal(data, &e) // what is not there is Unavailable
	switch e.Error.Type {
	case "rate_limit_error":
		return fsys.Busy
	case "invalid_request_error":
		return fsys.Invalid
	case "timeout_error":
		return fsys.Timeout
	}
	return fsys.Unavailable
}
