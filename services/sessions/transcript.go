package sessions

import (
	"bytes"
	"context"
	"encoding/json"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/store"
)

// Who says a Line.
const (
	User      = "user"
	Assistant = "assistant"
	System    = "system"
)

// How an answer ended.
const (
	Done      = "done"
	Failed    = "failed"
	Cancelled = "cancelled"
	CutShort  = "interrupted"
)

// A Line is one of a transcript.
//
// What a user says is there from the moment at which its answer begins, in the
// stream at From. An answer is the bytes of the stream from From to To, and
// Text is the same with what is not UTF-8 replaced. Events are created, paused,
// resumed, ended, and cancelled, of a prompt that was not answered.
type Line struct {
	N       int64           `json:"n"` // from 1 on, without gaps
	Time    string          `json:"time"`
	Role    string          `json:"role"`
	Event   string          `json:"event,omitempty"`
	Prompt  int64           `json:"prompt,omitempty"`
	Author  fsys.Caller     `json:"author,omitempty"`
	Text    string          `json:"text,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"` // a prompt that is JSON
	From    *int64          `json:"from,omitempty"`
	To      *int64          `json:"to,omitempty"`
	Outcome string          `json:"outcome,omitempty"`
	Reason  string          `json:"reason,omitempty"`
	Cost    budget.Micros   `json:"cost_microusd,omitempty"`
}

// tail returns the last whole lines of the first size bytes of log, oldest
// first, in no more than most bytes, or the last one if that is longer.
func tail(ctx context.Context, log *store.Log, size, most int64) ([]Line, error) {
	const step = 64 << 10
	var text []byte
	for from := size; from > 0 && (int64(len(text)) <= most || lastLine(text) == 0); {
		piece := make([]byte, min(step, from))
		from -= int64(len(piece))
		if err := readFull(ctx, log, piece, from); err != nil {
			return nil, err
		}
		text = append(piece, text...)
	}
	if cut := int64(len(text)) - most; cut > 0 {
		begin := int(cut) + bytes.IndexByte(text[cut-1:], '\n')
		text = text[min(begin, lastLine(text)):]
	}
	var lines []Line
	for line := range bytes.Lines(text) {
		var l Line
		if err := json.Unmarshal(line, &l); err != nil {
			return nil, fsys.Wrap(fsys.Internal, "a line of a transcript in the database", err)
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// lastLine is where the last line of text begins, as far as text has it.
func lastLine(text []byte) int { return bytes.LastIndexByte(text[:max(0, len(text)-1)], '\n') + 1 }

// readFull fills p with what log has at off.
func readFull(ctx context.Context, log *store.Log, p []byte, off int64) error {
	for n := 0; n < len(p); {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		m, err := log.ReadAt(p[n:], off+int64(n))
		if err != nil {
			return err
		}
		n += m
	}
	return nil
}
