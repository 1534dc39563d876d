package scrub

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// What libraries write of a secret has none of it.
func TestEscapes(t *testing.T) {
	s := New([]byte("wJalrXUtn+FEMI/K7MDENG/bPxRfiCY="), []byte("p@ss wörd"), []byte(`it's (a) 50%ab "key"\~!*`), []byte("λ😀\tsecret"))
	for _, text := range []string{
		"wJalrXUtn%2BFEMI/K7MDENG/bPxRfiCY%3D",     // urllib.parse.quote
		"wJalrXUtn+FEMI/K7MDENG/bPxRfiCY=",         // encodeURI
		"wJalrXUtn+FEMI/K7MDENG/bPxRfiCY%3D",       // URL.password, in part
		"wJalrXUtn%2BFEMI%2fK7MDENG%2FbPxRfiCY%3d", // either case
		"wJalrXUtn&#43;FEMI&sol;K7MDENG&#x2f;bPxRfiCY&equals;",
		`wJalrXUtn\u002BFEMI\/K7MDENG\x2fbPxRfiCY\075`,
		"p%40ss+w%C3%B6rd", "p@ss%20w%C3%B6rd", "p@ss%20w%F6rd", // URLSearchParams, encodeURI, escape
		`p@ss w\xc3\xb6rd`, `p@ss w\xf6rd`, `p@ss w\u00f6rd`, `p@ss w\303\266rd`, `p@ss w\u{f6}rd`, `p@ss w\U000000f6rd`,
		"p@ss w&#246;rd", "p@ss w&#xF6;rd", "p&#64;ss w&ouml;rd",
		`\u0070\u0040\u0073\u0073\u0020\u0077\u00c3\u00b6\u0072\u0064`, // bytes as characters
		"it's%20(a)%2050%25ab%20%22key%22%5C~!*",                       // encodeURIComponent
		"it's%20(a)%2050%ab%20%22key%22\\~!*",                          // URL.pathname
		`it\'s (a) 50%ab "key"\\~!*`, `it's (a) 50%ab \"key\"\\~!*`,    // repr, JSON
		`it'\''s (a) 50%ab "key"\~!*`, `it'"'"'s (a) 50%ab "key"\~!*`, // shells
		`\u03bb\ud83d\ude00\tsecret`, `\u03bb\U0001f600\x09secret`, "%u03BB%uD83D%uDE00%09secret", "&#955;&#128512;&Tab;secret",
	} {
		for cut := range len(text) + 2 {
			st, whole := s.Stream(), []byte("<"+text+">")
			got := string(st.Next(whole[:cut])) + string(st.Next(whole[cut:])) + string(st.End())
			if !strings.HasPrefix(got, "<") || !strings.HasSuffix(got, Mark+">") || len(got) > unheld+len("<>"+Mark) {
				t.Errorf("%q, cut at %d, is %q", text, cut, got)
			}
		}
		if got := s.String("<" + text[:5] + "\r\n" + text[5:]); got != "<"+Mark {
			t.Errorf("%q in lines is %q", text, got)
		}
	}
	for _, text := range []string{"100%", "%", "%%%41%", `\`, `\x4`, `C:\new\u12`, "a & b; &#; &amp &lt;p&gt;", "%0A%0a%0A%0d", `\n\n\n\n`, `\ud83d`, "&#99999999999;", `\u{}`} {
		if got := s.String(text); got != text {
			t.Errorf("%q is no secret, and is %q", text, got)
		}
	}
}

// Whichever bytes are escaped, and however the text is cut, nothing of a secret
// but the first bytes is shown, and all that stands around it is.
func TestAnyChoice(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		secret := make([]byte, Shortest+random.IntN(20))
		for i := range secret {
			secret[i] = "abAB%\\&;#x41+ '\"/\xc3\xb6"[random.IntN(19)]
		}
		s := New(secret)
		kind := random.IntN(len(escapes))
		var text []byte
		for _, c := range secret {
			switch {
			case c != escapes[kind].intro && random.IntN(2) == 0:
				text = append(text, c)
			case kind == 0:
				text = fmt.Appendf(text, []string{"%%%02x", "%%%02X"}[random.IntN(2)], c)
			case kind == 1:
				text = fmt.Appendf(text, []string{`\x%02x`, `\x%02X`, `\%03o`}[random.IntN(3)], c)
			case c < 0x80:
				text = fmt.Appendf(text, []string{"&#%d;", "&#x%x;", "&#%04d;"}[random.IntN(3)], c)
			default:
				text = append(text, c)
			}
		}
		whole := append(append([]byte("{[("), text...), ")]}"...)
		if got := string(s.Bytes(whole)); got != "{[("+Mark+")]}" {
			t.Fatalf("%q as %q is %q", secret, whole, got)
		}
		st := s.Stream()
		var got []byte
		for rest := whole; len(rest) > 0; {
			n := 1 + random.IntN(min(len(rest), 9))
			got = append(got, st.Next(rest[:n])...)
			if most := 3 * 12 * len(secret); len(st.held) > most {
				t.Fatalf("%d bytes are held", len(st.held))
			}
			rest = rest[n:]
		}
		got = append(got, st.End()...)
		if !bytes.HasSuffix(got, []byte(Mark+")]}")) || len(got) > len(Mark)+6+unheld {
			t.Fatalf("%q as %q is %q in pieces", secret, whole, got)
		}
	}
}

// Texts that are made to be slow are not, nor does one make a Stream hold more
// than the longest secret in escapes.
func TestEscapesAreLinear(t *testing.T) {
	for _, unit := range []string{"%", "%61", "%xyz", `\x61`, `\\`, "&a", "&#97;", "a%0a", `\ud83d`} {
		secret := bytes.Repeat([]byte(unit), 16<<10/len(unit))
		s := New(append(secret, '!'))
		began := time.Now()
		st := s.Stream()
		for range 1 << 8 {
			st.Next(bytes.Repeat([]byte(unit), 1<<12/len(unit)))
			if len(st.held) > 12*(16<<10+1) {
				t.Fatalf("%q: %d are held", unit, len(st.held))
			}
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%q took %v", unit, took)
		}
	}
}

func BenchmarkEscapes(b *testing.B) {
	s := New([]byte("ghp_0123456789abcdefghijklmnopqrstuvwxyz"))
	text := bytes.Repeat([]byte(`{"a%20b": "x &amp; y\n", "gh\u0070": "50% \\ &"}`), 1000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		st := s.Stream()
		st.Next(text)
	}
}
