package tokens

import (
	"testing"
	"time"

	"agent9/conformance/strict"
)

func FuzzRights(f *testing.F) {
	for _, s := range []string{"rw", "r,/inbox:rw", "/inbox:w", "rw,/identity:-", "-", "r,r", "/a/:r,/a:w", "/:r", "/a//b:r", "/..:r", " r , w ", "/a:b:r"} {
		f.Add(s, "/inbox/new")
	}
	f.Fuzz(func(t *testing.T, in, at string) {
		r, ok := strict.Read(t, []byte(in), func(b []byte) (Rights, error) { return ParseRights(string(b)) })
		if !ok {
			return
		}
		again, err := ParseRights(r.String())
		if err != nil || again.String() != r.String() {
			t.Fatalf("%q is %q, and that is %q, %v", in, r, again, err)
		}
		read, write := r.At(at)
		if aread, awrite := again.At(at); read != aread || write != awrite {
			t.Fatalf("%q and %q differ at %q", in, r, at)
		}
	})
}

func FuzzExpiry(f *testing.F) {
	for _, s := range []string{"", "never", "90m", "24h", "7d", "2w", "2030-01-31T12:00:00Z", "-1h", "99999999999d", "1e9h", "0d", "4294967295w"} {
		f.Add(s)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f.Fuzz(func(t *testing.T, in string) {
		at, ok := strict.Read(t, []byte(in), func(b []byte) (time.Time, error) { return ParseExpiry(string(b), now) })
		if ok && (at.IsZero() != (in == never) || !at.IsZero() && (!at.After(now) || at.Sub(now) > maxLife)) {
			t.Fatalf("%q is %v", in, at)
		}
	})
}
