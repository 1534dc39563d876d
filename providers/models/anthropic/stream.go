package anthropic

import (
	"cmp"
	"encoding/json"
	"strings"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/models"
	"agent9/providers/models/httpapi"
)

// stream is one answer as far as it came: content blocks one after another,
// each with a start, deltas and a stop.
type stream struct {
	*httpapi.Stream
	api *httpapi.API

	usage usage
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

// event is one of a stream, as Anthropic's "Streaming messages" has them.
type event struct {
	Type    string `json:"type"`
	Message struct {
		ID    string `json:"id"`
		Model string `json:"model"`
		Usage usage  `json:"usage"`
	} `json:"message"`
	Block json.RawMessage `json:"content_block"`
	Delta delta           `json:"delta"`
	Usage usage           `json:"usage"`
}

// delta is what a block begins with or grows by, or why the message ended.
type delta struct {
	Type       string `json:"type"`
	Name       string `json:"name"`
	ID         string `json:"id"`
	Text       string `json:"text"`
	Thinking   string `json:"thinking"`
	Signature  string `json:"signature"`
	Arguments  string `json:"partial_json"`
	StopReason string `json:"stop_reason"`
}

type usage struct {
	Input    int64  `json:"input_tokens"`
	Read     int64  `json:"cache_read_input_tokens"`
	Written  int64  `json:"cache_creation_input_tokens"`
	Output   *int64 `json:"output_tokens"`
	Geo      string `json:"inference_geo"`
	Speed    string `json:"speed"`
	ToolUses struct {
		Searches int64 `json:"web_search_requests"`
	} `json:"server_tool_use"`
}

// event takes the data of one event.
func (s *stream) event(data []byte) (more bool, err error) {
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		return false, httpapi.NotAnAnswer(err)
	}
	switch e.Type {
	case "message_start":
		s.ID, s.Model, s.usage = e.Message.ID, e.Message.Model, e.Message.Usage
		s.Prompt = s.usage.tokens()
		for field, way := range map[string]string{"inference_geo": s.usage.Geo, "speed": s.usage.Speed} {
			if percent := s.Req.Dearer(field, way); percent > 0 {
				s.Percent = max(s.Percent, 100) * percent / 100
			}
		}
	case "content_block_start":
		return true, s.start(e.Block)
	case "content_block_delta":
		return true, s.grow(e.Delta)
	case "content_block_stop":
		return true, s.stop()
	case "message_delta":
		s.count(e.Usage)
		return true, s.Send(models.Chunk{Finish: finish(e.Delta.StopReason)})
	case "message_stop":
		s.Done = true
		return false, nil
	case "error":
		return false, s.api.BrokeOff(codeOf(data), data)
	}
	return true, nil // ping, and what there will be
}

func (s *stream) start(content json.RawMessage) error {
	var b delta
	if err := json.Unmarshal(content, &b); err != nil {
		return httpapi.NotAnAnswer(err)
	}
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
		return s.Send(models.Chunk{Thinking: []json.RawMessage{httpapi.OneLine(content)}})
	}
	return nil
}

func (s *stream) grow(d delta) error {
	switch d.Type {
	case "text_delta":
		return s.Send(models.Chunk{Text: d.Text})
	case "input_json_delta":
		if d.Arguments == "" || s.block.kind != "tool_use" {
			return nil
		}
		s.block.arguments = true
		return s.Send(call(s.calls-1, models.ToolCall{Function: models.ToolFunction{Arguments: d.Arguments}}))
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
		return s.Send(models.Chunk{Thinking: []json.RawMessage{httpapi.Raw(thinking{"thinking", b.thinking.String(), b.signature})}})
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
func (s *stream) count(u usage) {
	s.usage.Input = cmp.Or(u.Input, s.usage.Input)
	s.usage.Read = cmp.Or(u.Read, s.usage.Read)
	s.usage.Written = cmp.Or(u.Written, s.usage.Written)
	s.usage.Output = u.Output
	s.usage.ToolUses.Searches = max(u.ToolUses.Searches, s.usage.ToolUses.Searches)
	if s.Usage = nil; u.Output != nil {
		s.Count(*s.usage.tokens())
	}
}

// tokens counts as OpenAI does: what the cache has to do with is part of the
// input.
func (u usage) tokens() *models.Usage {
	used := &models.Usage{
		Input:   u.Input + u.Read + u.Written,
		Cached:  u.Read,
		Written: u.Written,
		Fees:    budget.Micros(u.ToolUses.Searches) * models.SearchFee,
	}
	if u.Output != nil {
		used.Output = *u.Output
	}
	return used
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
