package daemon

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"agent9/fsys/export/fuse"
)

// Bound is how long the end of the daemon may take.
const Bound = 20 * time.Second

// WithMount starts a daemon that is mounted, with the agent alice, and returns
// the path of a file of the mount.
func WithMount(t *testing.T) (d *Daemon, in func(path string) string) {
	t.Helper()
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no FUSE here: %v", err)
	}
	f.Close()
	d = New(t)
	dir := filepath.Join(d.Dir, "mnt")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	d.Args = append(d.Args, "--mount", dir)
	d.Start()
	t.Cleanup(func() { fuse.Unmount(dir) }) // if the daemon did not
	if err := os.Mkdir(filepath.Join(dir, "agents/alice"), 0o755); err != nil {
		t.Fatal(err)
	}
	return d, func(path string) string { return filepath.Join(dir, path) }
}
