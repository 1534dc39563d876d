package fsys

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
)

// Strictly decodes doc, which must be one JSON object and nothing else, into
// what v points to. Fields that v does not have are refused by their names, with
// those that there are.
// Errors are those of [InJSON], or say what comes behind the object.
func Strictly(doc []byte, v any) error {
	doc = TrimBOM(doc)
	d := json.NewDecoder(bytes.NewReader(doc))
	d.DisallowUnknownFields()
	if bytes.HasPrefix(bytes.TrimSpace(doc), []byte("null")) { // which encoding/json takes for anything
		return InJSON(&json.UnmarshalTypeError{Value: "null", Type: reflect.TypeOf(v).Elem()})
	}
	if err := d.Decode(v); err != nil {
		err = InJSON(err)
		if fields := fieldsOf(reflect.TypeOf(v), doc); strings.HasPrefix(err.Error(), "unknown field ") && len(fields) > 0 {
			err = inJSON{err.Error() + "; there are " + strings.Join(fields, ", "), err}
		}
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("there is data after the JSON object")
	}
	return nil
}

// IsArray reports whether text, which is no JSON object, is a JSON array: a
// mistake where one or the other is expected.
func IsArray(text []byte) bool {
	text = bytes.TrimSpace(text)
	return len(text) > 0 && text[0] == '[' && json.Valid(text)
}

// InJSON returns an error that says in the words of JSON what err, which is one
// of encoding/json, says in those of Go:
//
//	inbox.limit: a whole number is expected, not a string
//
// It wraps err. Other errors are returned as they are.
func InJSON(err error) error {
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		what := jsonKind(wrong.Type) + " is expected, not " + jsonValue(wrong)
		if wrong.Field != "" {
			what = wrong.Field + ": " + what
		}
		return inJSON{what, err}
	case strings.HasPrefix(err.Error(), "json: "):
		return inJSON{strings.TrimPrefix(err.Error(), "json: "), err}
	}
	return err
}

type inJSON struct {
	what string
	err  error
}

func (e inJSON) Error() string { return e.what }
func (e inJSON) Unwrap() error { return e.err }

// jsonKind is what JSON calls what is decoded into a t.
func jsonKind(t reflect.Type) string {
	if said, ok := reflect.New(t).Interface().(interface{ JSONKind() string }); ok {
		return said.JSONKind()
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return "a string"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return jsonKind(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.String:
		return "a string"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "a string"
		}
		return "an array"
	case reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "another value"
}

// jsonValue is what there was.
func jsonValue(wrong *json.UnmarshalTypeError) string {
	switch kind, number, _ := strings.Cut(wrong.Value, " "); {
	case number != "" && strings.Trim(number, "-0123456789") == "" && jsonKind(wrong.Type) == "a whole number":
		return number + ", which is too large or too small"
	case number != "":
		return number
	case kind == "bool":
		return "true or false"
	case kind == "array", kind == "object":
		return "an " + kind
	case kind == "null":
		return kind
	default:
		return "a " + kind
	}
}
