package daemon

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// HelperFor builds a9 and tells the daemons of the test where it is.
func HelperFor(t *testing.T) {
	t.Helper()
	helper := filepath.Join(t.TempDir(), "a9")
	build := exec.Command("go", "build", "-o", helper, "agent9/cmd/a9")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+runtime.GOARCH)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Setenv("AGENT9_HELPER", helper)
}
