package ninep

import (
	"strings"
	"unicode/utf8"

	"agent9/fsys"
)

// A wireError is one of the few answers that no fsys.Code has.
type wireError struct {
	text  string // in 9P2000
	errno uint32 // in 9P2000.L
}

var (
	// errNoAuth refuses Tauth: a Plan 9 client then attaches without, and
	// diod's clients do so only after ENOENT.
	errNoAuth = &wireError{"authentication not required", 2}
	errNoAttr = &wireError{"No data available", 61}
)

func (e *wireError) Error() string { return e.text }

// Unwrap lets fsys.CodeOf see the nearest Code.
func (e *wireError) Unwrap() error { return fsys.CodeOfErrno(e.errno) }

// errnoOf returns what Rlerror carries.
func errnoOf(err error) uint32 {
	if e, ok := err.(*wireError); ok {
		return e.errno
	}
	return fsys.CodeOf(err).Errno()
}

// An errorStyle says when the text of a 9P2000 error carries a reason.
type errorStyle uint8

const (
	autoErrors  errorStyle = iota // where a client that looks at the text still finds the same errno
	exactErrors                   // never: the text is exactly what v9fs compares
	fullErrors                    // always
)

// maxErrorText keeps an error within the smallest msize, and short enough to
// be read.
const maxErrorText = 1024

// errorText returns what Rerror carries.
func errorText(err error, style errorStyle) string {
	if e, ok := err.(*wireError); ok {
		return e.text
	}
	code := fsys.CodeOf(err)
	text := code.Text()
	if style == exactErrors {
		if code == fsys.Exhausted {
			return "Disk quota exceeded"
		}
		return text
	}
	reason := fsys.ReasonOf(err)
	if reason == "" || style == autoErrors && !code.Reasoned() {
		return text
	}
	full := clip(text+": "+reason, maxErrorText)
	if style == autoErrors && fuseErrno(full) != fuseErrno(text) {
		return text
	}
	return full
}

// clip returns at most n bytes of s, as UTF-8.
func clip(s string, n int) string {
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// fuseErrno is how plan9port's 9pfuse reads an error text: the first of these
// that is anywhere in it wins, and ERANGE is what it does not know.
func fuseErrno(text string) uint32 {
	text = strings.ToLower(text)
	for _, w := range fuseWords {
		if strings.Contains(text, w.word) {
			return w.errno
		}
	}
	return 34
}

var fuseWords = []struct {
	word  string
	errno uint32
}{
	{"permitted", 1}, {"permission", 13}, {"access", 13}, {"exists", 17},
	{"exist", 2}, {"no such", 2}, {"not found", 2}, {"not implemented", 38},
	{"input/output", 5}, {"timeout", 110}, {"timed out", 110}, {"i/o", 5},
	{"too long", 7}, {"interrupt", 4}, {"bad file", 9}, {" fid ", 9},
	{"temporar", 11}, {"memory", 12}, {"is a directory", 21}, {"directory", 20},
	{"argument", 22}, {"pipe", 32}, {"in use", 16}, {"busy", 16},
	{"illegal", 22}, {"invalid", 22}, {"read-only", 30}, {"stale", 116},
	{"proto", 71}, {"entry", 2},
}

// errorOfText is what a client makes of an Rerror: the Code whose text it
// begins with, else that of the errno that 9pfuse would see, and the rest as
// the reason.
func errorOfText(text string) error {
	best, found := fsys.Internal, false
	for _, c := range fsys.Codes() {
		t := c.Text()
		if hasPrefixFold(text, t) && (!found || len(t) > len(best.Text())) {
			best, found = c, true
		}
	}
	if found {
		reason := strings.TrimPrefix(text[len(best.Text()):], ": ")
		if reason == "" {
			return best
		}
		return fsys.E(best, reason)
	}
	if text == "Disk quota exceeded" {
		return fsys.Exhausted
	}
	if n := fuseErrno(text); n != 34 {
		return fsys.E(fsys.CodeOfErrno(n), text)
	}
	return fsys.E(fsys.Internal, text)
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// errorOfErrno is what a client makes of an Rlerror.
func errorOfErrno(n uint32) error { return fsys.CodeOfErrno(n) }
