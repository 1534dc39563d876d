package fake

import (
	"testing"

	"agent9/conformance"
	"agent9/fsys"
)

func TestConformance(t *testing.T) {
	conformance.TestCompute(t, conformance.Compute{
		Provider:   &Provider{},
		Model:      "fake",
		Say:        "say hello;use 3 4;world",
		Want:       "hello world ",
		Slow:       "begin;wait forever",
		Fail:       "begin;fail busy too many",
		FailCode:   fsys.Busy,
		FailReason: "too many",
	})
}
