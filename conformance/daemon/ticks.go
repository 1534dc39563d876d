package daemon

import (
	"strings"
	"testing"
)

// As is the same tree for a part of the test.
func (tr *Tree) As(t *testing.T) *Tree { return &Tree{t, tr.Client, tr.Root} }

func HasNot(t *testing.T, what, text, part string) {
	t.Helper()
	if strings.Contains(text, part) {
		t.Errorf("%s has %q:\n%s", what, part, text)
	}
}
