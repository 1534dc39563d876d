package host

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// A text of numbers never is shorter than one before it, and is still what it
// was.
func TestSteady(t *testing.T) {
	var s steady
	last := 0
	for _, n := range []int{1, 0, 2, 1009, 1010, 1011, 1012, 1013, 1014, 1015, 3, 5000, 1} {
		text := fmt.Sprintf("a{b=\"%s\"} 1\n", strings.Repeat("x", n))
		got := s.pad([]byte(text))
		if len(got) < last || len(got)%lengthStep != 0 || !bytes.HasPrefix(got, []byte(text)) || got[len(got)-1] != '\n' {
			t.Errorf("%d bytes became %d, after %d", len(text), len(got), last)
		}
		last = len(got)
		parser := expfmt.NewTextParser(model.UTF8Validation)
		if all, err := parser.TextToMetricFamilies(bytes.NewReader(got)); err != nil || len(all) != 1 {
			t.Errorf("%d bytes: %d families, %v", len(text), len(all), err)
		}
	}
}
