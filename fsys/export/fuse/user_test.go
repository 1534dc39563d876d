//go:build linux && !386 && !arm && !mips && !mipsle

package fuse_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agent9/fsys/export/fuse"
)

func TestAsUser(t *testing.T) {
	need(t, "fusermount3", "unshare", "su")
	if os.Getuid() != 0 {
		t.Skip("this test is for root; for a user all the others are")
	}
	home := t.TempDir()
	dir := home + "/mnt"
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	os.Chown(dir, 65534, 65534)
	os.Chmod(filepath.Dir(home), 0o755)
	self, _ := os.Executable()
	// The device is everybody's on most machines, but not on all.
	script := `mount --make-rprivate / && mount -t tmpfs none /mnt && mknod /mnt/fuse c 10 229 && chmod 666 /mnt/fuse &&
		mount --bind /mnt/fuse /dev/fuse && cp ` + self + ` /mnt/program && chmod 755 /mnt /mnt/program || { echo skip; exit; }
		FUSE_TEST_HELPER="visit
` + dir + `" exec su -s /bin/sh nobody -c /mnt/program`
	out, err := exec.Command("unshare", "-m", "bash", "-c", script).CombinedOutput()
	if strings.HasSuffix(string(out), "skip\n") {
		t.Skipf("no such mount namespace here: %s", out)
	}
	if want := "hello\nworld\n65534\n65534\n"; err != nil || string(out) != want {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
}

func TestAllowOther(t *testing.T) {
	need(t, "su")
	if os.Getuid() != 0 {
		t.Skip("this test is for root")
	}
	home := t.TempDir()
	os.Chmod(filepath.Dir(home), 0o755)
	for _, c := range []struct {
		allow bool
		want  string
	}{
		{true, "hello\nworld\nconfig: Permission denied\nnot w\nok\n"},
		{false, "cd: Permission denied\n"},
	} {
		dir := fmt.Sprint(home, "/", c.allow)
		os.Mkdir(dir, 0o755)
		mountAt(t, office(), dir, fuse.Options{AllowOther: c.allow})
		script := `cd ` + dir + ` || exit; cat README; echo {} >config; test -w config || echo not w; echo x >new && echo ok`
		out, _ := exec.Command("su", "-s", "/bin/bash", "nobody", "-c", `{ `+script+`; } 2>&1 | sed -E 's/^.*line [0-9]+: //; s,^cd: .*: ,cd: ,'`).CombinedOutput()
		if string(out) != c.want {
			t.Errorf("AllowOther %v: got %q, want %q", c.allow, out, c.want)
		}
	}
}
