//go:build linux && !386 && !arm && !mips && !mipsle

package fuse_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/fsys/export/fuse"
)

// receive returns the next value of c, or fails the test.
func receive[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("%s: nothing after %v", what, patience)
		panic("unreachable")
	}
}

// within waits until is holds.
func within(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for !is() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal(what)
		}
	}
}

// ours returns how many goroutines are in this package or go-fuse.
func ours() (n int, stacks string) {
	var b bytes.Buffer
	pprof.Lookup("goroutine").WriteTo(&b, 2)
	for g := range strings.SplitSeq(b.String(), "\n\n") {
		if strings.Contains(g, "hanwen/go-fuse") || strings.Contains(g, "agent9/fsys/export/fuse.") {
			n++
			stacks += g + "\n\n"
		}
	}
	return n, stacks
}

func nothingLeft(t *testing.T) {
	t.Helper()
	var stacks string
	defer func() {
		if t.Failed() {
			t.Log(stacks)
		}
	}()
	within(t, "goroutines are left", func() (none bool) {
		var n int
		n, stacks = ours()
		return n == 0
	})
}

// silent is data that never comes, and tells who looks for it.
type silent struct{ asked chan struct{} }

func (s silent) Size() int64 {
	select {
	case s.asked <- struct{}{}:
	default:
	}
	return 0
}

func (s silent) ReadAt([]byte, int64) (int, error) { return 0, nil }

func TestUnmountLeavesNothing(t *testing.T) {
	reading := make(chan struct{}, 10)
	w := fsys.NewTape(silent{reading})
	for _, c := range []struct{ name, script string }{
		{"idle", ""},
		{"blocked readers", "cat w & cat w & wait"},
		{"a file held open", "exec 3<w; cat <&3; sleep 60"},
		{"a shell in it", "cd sub; cat ../w; sleep 60"},
	} {
		t.Run(c.name, func(t *testing.T) {
			nothingLeft(t)
			dir := t.TempDir()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			m, err := fuse.Mount(ctx, fsys.NewTable(entry("w", w), entry("sub", office())), dir, fuse.Options{})
			if err != nil {
				t.Skip(err)
			}
			if c.script != "" {
				cmd, _ := start(t, dir, c.script)
				defer func() {
					kill(cmd)
					cmd.Wait()
				}()
				receive(t, reading, "a reader")
			}
			cancel()
			m.Wait()
			if err := m.Unmount(); err != nil {
				t.Error(err)
			}
			if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
				t.Errorf("after Unmount there are %v, %v", names, err)
			}
			nothingLeft(t)
			for len(reading) > 0 {
				<-reading
			}
		})
	}
}

func TestSomebodyElseUnmounts(t *testing.T) {
	dir := t.TempDir()
	m := mountAt(t, office(), dir, fuse.Options{})
	if err := fuse.Unmount(dir); err != nil {
		t.Fatal(err)
	}
	m.Wait()
	if err := m.Unmount(); err != nil {
		t.Error(err)
	}
	nothingLeft(t)
	if err := fuse.Unmount(dir); fsys.CodeOf(err) != fsys.Invalid || !strings.Contains(err.Error(), dir) {
		t.Errorf("unmounting twice: %v", err)
	}
}

func TestUnmountOfWhatIsInUse(t *testing.T) {
	reading := make(chan struct{}, 1)
	dir := mount(t, fsys.NewTable(entry("w", fsys.NewTape(silent{reading}))))
	cmd, _ := start(t, dir, "exec cat w")
	receive(t, reading, "a reader")
	if err := fuse.Unmount(dir); fsys.CodeOf(err) != fsys.Busy || !strings.Contains(err.Error(), dir) {
		t.Errorf("Unmount while it is read: %v, want busy and the name", err)
	}
	kill(cmd)
	cmd.Wait()
	within(t, "it stays busy", func() bool { return fuse.Unmount(dir) == nil })
}

func TestWhereNothingCanBeMounted(t *testing.T) {
	dir := t.TempDir()
	os.WriteFile(dir+"/file", nil, 0o644)
	live := mount(t, office())
	for _, c := range []struct {
		dir  string
		want fsys.Code
	}{
		{dir, fsys.NotEmpty}, {dir + "/file", fsys.NotDir}, {dir + "/nothing", fsys.NotExist}, {dir + "/no/thing", fsys.NotExist}, {live, fsys.Exist},
	} {
		m, err := fuse.Mount(t.Context(), office(), c.dir, fuse.Options{})
		if err == nil {
			m.Unmount()
		}
		if fsys.CodeOf(err) != c.want || !strings.Contains(fmt.Sprint(err), c.dir) {
			t.Errorf("Mount at %s: %v, want %v and the name", c.dir, err, c.want)
		}
	}
	if err := fuse.Unmount("/proc"); fsys.CodeOf(err) != fsys.Invalid {
		t.Errorf("Unmount of what is not ours: %v", err)
	}
}
