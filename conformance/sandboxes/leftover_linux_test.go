package sandboxes

import (
	"agent9/conformance/daemon"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// What a daemon finds of sandboxes and cannot remove neither keeps it from
// starting nor from making sandboxes. It is named, and removed when it can be.
func TestLeftovers(t *testing.T) {
	daemon.HelperFor(t)
	d := daemon.New(t, "--containers", "main=bwrap:")
	dir := filepath.Join(d.Data(), "containers/main/sandboxes")
	for _, name := range []string{".gone-fixed/it/a/b", ".gone-busy/it/mnt", "broken"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	os.Chmod(d.Data(), 0o700)
	for _, name := range []string{".gone-fixed/it/a/b/fixed", "broken/record.json"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"sandboxes/broken"}
	fixed, err := os.Open(filepath.Join(dir, ".gone-fixed/it/a/b/fixed"))
	if err != nil {
		t.Fatal(err)
	}
	defer fixed.Close()
	fix := func(flags int) error { return unix.IoctlSetPointerInt(int(fixed.Fd()), unix.FS_IOC_SETFLAGS, flags) }
	if err := fix(unix.STATX_ATTR_IMMUTABLE); err == nil {
		want = append(want, "sandboxes/.gone-fixed")
		defer fix(0)
	}
	busy := filepath.Join(dir, ".gone-busy/it/mnt")
	if err := unix.Mount("tmpfs", busy, "tmpfs", 0, ""); err == nil {
		want = append(want, "sandboxes/.gone-busy")
		defer unix.Unmount(busy, unix.MNT_DETACH)
	}
	slices.Sort(want)
	left := func() []string {
		var health struct {
			OK   bool
			Left []string
		}
		text := d.Root().Read("agents/alice/containers/providers/main/health")
		if err := json.Unmarshal([]byte(text), &health); err != nil {
			t.Fatal(err)
		}
		if !health.OK {
			t.Skip(text)
		}
		return health.Left
	}

	d.Start()
	d.Root().Mkdir("agents", "alice")
	if got := left(); !slices.Equal(got, want) {
		t.Errorf("the health names %q, want %q", got, want)
	}
	n := d.Root().Ask("agents/alice/containers/new", `{"commands":["echo made"]}`)
	if out := d.Root().Read("agents/alice/containers/sessions/" + n + "/stdout"); out != "made\n" {
		t.Errorf("a sandbox beside them says %q", out)
	}
	d.Kill()

	fix(0)
	unix.Unmount(busy, unix.MNT_DETACH)
	d.Start()
	if got := left(); !slices.Equal(got, want[len(want)-1:]) {
		t.Errorf("after the next start there are %q", got)
	}
	if names, _ := filepath.Glob(filepath.Join(dir, ".gone-*")); len(names) > 0 {
		t.Errorf("and on the disk %q", names)
	}
}
