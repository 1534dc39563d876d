package host

import (
	"testing"

	"agent9/conformance/strict"
)

// What goes before a bundle that is imported.
func FuzzWish(f *testing.F) {
	for _, s := range []string{`{}`, `{"name":"a","mode":"clone","new_identity":true,"passphrase":"x"}`, `{"mode":"x"}`, `{}}`, `null`, `{} {}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if w, ok := strict.Object(t, in, parseWish); ok && w.Mode != "" && w.Mode != modeRestore && w.Mode != modeClone {
			t.Fatalf("%q is read as %+v", in, w)
		}
	})
}
