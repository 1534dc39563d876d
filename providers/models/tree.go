package models

import (
	"bytes"
	"encoding/json"
	"strings"

	"agent9/fsys"
)

// In these keys lies what is passed on and nobody here reads: schemas, which
// may have names that differ only in case.
var unread = set("parameters", "input_schema", "schema", "json_schema", "response_format", "output_config", "output_format", "format", "guided_json",
	"structured_outputs", "functions", "properties", "input", "arguments", "metadata", "logit_bias", "options")

// These are counted by their names, so they must not be written in another case.
var counted = set("type", "content", "cache_control", "ttl", "budget_tokens", "max_uses")

// tree reads the value of a field, in which no object has a name twice, or once
// more in another case: who reads it next might take the other one.
func tree(name string, value json.RawMessage) (any, error) {
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	v, err := branch(d, unread[name])
	return v, fsys.Wrap(fsys.Invalid, name, err)
}

func branch(d *json.Decoder, anyCase bool) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('['):
		list := []any{}
		for d.More() {
			item, err := branch(d, anyCase)
			if err != nil {
				return nil, err
			}
			list = append(list, item)
		}
		_, err = d.Token()
		return list, err
	case json.Delim('{'):
		object := map[string]any{}
		var seen names
		for d.More() {
			token, err := d.Token()
			if err != nil {
				return nil, err
			}
			name := token.(string)
			if err := seen.add(name, anyCase); err != nil {
				return nil, err
			}
			if object[name], err = branch(d, anyCase || unread[name]); err != nil {
				return nil, err
			}
		}
		_, err = d.Token()
		return object, err
	}
	return token, nil
}

// names are those of an object.
type names map[string]string

// add refuses a name that is there already or, unless any case will do, in
// another case.
func (n *names) add(name string, anyCase bool) error {
	as := name
	if !anyCase {
		as = fold(name)
	}
	other, twice := (*n)[as]
	switch {
	case twice && other == name:
		return fsys.E(fsys.Invalid, "the field "+name+" is there twice")
	case twice:
		return fsys.E(fsys.Invalid, "the fields "+other+" and "+name+" differ in case only; leave one out")
	case as != name && counted[as]:
		return fsys.E(fsys.Invalid, "the field "+name+" must be written "+as)
	}
	if *n == nil {
		*n = names{}
	}
	(*n)[as] = name
	return nil
}

// fold is a name as decoders see it that do not heed case.
func fold(name string) string { return strings.ToLower(strings.ToUpper(name)) }
