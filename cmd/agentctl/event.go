package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"agent9/cmd/internal/money"
	"agent9/cmd/internal/plain"
)

// eventLines shows lines of JSON, as events are, to a person: the time, whose
// event, what, and what more is known. A line that is no event is shown as it is.
type eventLines struct {
	w    io.Writer
	glob string // of the events that are shown; empty: all
	json bool   // show the lines as they are
	rest []byte // of a line that is not whole
}

// eventLines returns what shows events as the flags of the command say.
func (s *session) eventLines() *eventLines {
	return &eventLines{w: s.App.Writer, glob: s.String("event"), json: s.Bool("json")}
}

func (e *eventLines) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		e.rest = append(e.rest, line...)
		if !bytes.HasSuffix(e.rest, []byte("\n")) {
			break
		}
		err := e.show(e.rest)
		if e.rest = e.rest[:0]; err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

func (e *eventLines) show(line []byte) error {
	fields, err := fieldsOf(line)
	if err == nil && e.glob != "" {
		if ok, _ := path.Match(e.glob, textOfField(fields, "event")); !ok {
			return nil
		}
	}
	if e.json {
		_, err := e.w.Write(line)
		return err
	}
	text := string(bytes.TrimSuffix(line, []byte("\n")))
	if err == nil {
		text = eventText(fields)
	}
	_, err = fmt.Fprintln(e.w, plain.Line(text))
	return err
}

// A field is one of a JSON object, in whose order they stay.
type field struct {
	name  string
	value json.RawMessage
}

// fieldsOf returns the fields of the JSON object in b.
func fieldsOf(b []byte) (list []field, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return nil, fmt.Errorf("not a JSON object")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		list = append(list, field{name.(string), value})
	}
	_, err = d.Token()
	return list, err
}

// textOfField returns the field called name, if it is a text.
func textOfField(fields []field, name string) (text string) {
	for _, f := range fields {
		if f.name == name {
			json.Unmarshal(f.value, &text)
		}
	}
	return text
}

func eventText(fields []field) string {
	words := make([]string, 0, len(fields))
	for _, name := range []string{"time", "agent", "account", "event"} {
		if text := textOfField(fields, name); text != "" {
			words = append(words, text)
		}
	}
	for _, f := range fields {
		switch f.name {
		case "time", "agent", "account", "event":
		default:
			words = append(words, fieldText(f))
		}
	}
	return strings.Join(words, "  ")
}

// fieldText is a field as NAME=VALUE; money is in dollars.
func fieldText(f field) string {
	name, value := f.name, string(f.value)
	if short, ok := strings.CutSuffix(name, "_microusd"); ok {
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			return short + "=" + money.Text(n)
		}
	}
	var text string
	if json.Unmarshal(f.value, &text) == nil {
		if value = text; strings.ContainsAny(text, " \t\r\n\"") || text == "" {
			value = strconv.Quote(text)
		}
	}
	return name + "=" + value
}
