package skills

import (
	"testing"
	"unicode/utf8"

	"agent9/conformance/strict"
)

func FuzzHeader(f *testing.F) {
	for _, s := range []string{"---\nname: a\ndescription: b\n---\ntext", "---\nname: 'a'\ndescription: >\n  b\n  c\n---\n", "---\n---\n", "", "\ufeff---\nname: x", "---\n x\n---"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		h, ok := strict.Read(t, in, ParseHeader)
		if ok && (h.Name == "" || h.Description == "" || utf8.RuneCountInString(h.Name) > maxName || utf8.RuneCountInString(h.Description) > maxDescription) {
			t.Fatalf("%q is read as %+v", in, h)
		}
	})
}
