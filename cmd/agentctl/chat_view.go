package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"agent9/cmd/internal/plain"
)

// A saying is what chat uses of a line of a transcript.
type saying struct {
	Role    string          `json:"role"`
	Event   string          `json:"event"`
	Prompt  int64           `json:"prompt"`
	Author  string          `json:"author"`
	Text    string          `json:"text"`
	Data    json.RawMessage `json:"data"`
	From    int64           `json:"from"`
	To      int64           `json:"to"`
	Outcome string          `json:"outcome"`
	Reason  string          `json:"reason"`

	at int64 // where in the stream it is to be shown
}

// final reports whether nothing more is said about the prompt.
func (l saying) final() bool {
	return l.Role == "assistant" && l.Outcome != "interrupted" || l.Event == "cancelled"
}

// A view shows a session: the answers as the stream brings them, and between
// them what the transcript says about where in the stream that was.
type view struct {
	talk *talk

	read    int64    // of the transcript
	line    []byte   // the beginning of one, of which the rest is to come
	waiting []saying // to be shown when the stream has come there
	last    int64    // where the last one is to be shown

	pos     int64  // of the stream, shown
	have    []byte // from there on
	running int64  // the prompt that is being answered
	atStart bool   // of a line
	asking  bool   // the person sees that it is his turn
}

// said takes a piece of the transcript.
func (v *view) said(p piece) error {
	if len(p.text) == 0 {
		v.flush()
		return errLeave
	}
	v.read += int64(len(p.text))
	v.line = append(v.line, p.text...)
	for {
		line, rest, whole := bytes.Cut(v.line, []byte("\n"))
		if !whole {
			break
		}
		v.line = rest
		l := saying{at: v.last}
		if err := json.Unmarshal(line, &l); err != nil {
			return err
		}
		switch l.Role {
		case "user":
			l.at = l.From
		case "assistant":
			l.at = l.To
		}
		v.last = max(l.at, v.pos)
		if v.talk.Bool("json") {
			fmt.Fprintf(v.talk.App.Writer, "%s\n", line)
			v.pos = l.at
		}
		v.waiting = append(v.waiting, l)
	}
	v.flush()
	return nil
}

// came takes a piece of the stream. All that the transcript says of it is
// there by now, and is read first.
func (v *view) came(p piece) error {
	v.have = append(v.have, p.text...)
	l := v.talk.link
	size, err := l.size(v.talk.path("transcript"))
	for err == nil && v.read < size {
		select {
		case p := <-l.transcript:
			err = v.said(p)
		case err = <-l.lost:
		}
	}
	v.flush()
	if len(p.text) == 0 {
		l.stream = nil // the transcript ends too
	}
	return err
}

// flush shows what can be shown.
func (v *view) flush() {
	for len(v.waiting) > 0 {
		l := v.waiting[0]
		if v.show(l.at - v.pos); v.pos < l.at {
			return
		}
		v.waiting = v.waiting[1:]
		v.tell(l)
	}
	if v.running != 0 {
		v.show(int64(len(v.have)))
	}
}

// show prints up to n bytes of the answer.
func (v *view) show(n int64) {
	if n = min(n, int64(len(v.have))); n <= 0 {
		return
	}
	if v.asking {
		v.newline()
	}
	text := v.have[:n]
	v.talk.App.Writer.Write(text)
	v.atStart = text[n-1] == '\n'
	v.have, v.pos = v.have[n:], v.pos+n
}

// tell shows what is not in the stream.
func (v *view) tell(l saying) {
	own := v.talk.own[l.Prompt]
	switch {
	case l.Role == "user":
		v.running = l.Prompt
		if own && v.talk.terminal {
			v.asking, v.atStart = false, true // he sees what he wrote
		} else {
			v.print(v.talk.App.Writer, plain.Line(l.Author)+"> "+l.Text+string(l.Data))
		}
	case l.Outcome == "failed":
		v.print(v.talk.App.ErrWriter, plain.Line(fmt.Sprintf("agentctl: prompt %d failed: %s", l.Prompt, l.Reason)))
		v.talk.failed = v.talk.failed || own
	case l.Outcome == "cancelled", l.Event == "cancelled":
		v.print(v.talk.App.Writer, plain.Line(fmt.Sprintf("[prompt %d: %s]", l.Prompt, l.Reason)))
	case l.Outcome == "interrupted":
		v.print(v.talk.App.Writer, "[interrupted; the answer begins again]")
	case l.Event != "" && l.Event != "created":
		text := l.Event
		if l.Author != "" {
			text += " by " + l.Author
		}
		if l.Reason != "" {
			text += ": " + l.Reason
		}
		v.print(v.talk.App.Writer, plain.Line("["+text+"]"))
	}
	if l.final() {
		delete(v.talk.own, l.Prompt)
		if l.Role == "assistant" {
			v.running = 0
			v.newline()
		}
		v.ready()
	}
}

// print prints a line of its own, but for JSON, which has it already.
func (v *view) print(w io.Writer, text string) {
	if v.talk.Bool("json") && w == v.talk.App.Writer {
		return
	}
	v.newline()
	fmt.Fprintln(w, text)
	v.ready()
}

// newline ends the line that was begun.
func (v *view) newline() {
	if !v.atStart {
		fmt.Fprintln(v.talk.App.Writer)
	}
	v.atStart, v.asking = true, false
}

// ready shows a person that it is his turn.
func (v *view) ready() {
	if v.talk.terminal && v.running == 0 && !v.asking && !v.talk.Bool("json") {
		fmt.Fprint(v.talk.App.Writer, "> ")
		v.atStart, v.asking = false, true
	}
}
