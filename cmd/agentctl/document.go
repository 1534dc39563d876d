package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agent9/fsys"
)

// objectOf is the JSON object with these fields, on one line.
func objectOf(fields []field) json.RawMessage {
	b := []byte{'{'}
	for i, f := range fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, bytes.TrimSpace(fsys.Line(f.name))...)
		b = append(append(b, ':'), f.value...)
	}
	return append(b, '}')
}

// getField returns the field of doc at path, such as "inbox.limit".
func getField(doc json.RawMessage, path string) (json.RawMessage, error) {
	name, rest, deeper := strings.Cut(path, ".")
	fields, err := fieldsOf(doc)
	i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
	switch {
	case err != nil || i < 0:
		return nil, fsys.E(fsys.NotExist, "there is no field "+name)
	case !deeper:
		return fields[i].value, nil
	}
	return getField(fields[i].value, rest)
}

// setField returns doc with value in the field at path, or without that field
// if value is nil. All others stay as they are, in their order.
func setField(doc json.RawMessage, path string, value json.RawMessage) (json.RawMessage, error) {
	name, rest, deeper := strings.Cut(path, ".")
	if name == "" {
		return nil, usagef("a field is a name, or names with dots between them, such as inbox.limit")
	}
	fields, err := fieldsOf(doc)
	if err != nil {
		return nil, usagef("the value before .%s is no object with fields", path)
	}
	i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
	switch {
	case i < 0 && value == nil:
		return nil, fsys.E(fsys.NotExist, "there is no field "+name)
	case deeper:
		inner := json.RawMessage("{}")
		if i >= 0 && string(fields[i].value) != "null" {
			inner = fields[i].value
		}
		if inner, err = setField(inner, rest, value); err != nil {
			return nil, err
		}
		value = inner
	case value == nil:
		return objectOf(slices.Delete(fields, i, i+1)), nil
	}
	if i < 0 {
		return objectOf(append(fields, field{name, value})), nil
	}
	fields[i].value = value
	return objectOf(fields), nil
}

// valueOf is what a person typed as a JSON value: JSON if it is that, else a
// text.
func valueOf(text string) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, []byte(text)) == nil && b.Len() > 0 {
		return b.Bytes()
	}
	return bytes.TrimSpace(fsys.Line(text))
}

// indented is doc for a person.
func indented(doc []byte) []byte {
	var b bytes.Buffer
	if json.Indent(&b, bytes.TrimSpace(doc), "", "  ") != nil {
		return doc
	}
	return append(b.Bytes(), '\n')
}

// compacted is what a person wrote on one line; if it is no JSON, it says
// where.
func compacted(text []byte) ([]byte, error) {
	var b bytes.Buffer
	err := json.Compact(&b, text)
	if err == nil {
		return append(b.Bytes(), '\n'), nil
	}
	var v any
	if syntax, ok := json.Unmarshal(text, &v).(*json.SyntaxError); ok {
		before := text[:min(int(syntax.Offset), len(text))]
		return nil, fsys.E(fsys.Invalid, fmt.Sprintf("line %d: %v", bytes.Count(before, []byte("\n"))+1, syntax))
	}
	return nil, fsys.E(fsys.Invalid, err.Error())
}
