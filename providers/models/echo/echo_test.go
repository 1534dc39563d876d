package echo

import (
	"strings"
	"testing"
	"time"

	"agent9/conformance"
)

func TestConformance(t *testing.T) {
	const text = "one  two\nthree ä€😀 "
	conformance.TestCompute(t, conformance.Compute{
		Provider: New(Config{Pause: time.Millisecond}),
		Model:    Model,
		Say:      text,
		Want:     text,
		Slow:     strings.Repeat("word ", 1<<14),
	})
}
