package status

import (
	"testing"

	"agent9/conformance/strict"
)

func FuzzConfig(f *testing.F) {
	for _, s := range []string{
		`{}`, `null`, `{}}`, `{} {}`, `{"inbox":{"limit":5,"overflow":"refuse"},"accept":["a*"]}`, `{"accept":["["]}`,
		`{"mounts":{"/identity":"sign-only"},"prompt":"x"}`, `{"program":{"exec":["a","b"]},"tick":{"timeout_s":5}}`,
		`{"tools":{"x":{"command":["y"]}}}`, `{"sessions":{"profiles":["p"]}}`, `{"triggers":{"inbox":true}}`, `[]`, `{"Inbox":{}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		c, ok := strict.Object(t, in, ParseConfig)
		if ok {
			c.Accepts("alice")
		}
	})
}
