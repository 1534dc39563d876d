package scrub

import (
	"bytes"
	"html"
	"strings"
	"unicode/utf8"
)

// An escape is one way of writing a byte or character as several: begun by a
// character of its own, which the text may also have as it is.
type escape struct {
	intro byte
	// decode says what text, which begins with intro, begins with: for how many
	// bytes of it value stands; 0 if it is no escape, more if it may become one.
	decode func(text []byte) (value string, n int)
}

// more is the n of a text that may be the beginning of an escape.
const more = -1

var escapes = [...]escape{{'%', percent}, {'\\', backslash}, {'&', entity}}

// all is text with each escape decoded.
func (e escape) all(text []byte) string {
	var b strings.Builder
	for len(text) > 0 {
		value, n := string(text[:1]), 1
		if text[0] == e.intro {
			if v, m := e.decode(text); m > 0 {
				value, n = v, m
			}
		}
		b.WriteString(value)
		text = text[n:]
	}
	return b.String()
}

// percent decodes %XX, and %uXXXX of JavaScript.
func percent(text []byte) (string, int) {
	if len(text) > 1 && text[1] == 'u' {
		return character(text, 2, 4)
	}
	v, n := digits(text, 1, 2, 16)
	return string([]byte{byte(v)}), n
}

// backslash decodes \xXX, \uXXXX (in pairs too), \UXXXXXXXX, \u{X}, \OOO, the
// letters of control characters, and any other character after a backslash.
func backslash(text []byte) (value string, n int) {
	if len(text) < 2 {
		return "", more
	}
	switch c := text[1]; {
	case c == 'x' || c >= '0' && c <= '3':
		at, count, base := 2, 2, 16
		if c != 'x' {
			at, count, base = 1, 3, 8
		}
		var v rune
		v, n = digits(text, at, count, base)
		value = string([]byte{byte(v)})
	case c == 'u' && len(text) > 2 && text[2] == '{':
		value, n = delimited(text, 3, '}')
	case c == 'u':
		value, n = character(text, 2, 4)
	case c == 'U':
		value, n = character(text, 2, 8)
	default:
		if i := strings.IndexByte("abtnvfreE", c); i >= 0 {
			return "\a\b\t\n\v\f\r\x1b\x1b"[i : i+1], 2
		}
	}
	if n == 0 {
		return string(text[1:2]), 2
	}
	return value, n
}

// entity decodes those of HTML.
func entity(text []byte) (string, int) {
	const longest = 12
	switch end := bytes.IndexByte(text, ';'); {
	case len(text) > 2 && text[1] == '#' && text[2]|' ' == 'x':
		return delimited(text, 3, ';')
	case len(text) > 1 && text[1] == '#':
		return delimited(text, 2, ';')
	case end > 0:
		if value := html.UnescapeString(string(text[:end+1])); value != string(text[:end+1]) {
			return value, end + 1
		}
	case len(text) < longest && (len(text) == 1 || digit(text[len(text)-1]) < 36):
		return "", more
	}
	return "", 0
}

// digits is the number in so many digits of text from at on.
func digits(text []byte, at, count, base int) (v rune, n int) {
	for i := at; i < at+count; i++ {
		if i >= len(text) {
			return 0, more
		}
		d := digit(text[i])
		if d >= base {
			return 0, 0
		}
		v = v*rune(base) + rune(d)
	}
	return v, at + count
}

// digit is the value of c, of 36 at most; 36 if it is none.
func digit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c|' ' >= 'a' && c|' ' <= 'z':
		return int(c|' '-'a') + 10
	}
	return 36
}

// character is the one whose number is in so many hexadecimal digits of text
// from at on, or in two such escapes, as UTF-16 has it.
func character(text []byte, at, count int) (string, int) {
	v, n := digits(text, at, count, 16)
	if n <= 0 || v < 0xd800 || v > 0xdbff {
		return string(v), n
	}
	for i, c := range text[n:min(len(text), n+at)] {
		if c != text[i] {
			return string(v), n
		}
	}
	switch low, n2 := digits(text, n+at, count, 16); {
	case n2 == more:
		return "", more
	case n2 > 0 && low >= 0xdc00 && low <= 0xdfff:
		return string((v-0xd800)<<10 + low - 0xdc00 + 0x10000), n2
	}
	return string(v), n
}

// delimited is the character whose number is in text from at up to end:
// hexadecimal after an x or a brace, else decimal.
func delimited(text []byte, at int, end byte) (string, int) {
	const longest = 8
	base := 10
	if at == 3 {
		base = 16
	}
	v := rune(0)
	for i, c := range text[at:] {
		switch {
		case c == end && i > 0:
			return string(v), at + i + 1
		case i == longest || digit(c) >= base || v > utf8.MaxRune:
			return "", 0
		}
		v = v*rune(base) + rune(digit(c))
	}
	return "", more
}
