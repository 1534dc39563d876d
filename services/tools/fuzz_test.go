package tools

import (
	"testing"

	"agent9/conformance/strict"
)

func FuzzServer(f *testing.F) {
	for _, s := range []string{
		`{"command":["x","y"],"env":{"A":"b"}}`, `{"url":"https://example.com/mcp","headers":{"X":{"secret":"s"}}}`, `{}`, `null`,
		`{"command":["x"]}}`, `{"command":["x"],"max_calls":-1}`, `{"url":"ftp://x"}`, `{"command":[""]}`, `{"command":["x"]} {}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if c, ok := strict.Object(t, in, ParseServer); ok && (len(c.Command) == 0) == (c.URL == "") {
			t.Fatalf("%q is read as %+v", in, c)
		}
	})
}
