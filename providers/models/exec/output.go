//go:build unix

package exec

import (
	"context"
	"strings"
	"unicode/utf8"

	"agent9/providers/models"
)

// output emits what is written to it, at once, but for the bytes of a
// character that is not whole yet.
type output struct {
	emit func(models.Chunk) error
	stop context.CancelCauseFunc // ends the command when emit fails

	rest []byte // the beginning of a character
	size int
	err  error // emit's
}

func (o *output) Write(p []byte) (int, error) {
	text := p
	if len(o.rest) > 0 {
		text = append(o.rest, p...)
	}
	whole := len(text) - incomplete(text)
	rest := append([]byte(nil), text[whole:]...)
	if err := o.send(text[:whole]); err != nil {
		return 0, err
	}
	o.rest = rest
	return len(p), nil
}

func (o *output) send(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	o.size += len(text)
	if o.err = o.emit(models.Chunk{Text: string(text)}); o.err != nil {
		o.stop(o.err)
	}
	return o.err
}

// flush sends what is left, which no longer becomes a character.
func (o *output) flush() { o.send(o.rest) }

// incomplete returns how many bytes at the end of p begin a character that
// more bytes would complete.
func incomplete(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if b := p[len(p)-n:]; utf8.RuneStart(b[0]) {
			if !utf8.FullRune(b) {
				return n
			}
			return 0
		}
	}
	return 0
}

// tail keeps the end of what is written to it.
type tail struct {
	b   []byte
	cut bool
}

// tailSize is how much of the standard error becomes the reason of a failure.
const tailSize = 2048

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p[max(0, len(p)-tailSize):]...)
	if over := len(t.b) - tailSize; over > 0 || len(p) > tailSize {
		t.b = append(t.b[:0], t.b[max(0, over):]...)
		t.cut = true
	}
	return len(p), nil
}

// text returns the end as whole characters.
func (t *tail) text() string {
	s := strings.TrimSpace(strings.ToValidUTF8(string(t.b), ""))
	if t.cut {
		s = "… " + s
	}
	return s
}
