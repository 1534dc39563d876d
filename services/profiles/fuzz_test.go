package profiles

import (
	"strings"
	"testing"

	"agent9/conformance/strict"
	"agent9/fsys"
)

func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		`{"name":"a","profile":"p","set":{"K":"v"}}`, `{"name":"a","files":{"config":"{}","goals/x":"y"}}`, `{"name":"a"}}`, `{"name":"a"} {}`,
		`{"files":{"../x":""}}`, `{"set":{"k":""}}`, `null`, `{"name":"a","files":{"/etc":""}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		r, ok := strict.Object(t, in, ParseRequest)
		if !ok {
			return
		}
		for _, file := range r.List() {
			for name := range strings.SplitSeq(file.Path, "/") {
				if fsys.CheckName(name) != nil || name == ".." {
					t.Fatalf("%q has the file %q", in, file.Path)
				}
			}
		}
	})
}
