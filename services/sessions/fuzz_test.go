package sessions

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"agent9/conformance/strict"
)

func FuzzPrompt(f *testing.F) {
	for _, s := range []string{"hello", "", `{"a":1}`, `[1]`, `{"a":1}}`, "caf\xe9"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 0 && in[0] == '{' && !json.Valid(in) {
			t.Skip("the file refuses it")
		}
		q, ok := strict.Read(t, in, parsePrompt)
		if ok && (q.Text == "") == (q.Data == nil) || ok && q.Data != nil && !json.Valid(q.Data) || !utf8.ValidString(q.Text) {
			t.Fatalf("%q is read as %+v", in, q)
		}
	})
}

func FuzzBeginning(f *testing.F) {
	for _, s := range []string{"a title", "", `{"title":"x","profile":"p"}`, `{"title":"x"}}`, `{"title":"a\nb"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		b, ok := strict.Read(t, in, parseBeginning)
		if ok && (strings.ContainsAny(b.Title, "\n\r\x00") || len(in) > 0 && in[0] == '{' && !json.Valid(in)) {
			t.Fatalf("%q is read as %+v", in, b)
		}
	})
}
