package mem_test

import (
	"testing"

	"agent9/conformance"
	"agent9/store"
	"agent9/store/mem"
)

func TestStore(t *testing.T) {
	conformance.TestStore(t, func(*testing.T) store.Updater { return mem.New() }, nil)
}
