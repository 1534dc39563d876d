package scrub

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"strconv"
	"strings"
	"unicode"
)

// forms are the ways in which secret may be written.
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
	all = append(all, escaped(secret)...)
	all = append(all, quoted(string(secret))...)
	if len(secret) <= longest {
		all = append(all, coded(secret)...)
	}
	forms := make([][]byte, len(all))
	for i, f := range all {
		forms[i] = []byte(f)
	}
	return forms
}

// longest is how long a secret is at most that is looked for byte by byte: a key or a
// password, and not a file.
const longest = 1 << 10

// within is what there is of secret in base64 when so many bytes (from 0 to 2)
// of a group come before it, whatever they are and whatever follows.
func within(coding *base64.Encoding, secret []byte, before int) string {
	text := coding.EncodeToString(append(make([]byte, before), secret...))
	return text[(before*8+5)/6 : (before+len(secret))*8/6]
}

// urlKeeps are what programs leave as it is in URLs beside letters and digits; "all"
// is nothing at all.
var urlKeeps = []string{
	"-_.~",                       // RFC 3986; Python's quote with safe=''
	"-_.~/",                      // Python's quote
	"-_.",                        // PHP's urlencode
	"*-._",                       // URLSearchParams, forms of HTML
	"-_.!~*'()",                  // encodeURIComponent
	"-_.!~*'();/?:@&=+$,#",       // encodeURI
	"-_.~!$&'()*+,;=",            // a userinfo or a segment of a path, by RFC 3986
	"-_.~$&+=:@",                 // Go's PathEscape
	"-_.~!$%&'()*+,",             // a userinfo in browsers
	"-_.~!$%&'()*+,;=:@/[]|^",    // a path in browsers
	"-_.~!$%&()*+,;=:@/?[]|^`{}", // a query in browsers
	"all",
}

// percent is secret with all bytes but letters, digits and kept as %XX.
func percent(secret []byte, kept string) string {
	text := make([]byte, 0, 3*len(secret))
	for _, c := range secret {
		word := c < 0x80 && (unicode.IsLetter(rune(c)) || unicode.IsDigit(rune(c)))
		if kept != "all" && (word || strings.IndexByte(kept, c) >= 0) {
			text = append(text, c)
		} else {
			text = fmt.Appendf(text, "%%%02X", c)
		}
	}
	return string(text)
}

// coded is each byte of secret in a form of its own, and bytes as Python shows them.
func coded(secret []byte) []string {
	var all []string
	for _, form := range []string{`\x%02x`, `\x%02X`, `\u%04x`, `\u%04X`, `&#%d;`, `&#x%x;`, `&#x%X;`, `\%03o`} {
		var text []byte
		for _, c := range secret {
			text = fmt.Appendf(text, form, c)
		}
		all = append(all, string(text))
	}
	for _, quote := range []string{"", "'", `"`} {
		var text []byte
		for _, c := range secret {
			switch {
			case c == '\\', quote != "" && c == quote[0]:
				text = append(text, '\\', c)
			case c == '\t':
				text = append(text, `\t`...)
			case c < ' ' || c >= 0x7f:
				text = fmt.Appendf(text, `\x%02x`, c)
			default:
				text = append(text, c)
			}
		}
		all = append(all, string(text))
	}
	return all
}

// escaped is secret as it is written in URLs and in JSON.
func escaped(secret []byte) []string {
	var all []string
	for i, kept := range urlKeeps {
		if len(secret) > longest && i > 1 && kept != "all" {
			continue
		}
		text := percent(secret, kept)
		all = append(all, text, lowerHex(text), strings.ReplaceAll(text, "%20", "+"))
	}
	var plain bytes.Buffer
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	if enc.Encode(string(secret)) == nil {
		text := strings.Trim(plain.String(), "\n")
		text = text[1 : len(text)-1]
		all = append(all, text, strings.ReplaceAll(text, "/", `\/`))
	}
	if text, err := json.Marshal(string(secret)); err == nil {
		all = append(all, string(text[1:len(text)-1]))
	}
	ascii := strconv.QuoteToASCII(string(secret))
	return append(all, ascii[1:len(ascii)-1])
}

// apart is hexadecimal with something between bytes, as od -An -tx1 writes it.
func apart(hexed, by string) string {
	var b strings.Builder
	for i := 0; i < len(hexed); i += 2 {
		b.WriteString(by + hexed[i:i+2])
	}
	return b.String()[len(by):]
}

// quoted is secret as it is written in shells (within '…' and "…", and with
// backslashes), in Python and in HTML.
func quoted(secret string) []string {
	single := strings.NewReplacer(`\`, `\\`, `'`, `\'`)
	all := []string{
		strings.ReplaceAll(secret, `'`, `'\''`),
		strings.ReplaceAll(secret, `'`, `'"'"'`),
		single.Replace(secret), // $'…', and Python
		strings.ReplaceAll(secret, `\`, `\\`),
		strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`, "`", "\\`").Replace(secret),
		strings.NewReplacer(`&`, "&amp;", `<`, "&lt;", `>`, "&gt;").Replace(secret),
		strings.NewReplacer(`&`, "&amp;", `<`, "&lt;", `>`, "&gt;", `"`, "&quot;", `'`, "&#x27;").Replace(secret),
		strings.NewReplacer(`&`, "&amp;", `<`, "&lt;", `>`, "&gt;", `"`, "&quot;", `'`, "&#039;").Replace(secret),
		html.EscapeString(secret),
	}
	return append(all, backslashed(secret))
}

// backslashed is secret as printf %q of bash writes it.
func backslashed(secret string) string {
	const special = " !\"$&'()*,;<>?[\\]^`{|}\t"
	var b strings.Builder
	for i, c := range []byte(secret) {
		if strings.IndexByte(special, c) >= 0 || i == 0 && (c == '#' || c == '~') {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// lowerHex writes the digits of each %XX in small letters.
func lowerHex(text string) string {
	b := []byte(text)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], bytes.ToLower(b[i+1:i+3]))
		}
	}
	return string(b)
}
