package addr

import (
	"testing"

	"agent9/conformance/strict"
)

func FuzzParse(f *testing.F) {
	for _, s := range []string{"unix:/a/b", "tcp:127.0.0.1:564", "tcp!host!564", "unix!/x", "tcp:[::1]:1", "", "/x", "tcp:", "unix:", "host:564", "tcp!host"} {
		f.Add(s)
	}
	type at struct{ network, address string }
	f.Fuzz(func(t *testing.T, in string) {
		a, ok := strict.Read(t, []byte(in), func(b []byte) (a at, err error) {
			a.network, a.address, err = Parse(string(b))
			return a, err
		})
		if ok && (a.network != "unix" && a.network != "tcp" || a.address == "") {
			t.Fatalf("%q is read as %+v", in, a)
		}
	})
}
