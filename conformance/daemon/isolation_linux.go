package daemon

import (
	"os"
	"testing"
)

func NeedFUSE(t *testing.T) {
	t.Helper()
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no FUSE: %v", err)
	}
	f.Close()
}
