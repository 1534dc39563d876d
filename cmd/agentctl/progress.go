package main

import (
	"fmt"
	"io"
	"time"

	"agent9/cmd/internal/plain"

	"golang.org/x/term"
)

// A meter shows on a terminal how far long work is: on standard error, on one
// line that goes away.
type meter struct {
	w     io.Writer // nil: nothing is shown
	width int
	began time.Time
	shown time.Time // last
	what  string
	files int64
	bytes int64
	lines bool // one is shown
}

// patientFor is how long work takes before its progress is shown, and how
// often it is.
const (
	patientFor = 500 * time.Millisecond
	shownEvery = 200 * time.Millisecond
)

// newMeter returns a meter, which shows nothing if quiet or without a terminal.
func (s *session) newMeter(quiet bool) *meter {
	m := &meter{began: time.Now(), width: 80}
	f := plain.Terminal(s.App.ErrWriter)
	if f == nil || quiet {
		return m
	}
	if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 20 {
		m.width = width
	}
	m.w = f
	return m
}

// begin says that a file is begun.
func (m *meter) begin(what string) {
	m.files++
	m.what = what
	m.show()
}

// reader counts what is read from r.
func (m *meter) reader(r io.Reader) io.Reader { return &metered{r, m} }

type metered struct {
	r io.Reader
	m *meter
}

func (r *metered) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.m.bytes += int64(n)
	r.m.show()
	return n, err
}

// writer counts what is written to w.
func (m *meter) writer(w io.Writer) io.Writer { return &meteredWriter{w, m} }

type meteredWriter struct {
	w io.Writer
	m *meter
}

func (w *meteredWriter) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	w.m.bytes += int64(n)
	w.m.show()
	return n, err
}

func (m *meter) show() {
	now := time.Now()
	if m.w == nil || now.Sub(m.began) < patientFor || now.Sub(m.shown) < shownEvery {
		return
	}
	m.shown, m.lines = now, true
	text := fmt.Sprintf("%s  %s/s", size(m.bytes), size(int64(float64(m.bytes)/now.Sub(m.began).Seconds())))
	if m.files > 0 {
		text = fmt.Sprintf("%s  %s  %s", plain.Count(m.files, "file"), text, m.what)
	}
	fmt.Fprintf(m.w, "\r\x1b[K%s", short(plain.Line(text), m.width-1))
}

// clear takes the line away, for something else to be said.
func (m *meter) clear() {
	if m.lines {
		io.WriteString(m.w, "\r\x1b[K")
		m.lines = false
	}
}

// done takes the line away for good.
func (m *meter) done() {
	m.clear()
	m.w = nil
}

// size is a number of bytes for a person.
func size(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	f, units := float64(n), "kMGTPE"
	i := -1
	for ; f >= 999.95 && i < len(units)-1; i++ {
		f /= 1000
	}
	return fmt.Sprintf("%.1f %cB", f, units[i])
}
