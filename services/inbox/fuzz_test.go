package inbox

import (
	"encoding/json"
	"strings"
	"testing"

	"agent9/conformance/strict"
	"agent9/fsys"
)

var seeds = []string{
	"hello", `{"body":"x"}`, `{"id":"a","type":"t","reply_to":"r","body":{"a":[1,2]}}`, `{"from":"bob","body":1}`,
	`{"id":"../x","body":1}`, `{"id":"next","body":1}`, `{"body":1}}`, `[1]`, "caf\xe9", `{"to":"bob","body":"x"}`, `{"body":null}`,
}

func FuzzMessage(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) == 0 {
			return // is no request
		}
		m, ok := strict.Read(t, in, parse)
		if ok && in[0] == '{' && !json.Valid(in) {
			t.Fatalf("%q is taken for JSON, as %+v", in, m)
		}
		checkMessage(t, in, m, ok)
	})
}

func FuzzOrder(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) == 0 {
			return
		}
		m, ok := strict.Object(t, in, func(in []byte) (Message, error) {
			to, m, err := parseOrder(in)
			if err == nil && to == "" {
				t.Fatalf("%q is to nobody", in)
			}
			return m, err
		})
		checkMessage(t, in, m, ok)
	})
}

func checkMessage(t *testing.T, in []byte, m Message, ok bool) {
	if !ok {
		return
	}
	if m.From != "" || m.Time != "" || !json.Valid(m.Body) {
		t.Fatalf("%q is read as %+v", in, m)
	}
	if m.ID != "" && (fsys.CheckName(m.ID) != nil || strings.ContainsAny(m.ID, " \t\n")) {
		t.Fatalf("%q has the id %q", in, m.ID)
	}
}
