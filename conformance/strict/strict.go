// Package strict checks functions that read what somebody wrote who is not
// trusted. Fuzz tests hand it whatever comes to a fuzzer's mind.
package strict

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"unicode/utf8"

	"agent9/fsys"
)

// Read reads in twice. The result must be the same, in must not have changed,
// and a refusal must be one that the writer can do something about. It reports
// whether in was taken.
func Read[T any](t testing.TB, in []byte, parse func([]byte) (T, error)) (v T, ok bool) {
	t.Helper()
	before := bytes.Clone(in)
	v, err := parse(in)
	again, aerr := parse(bytes.Clone(before))
	switch {
	case !bytes.Equal(in, before):
		t.Fatalf("reading %q changed it to %q", before, in)
	case (err == nil) != (aerr == nil) || err == nil && !reflect.DeepEqual(v, again):
		t.Fatalf("%q is read as %+v, %v, and then as %+v, %v", in, v, err, again, aerr)
	case err != nil:
		Refused(t, in, err)
	}
	return v, err == nil
}

// Refused checks that err tells the writer of in what is wrong with it.
func Refused(t testing.TB, in []byte, err error) {
	t.Helper()
	switch fsys.CodeOf(err) {
	case fsys.Invalid, fsys.TooLarge, fsys.NameTooLong, fsys.Unsupported:
	default:
		t.Fatalf("%q is refused with %v: %v", in, fsys.CodeOf(err), err)
	}
	reason := fsys.ReasonOf(err)
	if reason == "" {
		t.Fatalf("%q is refused without a reason: %v", in, err)
	}
	if len(reason) > 4*len(in)+1000 {
		t.Fatalf("%q is refused with a reason of %d bytes", in, len(reason))
	}
	if utf8.Valid(in) && !utf8.ValidString(reason) {
		t.Fatalf("%q is refused with %q, which is not text", in, reason)
	}
}

// Object is Read for one JSON object and nothing else.
func Object[T any](t testing.TB, in []byte, parse func([]byte) (T, error)) (v T, ok bool) {
	t.Helper()
	v, ok = Read(t, in, parse)
	if ok && (!json.Valid(in) || bytes.TrimSpace(in)[0] != '{') {
		t.Fatalf("%q is taken for a JSON object, as %+v", in, v)
	}
	return v, ok
}

// Request is Object for what begins like JSON; other text may be anything.
func Request[T any](t testing.TB, in []byte, parse func([]byte) (T, error)) (v T, ok bool) {
	t.Helper()
	if text := bytes.TrimSpace(in); len(text) > 0 && (text[0] == '{' || text[0] == '[') {
		v, ok = Read(t, in, parse)
		if ok && !json.Valid(in) {
			t.Fatalf("%q is taken for JSON, as %+v", in, v)
		}
		return v, ok
	}
	return Read(t, in, parse)
}
