package models

import (
	"bytes"
	"encoding/json"
	"io"
	"iter"
	"slices"

	"agent9/fsys"
)

// A Body is a JSON object that is mostly passed on: its members in the order
// in which they came, each value as it was written. The zero value is {}.
// Set and Delete return a changed copy.
type Body struct{ members []member }

type member struct {
	name  string
	value json.RawMessage
}

// ParseBody reads one JSON object. The reason of its error says what is wrong
// with the text.
func ParseBody(p []byte) (Body, error) {
	d := json.NewDecoder(bytes.NewReader(p))
	open, err := d.Token()
	if err != nil {
		return Body{}, fsys.Wrap(fsys.Invalid, "not JSON", err)
	}
	if open != json.Delim('{') {
		return Body{}, fsys.E(fsys.Invalid, "a request is a JSON object")
	}
	var b Body
	var seen names
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return Body{}, fsys.Wrap(fsys.Invalid, "not JSON", err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return Body{}, fsys.Wrap(fsys.Invalid, "not JSON", err)
		}
		if err := seen.add(name.(string), false); err != nil {
			return Body{}, err
		}
		b.members = append(b.members, member{name.(string), value})
	}
	if _, err := d.Token(); err != nil {
		return Body{}, fsys.Wrap(fsys.Invalid, "not JSON", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return Body{}, fsys.E(fsys.Invalid, "there is data after the JSON object")
	}
	return b, nil
}

func (b Body) find(name string) int {
	return slices.IndexFunc(b.members, func(m member) bool { return m.name == name })
}

// Get returns the value of a field, or nil.
func (b Body) Get(name string) json.RawMessage {
	if i := b.find(name); i >= 0 {
		return b.members[i].value
	}
	return nil
}

// Has reports whether there is such a field.
func (b Body) Has(name string) bool { return b.find(name) >= 0 }

// All yields the fields in their order.
func (b Body) All() iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		for _, m := range b.members {
			if !yield(m.name, m.value) {
				return
			}
		}
	}
}

// Set returns b with a field whose value is the JSON of v. It panics if v has
// none.
func (b Body) Set(name string, v any) Body {
	m := member{name, bytes.TrimSuffix(fsys.Line(v), []byte("\n"))}
	members := slices.Clone(b.members)
	if i := b.find(name); i >= 0 {
		members[i] = m
	} else {
		members = append(members, m)
	}
	return Body{members}
}

// Delete returns b without a field.
func (b Body) Delete(name string) Body {
	i := b.find(name)
	if i < 0 {
		return b
	}
	return Body{slices.Delete(slices.Clone(b.members), i, i+1)}
}

// Bytes returns b as JSON.
func (b Body) Bytes() []byte {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, m := range b.members {
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(bytes.TrimSuffix(fsys.Line(m.name), []byte("\n")))
		out.WriteByte(':')
		out.Write(m.value)
	}
	out.WriteByte('}')
	return out.Bytes()
}

func (b Body) MarshalJSON() ([]byte, error) { return b.Bytes(), nil }

func (b *Body) UnmarshalJSON(p []byte) error {
	parsed, err := ParseBody(p)
	*b = parsed
	return err
}
