package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"agent9/fsys"
)

// A piece is a line of a job's chunks file.
type piece struct {
	Choice    int               `json:"choice"`
	Text      string            `json:"text"`
	Reasoning string            `json:"reasoning"`
	Refusal   string            `json:"refusal"`
	ToolCalls json.RawMessage   `json:"tool_calls"`
	Finish    string            `json:"finish_reason"`
	Usage     *pieceUsage       `json:"usage"`
	ID        string            `json:"id"`
	Model     string            `json:"model"`
	Thinking  []json.RawMessage `json:"thinking_blocks"`
}

type pieceUsage struct {
	Input  int64 `json:"input_tokens"`
	Cached int64 `json:"cached_tokens"`
	Output int64 `json:"output_tokens"`
}

// The forms in which OpenAI streams.
type (
	chunk struct {
		ID      string   `json:"id"`
		Object  string   `json:"object"`
		Created int64    `json:"created"`
		Model   string   `json:"model"`
		Choices []choice `json:"choices"`
		Usage   *usage   `json:"usage,omitempty"`
	}
	choice struct {
		Index  int     `json:"index"`
		Delta  *delta  `json:"delta,omitempty"` // of a chat
		Text   *string `json:"text,omitempty"`  // of a completion
		Finish *string `json:"finish_reason"`
	}
	delta struct {
		Role      string            `json:"role,omitempty"`
		Content   *string           `json:"content,omitempty"`
		Reasoning string            `json:"reasoning_content,omitempty"`
		Refusal   string            `json:"refusal,omitempty"`
		ToolCalls json.RawMessage   `json:"tool_calls,omitempty"`
		Thinking  []json.RawMessage `json:"thinking_blocks,omitempty"`
	}
	usage struct {
		Prompt     int64   `json:"prompt_tokens"`
		Completion int64   `json:"completion_tokens"`
		Total      int64   `json:"total_tokens"`
		Details    *cached `json:"prompt_tokens_details,omitempty"`
	}
	cached struct {
		Tokens int64 `json:"cached_tokens"`
	}
)

// heartbeat is how often a client sees that its answer is still coming. Some
// give up on one that does not begin within minutes.
const heartbeat = 15 * time.Second

// stream answers with the chunks of j as they come.
func (c *call) stream(ctx context.Context, j *job) error {
	h, err := fsys.OpenPath(ctx, j.dir, "chunks", fsys.Read)
	if err != nil {
		return err
	}
	defer h.Close()
	f := j.form()
	var held []byte
	buf := make([]byte, 4<<10)
	for off := int64(0); ; {
		n, err := readAlive(ctx, h, buf, off, c.beat)
		off += int64(n)
		held = append(held, buf[:n]...)
		for {
			line, rest, whole := bytes.Cut(held, []byte("\n"))
			if !whole {
				break
			}
			held = rest
			if err := c.piece(f, line); err != nil {
				return err
			}
		}
		if n > 0 {
			if err := c.s.Flush(); err != nil {
				return err
			}
		}
		switch {
		case n == 0 && err == nil, fsys.IsEOF(err):
			return c.finish(ctx, j, f)
		case err != nil:
			return err
		}
	}
}

// readAlive reads h, and calls beat while it waits.
func readAlive(ctx context.Context, h fsys.Handle, p []byte, off int64, beat func() error) (int, error) {
	for {
		wait, cancel := context.WithTimeout(ctx, heartbeat)
		n, err := fsys.ReadAt(wait, h, p, off)
		late := wait.Err() != nil && ctx.Err() == nil
		cancel()
		if n > 0 || !late {
			return n, err
		}
		if err := beat(); err != nil {
			return 0, err
		}
	}
}

// begin says that a stream follows.
func (c *call) begin() {
	if c.s.Answered() {
		return
	}
	h := c.s.W.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
}

func (c *call) beat() error {
	c.begin()
	if _, err := c.s.W.Write([]byte(":\n\n")); err != nil {
		return err
	}
	return c.s.Flush()
}

// send sends one event, whose data are a line.
func (c *call) send(line []byte) error {
	c.begin()
	event := append([]byte("data: "), line...)
	_, err := c.s.W.Write(append(event, '\n'))
	return err
}

// A form makes events of the pieces of one answer.
type form struct {
	kind  string
	chunk chunk        // with what all have in common
	roles map[int]bool // choices whose role was said
	usage *usage
}

func (j *job) form() *form {
	f := &form{kind: j.kind, roles: map[int]bool{}}
	f.chunk = chunk{ID: "chatcmpl-" + j.number, Object: "chat.completion.chunk", Created: j.began.Unix(), Model: j.req.model}
	if j.kind == complete {
		f.chunk.ID, f.chunk.Object = "cmpl-"+j.number, "text_completion"
	}
	return f
}

func (c *call) piece(f *form, line []byte) error {
	var p piece
	if err := json.Unmarshal(line, &p); err != nil {
		return fsys.Wrap(fsys.Internal, "a line of the job's chunks", err)
	}
	if p.ID != "" && len(f.roles) == 0 {
		f.chunk.ID = p.ID
	}
	if p.Model != "" {
		f.chunk.Model = p.Model
	}
	if p.Usage != nil {
		f.usage = p.Usage.wire()
	}
	if ch, ok := f.choice(p); ok {
		return c.send(f.line([]choice{ch}))
	}
	return nil
}

func (u *pieceUsage) wire() *usage {
	w := &usage{Prompt: u.Input, Completion: u.Output, Total: u.Input + u.Output}
	if u.Cached > 0 {
		w.Details = &cached{u.Cached}
	}
	return w
}

func (f *form) line(choices []choice) []byte {
	ch := f.chunk
	ch.Choices = choices
	return fsys.Line(ch)
}

// choice returns what p adds to its answer, if it adds anything.
func (f *form) choice(p piece) (choice, bool) {
	says := p.Text != "" || p.Reasoning != "" || p.Refusal != "" || len(p.ToolCalls) > 0 || len(p.Thinking) > 0
	ch := choice{Index: p.Choice}
	if p.Finish != "" {
		ch.Finish = &p.Finish
	}
	if f.kind == complete {
		ch.Text = &p.Text
		f.roles[p.Choice] = true
		return ch, says || p.Finish != ""
	}
	ch.Delta = &delta{Reasoning: p.Reasoning, Refusal: p.Refusal, ToolCalls: p.ToolCalls, Thinking: p.Thinking}
	if p.Text != "" {
		ch.Delta.Content = &p.Text
	}
	if !says && p.Finish == "" {
		return ch, false
	}
	if !f.roles[p.Choice] {
		f.roles[p.Choice] = true
		ch.Delta.Role = "assistant"
	}
	return ch, true
}

// finish ends the stream of j, which has ended.
func (c *call) finish(ctx context.Context, j *job, f *form) error {
	if err := j.ended(ctx); err != nil {
		return err
	}
	if j.req.usage && f.usage != nil {
		f.chunk.Usage = f.usage
		if err := c.send(f.line([]choice{})); err != nil {
			return err
		}
	}
	if err := c.send([]byte("[DONE]\n")); err != nil {
		return err
	}
	return c.s.Flush()
}

// result returns the whole response of j when it is there.
func (j *job) result(ctx context.Context) ([]byte, error) {
	text, err := fsys.ReadFile(ctx, j.dir, "result")
	if err != nil {
		return nil, err
	}
	return text, j.ended(ctx)
}

// named is text, the response of j, with what clients expect in each and its
// provider has left out.
func (j *job) named(text []byte) []byte {
	var has struct {
		ID      json.RawMessage `json:"id"`
		Created json.RawMessage `json:"created"`
		Model   json.RawMessage `json:"model"`
	}
	rest, object := bytes.CutPrefix(text, []byte("{"))
	if j.kind == embeddings || !object || json.Unmarshal(text, &has) != nil {
		return text
	}
	own, lead := j.form().chunk, "{"
	if has.ID == nil {
		lead += fmt.Sprintf(`"id":%q,`, own.ID)
	}
	if has.Created == nil {
		lead += fmt.Sprintf(`"created":%d,`, own.Created)
	}
	if has.Model == nil {
		name := fsys.Line(own.Model)
		lead += `"model":` + string(name[:len(name)-1]) + ","
	}
	if bytes.HasPrefix(bytes.TrimSpace(rest), []byte("}")) {
		lead = strings.TrimSuffix(lead, ",")
	}
	return append([]byte(lead), rest...)
}

// whole answers with the whole response of j.
func (c *call) whole(ctx context.Context, j *job) error {
	text, err := j.result(ctx)
	if err != nil {
		return err
	}
	c.s.W.Header().Set("Content-Type", "application/json")
	c.s.W.WriteHeader(http.StatusOK)
	_, err = c.s.W.Write(j.named(text))
	return err
}

// streamWhole answers with a stream that is made of the whole response: it has
// parts that do not come in pieces.
func (c *call) streamWhole(ctx context.Context, j *job) error {
	text, err := j.result(ctx)
	if err != nil {
		return err
	}
	var r struct {
		ID      string `json:"id"`
		Created int64  `json:"created"`
		Model   string `json:"model"`
		Choices []struct {
			Index    int             `json:"index"`
			Message  json.RawMessage `json:"message"`
			Text     *string         `json:"text"`
			Logprobs json.RawMessage `json:"logprobs"`
			Finish   *string         `json:"finish_reason"`
		} `json:"choices"`
		Usage *usage `json:"usage"`
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return fsys.Wrap(fsys.Unavailable, "the provider's response", err)
	}
	f := j.form()
	f.usage = r.Usage
	if r.ID != "" {
		f.chunk.ID = r.ID
	}
	if r.Model != "" {
		f.chunk.Model = r.Model
	}
	for _, a := range r.Choices {
		line := fsys.Line(wholeChunk{f.chunk, []wholeChoice{{a.Index, numbered(a.Message), a.Text, a.Logprobs, a.Finish}}})
		if err := c.send(line); err != nil {
			return err
		}
	}
	return c.finish(ctx, j, f)
}

// numbered returns a message as the one delta of a stream, where tool calls
// have an index.
func numbered(message json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	var calls []map[string]json.RawMessage
	if json.Unmarshal(message, &fields) != nil || json.Unmarshal(fields["tool_calls"], &calls) != nil {
		return message
	}
	for i, call := range calls {
		call["index"] = fsys.Line(i)
	}
	fields["tool_calls"] = fsys.Line(calls)
	return fsys.Line(fields)
}

// wholeChunk is a chunk with a whole answer in it.
type wholeChunk struct {
	chunk
	Choices []wholeChoice `json:"choices"`
}

type wholeChoice struct {
	Index    int             `json:"index"`
	Delta    json.RawMessage `json:"delta,omitempty"`
	Text     *string         `json:"text,omitempty"`
	Logprobs json.RawMessage `json:"logprobs,omitempty"`
	Finish   *string         `json:"finish_reason"`
}
