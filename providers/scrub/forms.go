package scrub

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// forms are the ways in which secret may be written, but for escapes.
func forms(secret []byte) [][]byte {
	hexed := hex.EncodeToString(secret)
	all := []string{string(secret), hexed, strings.ToUpper(hexed)}
	for _, coding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		all = append(all, coding.EncodeToString(secret))
		for before := range 3 {
			all = append(all, within(coding, secret, before))
		}
	}
	for _, by := range []string{" ", ":"} {
		all = append(all, apart(hexed, by), apart(strings.ToUpper(hexed), by))
	}
	all = append(all, decoded(secret)...)
	for i, n := 0, len(all); i < n; i++ {
		all = append(all, strings.ReplaceAll(all[i], `'`, `'\''`), strings.ReplaceAll(all[i], `'`, `'"'"'`))
	}
	forms := make([][]byte, len(all))
	for i, f := range all {
		forms[i] = []byte(f)
	}
	return forms
}

// within is what there is of secret in base64 when so many bytes (from 0 to 2)
// of a group come before it, whatever they are and whatever follows.
func within(coding *base64.Encoding, secret []byte, before int) string {
	text := coding.EncodeToString(append(make([]byte, before), secret...))
	return text[(before*8+5)/6 : (before+len(secret))*8/6]
}

// decoded is what there may be where each escape of secret is decoded: a space
// that was a plus sign, characters that were their numbers, as Python has them,
// bytes that were taken for characters, and what was no escape and left alone.
func decoded(secret []byte) []string {
	var latin, runes []byte
	for _, r := range string(secret) {
		if r < 0x100 {
			latin = append(latin, byte(r))
		} else {
			latin = utf8.AppendRune(latin, r)
		}
	}
	for _, c := range secret {
		runes = utf8.AppendRune(runes, rune(c))
	}
	all := []string{string(latin), string(runes), string([]rune(string(secret))), strings.ReplaceAll(string(secret), " ", "+")}
	for _, e := range escapes {
		all = append(all, e.all(secret))
	}
	return all
}

// apart is hexadecimal with something between bytes, as od -An -tx1 writes it.
func apart(hexed, by string) string {
	var b strings.Builder
	for i := 0; i < len(hexed); i += 2 {
		b.WriteString(by + hexed[i:i+2])
	}
	return b.String()[len(by):]
}
