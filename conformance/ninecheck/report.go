package ninecheck

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Print writes r for people: one line, and after a finding what the manual
// says and the frames that show it.
func (r Result) Print(w io.Writer) {
	fmt.Fprintf(w, "%-8s %s %s", r.Dialect, r.Verdict, r.Check)
	if r.Reason != "" {
		fmt.Fprintf(w, ": %s", r.Reason)
	}
	fmt.Fprintln(w)
	if len(r.Findings) > 0 {
		fmt.Fprintf(w, "    the rule: %s\n", r.Says)
	}
	for _, f := range r.Findings {
		fmt.Fprintf(w, "    found: %s\n", f.What)
		for _, frame := range f.Frames {
			frame.print(w)
		}
	}
}

func (f Frame) print(w io.Writer) {
	arrow := "->"
	if f.From == "server" {
		arrow = "<-"
	}
	fmt.Fprintf(w, "      %8.1f ms  #%d %s %s\n", f.At, f.Conn, arrow, f.Text)
	var pairs []string
	for pair := range slices.Chunk([]byte(f.Hex), 8) {
		pairs = append(pairs, string(pair))
	}
	if len(pairs) == 0 {
		return
	}
	more := ""
	if f.Bytes > len(f.Hex)/2 {
		more = fmt.Sprintf(" … %d bytes", f.Bytes)
	}
	fmt.Fprintf(w, "                       %s%s\n", strings.Join(pairs, " "), more)
}

// Count returns how many results have the verdict.
func Count(results []Result, verdict string) (n int) {
	for _, r := range results {
		if r.Verdict == verdict {
			n++
		}
	}
	return n
}
