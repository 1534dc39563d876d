package scrub

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
)

var smallHex = regexp.MustCompile("%..")

const token = `gh?_"s3cr3t/tök+en\&<01`

// What programs in Python and JavaScript, and browsers, make of secrets in URLs, in
// messages and in exceptions.
func TestFormsOfOthers(t *testing.T) {
	for secret, forms := range map[string][]string{
		"wJalrXUtn+FEMI/K7MDENG/bPxRfiCY=": {
			"wJalrXUtn%2BFEMI/K7MDENG/bPxRfiCY%3D",     // quote(s)
			"wJalrXUtn%2bFEMI%2fK7MDENG%2fbPxRfiCY%3d", // in small letters
			"wJalrXUtn+FEMI%2FK7MDENG%2FbPxRfiCY%3D",   // new URL().password
			"wJalrXUtn+FEMI/K7MDENG/bPxRfiCY=",         // encodeURI
		},
		"a!b(c)*d~e'f g": {
			"a!b(c)*d~e'f%20g",           // encodeURIComponent
			"a%21b%28c%29*d%7Ee%27f+g",   // URLSearchParams
			"a%21b%28c%29%2Ad~e%27f%20g", // quote(s, safe='')
		},
		"p@ss wörd": {
			`p@ss w\xc3\xb6rd`, // repr(s.encode())
			"p%40ss+w%C3%B6rd", // a form
			`\x70\x40\x73\x73\x20\x77\xc3\xb6\x72\x64`,
			"&#112;&#64;&#115;&#115;&#32;&#119;&#195;&#182;&#114;&#100;",
		},
	} {
		s := New([]byte(secret))
		for _, form := range forms {
			if got := string(s.Bytes([]byte("a " + form + " b"))); got != "a "+Mark+" b" {
				t.Errorf("%s as %s: got %s", secret, form, got)
			}
		}
	}
}

// Every form of a secret is found, wherever the text that came is cut.
func TestEveryForm(t *testing.T) {
	b64, b64url := base64.StdEncoding, base64.URLEncoding
	quoted, err := json.Marshal(token)
	if err != nil {
		t.Fatal(err)
	}
	percent := ""
	for _, c := range []byte(token) {
		percent += fmt.Sprintf("%%%02x", c)
	}
	folded := func(s string, columns int, end string) string {
		var b strings.Builder
		for len(s) > columns {
			b.WriteString(s[:columns] + end)
			s = s[columns:]
		}
		return b.String() + s + end
	}
	// Of base64, what stands around the secret is not looked at.
	cores := map[string]string{}
	texts := map[string]string{
		"plain":             token,
		"twice":             token + token,
		"hex":               hex.EncodeToString([]byte(token)),
		"HEX":               strings.ToUpper(hex.EncodeToString([]byte(token))),
		"folded hex":        folded(hex.EncodeToString([]byte(token)), 10, "\n"),
		"query":             url.QueryEscape(token),
		"path":              url.PathEscape(token),
		"small query":       smallHex.ReplaceAllStringFunc(url.QueryEscape(token), strings.ToLower),
		"percent":           percent,
		"JSON":              string(quoted),
		"JSON without HTML": strings.ReplaceAll(strings.ReplaceAll(token, `\`, `\\`), `"`, `\"`),
		"folded base64":     folded(b64.EncodeToString([]byte("user:"+token)), 8, "\r\n"),
	}
	cores["folded base64"] = texts["folded base64"][10:46]
	cores["JSON"] = strings.Trim(string(quoted), `"`)
	for before := range 6 {
		for after := range 4 {
			text := []byte(strings.Repeat("u", before) + token + strings.Repeat("v", after))
			for _, coding := range []*base64.Encoding{b64, b64url, b64.WithPadding(base64.NoPadding), b64url.WithPadding(base64.NoPadding)} {
				what := fmt.Sprintf("base64 %d %d %q", before, after, coding.EncodeToString(text))
				texts[what] = coding.EncodeToString(text)
				cores[what] = texts[what][(before*8+5)/6 : (before+len(token))*8/6]
			}
		}
	}
	s := New([]byte(token))
	for what, text := range texts {
		core, ok := cores[what]
		if !ok {
			core = text
		}
		whole := "before " + text + " after"
		want := s.String(whole)
		if !strings.HasPrefix(want, "before ") || !strings.HasSuffix(want, " after") || !strings.Contains(want, Mark) || shows(want, core) {
			t.Errorf("%s: %q is %q", what, whole, want)
		}
		for cut := range len(whole) {
			st := s.Stream()
			got := string(st.Next([]byte(whole[:cut]))) + string(st.Next([]byte(whole[cut:]))) + string(st.End())
			if shows(got, core) {
				t.Errorf("%s, cut at %d: %q", what, cut, got)
			}
		}
		st := s.Stream()
		var got []byte
		for _, c := range []byte(whole) {
			got = append(got, st.Next([]byte{c})...)
		}
		if got = append(got, st.End()...); shows(string(got), core) {
			t.Errorf("%s, byte by byte: %q", what, got)
		}
	}
}

// What programs print of a variable with a secret has none of it.
func TestQuoted(t *testing.T) {
	s := New([]byte("a'b$c`d\"e\\f!g"), []byte(`it's&<secret>`), []byte(`~x y#~{z},1`))
	for _, text := range []string{
		"a\\'b\\$c\\`d\\\"e\\\\f\\!g",                // printf %q
		"a'b\\$c\\`d\\\"e\\\\f!g",                    // declare -p and export -p of bash
		"a'\\''b$c`d\"e\\f!g",                        // set of bash
		"a'\"'\"'b$c`d\"e\\f!g",                      // export -p of dash, shlex of Python
		"a\\'b$c`d\"e\\\\f!g",                        // repr of Python, $'…'
		"it's&amp;&lt;secret&gt;",                    // HTML
		"it&#x27;s&amp;&lt;secret&gt;",               // html.escape of Python
		"it&#39;s&amp;&lt;secret&gt;",                // html/template of Go
		"it&#039;s&amp;&lt;secret&gt;",               // PHP
		"\\~x\\ y#~\\{z\\}\\,1",                      // printf %q
		"61 27 62 24 63 60\n 64 22 65 5c 66 21 67",   // od -An -tx1 -w6
		"61 27 62 24 63 60\r\n 64 22 65 5C 66 21 67", // in lines
		"61:27:62:24:63:60:64:22:65:5c:66:21:67",     // openssl
	} {
		if got := s.String("<" + text + ">"); got != "<"+Mark+">" {
			t.Errorf("%q is %q", text, got)
		}
	}
}

// shows reports whether got has more of text than may be shown early.
func shows(got, text string) bool {
	const most = unheld + 1
	for i := 0; i+most <= len(text); i++ {
		if strings.Contains(got, text[i:i+most]) {
			return true
		}
	}
	return false
}

// What is no secret passes unchanged and at once, but for what may be the
// beginning of one.
func TestRestPasses(t *testing.T) {
	s := New([]byte("abcabd"), []byte("bcx-yz1"), []byte("short"))
	for text, want := range map[string]string{
		"abcabcabd!":      "abc" + Mark + "!",
		"abcx-yz":         "abcx-yz",
		"abcx-yz1":        "a" + Mark,
		"short":           "short",
		"abcabdabcabd":    Mark,
		"a\nb\nc\n\nabd":  Mark,
		"a\nb\nc\n\nabx":  "a\nb\nc\n\nabx",
		"\nabcabd\nx\n":   "\n" + Mark + "\nx\n",
		"abcabdx\nabcabd": Mark + "x\n" + Mark,
		"abc\n\n\nabd":    "abc\n\n\nabd",
		"\n\n\n":          "\n\n\n",
		"":                "",
	} {
		if got := s.String(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	st := s.Stream()
	if got := string(st.Next([]byte("name: ab"))); got != "name: ab" {
		t.Errorf("a prompt is %q", got)
	}
	if got := string(st.Next([]byte("cab"))); got != "" {
		t.Errorf("the beginning of a secret is %q", got)
	}
	if got := string(st.Next([]byte("x"))); got != "cabx" {
		t.Errorf("what was none is %q", got)
	}
	if New([]byte("short")) != nil || New() != nil {
		t.Error("there is something to look for")
	}
	var none *Scrubber
	if st := none.Stream(); string(st.Next([]byte("x")))+string(st.End()) != "x" {
		t.Error("no secret is something")
	}
}

// Each long line of a secret is one.
func TestLines(t *testing.T) {
	s := New([]byte("-----BEGIN-----\nMIIEvQIBADANBgkqh\nkiG9w0BAQEFA\n--\n"))
	if got := s.String(`key: "MIIEvQIBADANBgkqh" and -- ` + hex.EncodeToString([]byte("kiG9w0BAQEFA"))); got != `key: "`+Mark+`" and -- `+Mark {
		t.Error(got)
	}
}

// However the text is cut, the result is the same but for what was shown
// early, and never longer than what came with marks; nothing is held without
// bound, and a text that is made to be slow is not.
func TestRandomCuts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	s := New([]byte("abababab"), []byte("babbab"), []byte("aabbaabb"))
	for range 2000 {
		text := make([]byte, random.IntN(100))
		for i := range text {
			text[i] = "ab\n"[random.IntN(3)]
		}
		st := s.Stream()
		var got []byte
		for rest := text; len(rest) > 0; {
			n := 1 + random.IntN(len(rest))
			got = append(got, st.Next(rest[:n])...)
			if len(st.held) > (1+maxBreaks)*200 {
				t.Fatalf("%d bytes are held", len(st.held))
			}
			rest = rest[n:]
		}
		got = append(got, st.End()...)
		bare := unbroken(got)
		for _, secret := range []string{"abababab", "babbab", "aabbaabb"} {
			if bytes.Contains(bytes.ReplaceAll(bare, []byte(Mark), []byte("-")), []byte(secret)) && !strings.Contains(string(text), "\n\n\n") {
				t.Fatalf("%q is %q", text, got)
			}
		}
	}
}

func TestLinear(t *testing.T) {
	secret := bytes.Repeat([]byte("a"), 16<<10)
	secret[len(secret)-1] = 'b'
	s := New(secret)
	text := bytes.Repeat([]byte("a"), 1<<20)
	began := time.Now()
	if got := s.Bytes(text); !bytes.Equal(got, text) {
		t.Error("it was changed")
	}
	// A look at each place would take 2^34 steps.
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}

func FuzzScrub(f *testing.F) {
	f.Add([]byte("secret-1"), []byte("x secret-1 y"), 5)
	f.Fuzz(func(t *testing.T, secret, text []byte, cut int) {
		if len(secret) > 1<<10 || len(secret) < Shortest || bytes.ContainsAny(secret, "\r\n"+Mark) {
			t.Skip()
		}
		s := New(secret)
		text = append(append(text, secret...), text...)
		st := s.Stream()
		cut = min(max(cut, 0), len(text))
		got := append(append(bytes.Clone(st.Next(text[:cut])), st.Next(text[cut:])...), st.End()...)
		if bytes.Contains(bytes.ReplaceAll(got, []byte(Mark), []byte("\r")), secret) {
			t.Errorf("%q in %q is %q", secret, text, got)
		}
	})
}

func BenchmarkStream(b *testing.B) {
	s := New([]byte("ghp_0123456789abcdefghijklmnopqrstuvwxyz"))
	text := bytes.Repeat([]byte("go: downloading example.com/module v1.2.3\n"), 1000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		st := s.Stream()
		st.Next(text)
	}
}
