// Package plain keeps what others wrote from commanding a person's terminal.
//
// A terminal obeys control characters: the sequences that begin with ESC or
// with one of U+0080 to U+009F move the cursor, name the window, hide text and
// make links; a carriage return writes over a line; a bidi control shows text in
// another order than it has; a character of no width, as U+FEFF, makes two names look
// alike. None of them, and no byte that is not UTF-8, comes
// out of a [Writer] or a [Line]: a space, or U+FFFD, is there instead.
package plain

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// obeyed reports whether a terminal does something else with r than show it.
func obeyed(r rune) bool {
	const nonJoiner, joiner = '\u200c', '\u200d' // Persian and emoji are written with them
	hidden := unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r)
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || hidden && r != nonJoiner && r != joiner
}

// Line is text as a terminal shows it, on one line.
func Line(text string) string {
	return strings.Map(func(r rune) rune {
		if obeyed(r) {
			return ' '
		}
		return r
	}, text)
}

// A Writer writes text as a terminal shows it: of the control characters, only
// newlines and tabs are left. Many may use it at the same time.
type Writer struct {
	mu   sync.Mutex
	w    io.Writer
	rest []byte // of a character that is not whole
}

// NewWriter returns a Writer that writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// For returns a Writer to w if w is a terminal, else w.
func For(w io.Writer) io.Writer {
	if Terminal(w) != nil {
		return NewWriter(w)
	}
	return w
}

// Bare returns what w writes to if it is a Writer, else w.
func Bare(w io.Writer) io.Writer {
	if t, ok := w.(*Writer); ok {
		return t.w
	}
	return w
}

// Terminal returns the terminal that w writes to, or nil.
func Terminal(w io.Writer) *os.File {
	if f, ok := Bare(w).(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

func (t *Writer) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	in := append(t.rest, p...)
	out := make([]byte, 0, len(in))
	for utf8.FullRune(in) {
		r, n := utf8.DecodeRune(in)
		if obeyed(r) && r != '\n' && r != '\t' {
			r = ' '
		}
		out, in = utf8.AppendRune(out, r), in[n:]
	}
	t.rest = append([]byte(nil), in...)
	if _, err := t.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Count is n and what there are n of, such as "1 agent" and "2 agents".
func Count[N int | int64](n N, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
