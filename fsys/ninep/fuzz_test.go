package ninep

import (
	"bytes"
	"testing"

	"agent9/conformance/strict"
)

func FuzzAname(f *testing.F) {
	for _, s := range []string{"", "/agents/alice", "a9_x/inbox?wait=5s", "?wait=0", "?wait=1e9h", "?errors=exact&stream=plain", "?x=1", "?&&", "??wait=1s", "?errors"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		_, ok := strict.Read(t, []byte(in), func(b []byte) (o options, err error) {
			path, o, err := parseAname(string(b))
			if err == nil && !bytes.HasPrefix(b, []byte(path)) {
				t.Fatalf("%q is the path %q", b, path)
			}
			return o, err
		})
		if _, o, _ := parseAname(in); ok && o.wait < 0 {
			t.Fatalf("%q waits %v", in, o.wait)
		}
	})
}

// What the rule must never do: end a read(2) that has nothing yet, or the same
// one twice, or one at another offset.
func FuzzContinuation(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 10, 10, 90, 0})
	f.Add([]byte{255, 1, 3, 0, 255, 2, 1, 0, 254, 9, 9, 9})
	f.Fuzz(func(t *testing.T, in []byte) {
		const clip = 255
		var c continuation
		var end uint64
		emptied := false
		for i := 0; i+3 < len(in); i += 4 {
			count, n := uint32(in[i]), min(uint32(in[i+1]), uint32(in[i]))
			off := end
			if in[i+2]%4 == 3 {
				off += uint64(in[i+2])
			}
			follows := c.follows(off, count, clip, in[i+3]%2 == 0)
			switch {
			case follows && i == 0:
				t.Fatal("the first Tread goes on with another")
			case follows && emptied:
				t.Fatalf("Tread %d: a read(2) was ended twice", i/4)
			case follows && off != end:
				t.Fatalf("Tread %d goes on at another offset", i/4)
			}
			if follows && in[i+3]%4 > 1 {
				n = 0
			}
			c.answered(off, count, n, follows)
			emptied, end = follows && n == 0, off+uint64(n)
		}
	})
}

// Listings and the entries in them come from servers that a client does not
// trust.
func FuzzEntries(f *testing.F) {
	f.Add(appendDirent(nil, &dirent{qid{qtDir, 1, 2}, 3, 4, "name"}))
	d := samples()[plan9][6].Stat
	f.Add(appendDir(nil, &d))
	f.Fuzz(func(t *testing.T, in []byte) {
		var e dirent
		if rest, err := decodeDirent(in, &e); err == nil {
			if again := appendDirent(nil, &e); !bytes.Equal(again, in[:len(in)-len(rest)]) {
				t.Fatalf("% x came back as % x", in, again)
			}
		}
		var d, back dir
		if rest, err := decodeDir(in, &d); err == nil {
			if len(rest) >= len(in) {
				t.Fatal("an entry of no length")
			}
			if _, err := decodeDir(appendDir(nil, &d), &back); err != nil || back != d {
				t.Fatalf("%+v came back as %+v, %v", d, back, err)
			}
		}
	})
}
