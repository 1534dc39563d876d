package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"agent9/cmd/internal/plain"
	"agent9/fsys"
)

// What others wrote does not command a terminal: [run] makes App.Writer and
// App.ErrWriter of terminals such that it cannot, and what is a line for a
// person, in a pipe too, goes through [plain.Line]. plain.Bare is for the
// sequences of our own, and for what is meant to be the user's terminal.

// jsonFlag is that of a command whose output is otherwise for people: JSON
// lines, an object each, whose fields are called as in the tree's files.
func jsonFlag() cli.Flag {
	return &cli.BoolFlag{Name: "json", Usage: "print JSON lines, for programs"}
}

// A table is printed with its columns aligned, when it is flushed.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer, header ...string) *table {
	t := &table{tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)}
	if len(header) > 0 {
		fmt.Fprintln(t.w, strings.Join(header, "\t"))
	}
	return t
}

func (t *table) row(cells ...any) {
	for i, c := range cells {
		if i > 0 {
			io.WriteString(t.w, "\t")
		}
		io.WriteString(t.w, plain.Line(fmt.Sprint(c)))
	}
	io.WriteString(t.w, "\n")
}

func (t *table) flush() error { return t.w.Flush() }

// printJSON prints v as a line of JSON.
func (s *session) printJSON(v any) error {
	_, err := s.App.Writer.Write(fsys.Line(v))
	return err
}

// raw is a JSON file's content as part of a JSON object; a text if it is no JSON.
func raw(b []byte) json.RawMessage {
	switch b = bytes.TrimSpace(b); {
	case len(b) == 0:
		return json.RawMessage("null")
	case !json.Valid(b):
		return bytes.TrimSpace(fsys.Line(string(b)))
	}
	return b
}

// short is text cut to n characters.
func short(text string, n int) string {
	if r := []rune(text); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return text
}

// firstLine is what text begins with, for a table.
func firstLine(text []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(text), []byte("\n"))
	return short(string(line), 60)
}

// orDash is what a table says, if that is something.
func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
