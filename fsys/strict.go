package fsys

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
)

// Strictly decodes doc, which must be one JSON object and nothing else, into
// what v points to. Fields that v does not have are refused by their names.
// Errors are those of encoding/json, or say what comes behind the object.
func Strictly(doc []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.DisallowUnknownFields()
	if bytes.HasPrefix(bytes.TrimSpace(doc), []byte("null")) { // which encoding/json takes for anything
		return &json.UnmarshalTypeError{Value: "null", Type: reflect.TypeOf(v).Elem()}
	}
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("there is more after the JSON object")
	}
	return nil
}
