package identity

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"

	"agent9/fsys"
)

// decode decodes one JSON object strictly; form is what the error asks for.
// Bytes that are not UTF-8 are refused, where encoding/json would replace
// them: what is verified or encrypted must be what was written.
func decode[T any](req []byte, form string) (v T, err error) {
	if !utf8.Valid(req) {
		return v, fsys.E(fsys.Invalid, "the request is not UTF-8 text")
	}
	d := json.NewDecoder(bytes.NewReader(req))
	d.DisallowUnknownFields()
	err = d.Decode(&v)
	if err == nil {
		if _, err = d.Token(); err == io.EOF {
			return v, nil
		}
		err = errors.New("there is more after the JSON value")
	}
	return v, fsys.E(fsys.Invalid, fsys.InJSON(err).Error()+"; want "+form)
}
