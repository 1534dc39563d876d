package plain

import (
	"bytes"
	"os"
	"testing"
	"unicode/utf8"
)

// attacks are what a terminal would obey, each with what is shown of it.
var attacks = map[string]string{
	"\x1b[31mred":                             " [31mred",
	"\x1b]0;title\x07":                        " ]0;title ",
	"\x1b]8;;http://evil\x1b\\link":           " ]8;;http://evil \\link",
	"\u009b31mred":                            " 31mred",
	"\x9b31mred":                              "\ufffd31mred",
	"\xff\xfe":                                "\ufffd\ufffd",
	"paid\rnot paid":                          "paid not paid",
	"abc\b\b\x7f\x7f":                         "abc    ",
	"\u202egpj.exe\u2066\u200f":               " gpj.exe  ",
	"a\u2028b\u2029c\x0b\x0c\x00\x0e":         "a b c    ",
	"\ufeffa\u200bb\u2060c\u00add\U000e0041e": " a b c d e",
	"\ufff9x\u061cy":                          " x y",
	"می\u200cخواهم":                           "می\u200cخواهم",
	"\u06dd\u0661":                            "\u06dd\u0661",
	"plain, ü 漢 👩‍💻":                          "plain, ü 漢 👩‍💻",
}

func TestLine(t *testing.T) {
	for in, want := range attacks {
		if got := Line(in); got != want {
			t.Errorf("Line(%q) = %q, want %q", in, got, want)
		}
	}
	if got := Line("a\nb\tc"); got != "a b c" {
		t.Errorf("a line has lines: %q", got)
	}
}

// However the text is cut up, the same comes out.
func TestWriter(t *testing.T) {
	for in, want := range attacks {
		for size := 1; size <= len(in); size++ {
			var b bytes.Buffer
			w := NewWriter(&b)
			for p := []byte(in); len(p) > 0; {
				n, err := w.Write(p[:min(size, len(p))])
				if err != nil {
					t.Fatal(err)
				}
				p = p[n:]
			}
			if got := b.String(); got != want {
				t.Errorf("%q in pieces of %d: %q, want %q", in, size, got, want)
			}
		}
	}
	var b bytes.Buffer
	NewWriter(&b).Write([]byte("a\n\tb\n"))
	if b.String() != "a\n\tb\n" {
		t.Errorf("lines and tabs: %q", b.String())
	}
}

func TestFor(t *testing.T) {
	var b bytes.Buffer
	if For(&b) != Bare(NewWriter(&b)) {
		t.Error("what is no terminal gets other bytes than were written")
	}
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if Terminal(f) != nil {
		t.Error("/dev/null is taken for a terminal")
	}
}

func FuzzWriter(f *testing.F) {
	for in := range attacks {
		f.Add(in, 3)
	}
	f.Fuzz(func(t *testing.T, in string, cut int) {
		var b bytes.Buffer
		w := NewWriter(&b)
		cut = max(0, min(cut, len(in)))
		w.Write([]byte(in[:cut]))
		w.Write([]byte(in[cut:]))
		if !utf8.Valid(b.Bytes()) {
			t.Fatalf("%q: not UTF-8: %q", in, b.String())
		}
		for _, r := range b.String() {
			if obeyed(r) && r != '\n' && r != '\t' {
				t.Fatalf("%q: %q comes out", in, r)
			}
		}
	})
}
