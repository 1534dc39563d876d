//go:build linux && !386 && !arm && !mips && !mipsle

package fuse_test

import (
	"fmt"
	"testing"

	"agent9/fsys"
	"agent9/fsys/export/fuse"
)

func TestNamesAreForgotten(t *testing.T) {
	tree := stored(t)
	dir := t.TempDir()
	m := mountAt(t, tree, dir, fuse.Options{})
	bash(t, dir, `for ((i=0; i<500; i++)); do : >f$i; mkdir d$i; : >d$i/x; done; rm -r -- *`)
	within(t, "what was removed is still known", func() bool { return m.Known() == 1 })
	for i := range 3 * fuse.MaxIdle {
		_, h, err := fsys.Create(t.Context(), tree, fmt.Sprint("f", i), 0o644, fsys.Write)
		if err != nil {
			t.Fatal(err)
		}
		h.Close()
	}
	if got := bash(t, dir, `exec 3<f0; ls -l 2>&1 | wc -l; test /dev/fd/3 -ef f0 && echo same`); got != fmt.Sprintf("%d\nsame\n", 3*fuse.MaxIdle+1) {
		t.Errorf("got %q", got)
	}
	within(t, "idle names are kept", func() bool { return m.Known() <= 2*fuse.MaxIdle })
	if got := bash(t, dir, `cat f1 f2 && ls | wc -l`); got != fmt.Sprintln(3*fuse.MaxIdle) {
		t.Errorf("got %q", got)
	}
}
