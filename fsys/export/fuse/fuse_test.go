//go:build linux && !386 && !arm && !mips && !mipsle

package fuse_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"agent9/conformance"
	"agent9/fsys"
	"agent9/fsys/export/fuse"
	"agent9/store/files"
	"agent9/store/mem"
)

// patience is how long anything may take that should be quick, on a machine
// that is busy with other things.
const patience = 60 * time.Second

// mount shows root to the kernel for the length of a test.
func mount(t *testing.T, root fsys.Node) string {
	t.Helper()
	dir := t.TempDir()
	mountAt(t, root, dir, fuse.Options{})
	return dir
}

func mountAt(t *testing.T, root fsys.Node, dir string, opts fuse.Options) *fuse.Mounted {
	t.Helper()
	if f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err != nil {
		t.Skipf("no FUSE on this machine: %v", err)
	} else {
		f.Close()
	}
	m, err := fuse.Mount(context.Background(), root, dir, opts)
	if fsys.CodeOf(err) == fsys.Permission {
		t.Skipf("mounting is not allowed here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Unmount(); err != nil {
			t.Errorf("Unmount: %v", err)
		}
	})
	return m
}

// bash runs a script with the mount as its working directory and returns what
// it printed, errors included.
func bash(t *testing.T, dir, script string) string {
	t.Helper()
	cmd, out := start(t, dir, script)
	late := time.AfterFunc(patience, func() { kill(cmd) })
	defer late.Stop()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%s\n%s%v", script, out, err)
	}
	return out.String()
}

// start runs a script in a process group of its own.
func start(t *testing.T, dir, script string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	// Not cmd.Dir: a process that starts another one in a directory of its own
	// mount waits for itself.
	cmd := exec.Command("bash", "-c", `cd "$MNT" || exit; `+script)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "MNT="+dir, "TMP="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out := new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out
}

func kill(cmd *exec.Cmd) { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// need skips a test of a program that is not installed.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("no %s on this machine", p)
		}
	}
}

func entry(name string, n fsys.Node) fsys.Entry { return fsys.Entry{Name: name, Node: n} }

func office() fsys.Node {
	return fsys.NewTable(
		entry("README", fsys.Const("hello\nworld\n")),
		entry("config", &fsys.Doc{
			Load: func(context.Context) ([]byte, error) { return []byte("{}\n"), nil },
			Save: func(context.Context, []byte) error { return nil },
		}),
		entry("new", &fsys.Call{Do: func(_ context.Context, req []byte) ([]byte, error) { return req, nil }}),
	)
}

// stored returns an empty directory of ordinary files.
func stored(t *testing.T) fsys.Node {
	t.Helper()
	tree, err := files.New(t.Context(), mem.New(), files.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return tree.Root()
}

func TestExport(t *testing.T) { conformance.TestExport(t, mount) }

func TestInodeNumbers(t *testing.T) {
	dir := mount(t, fsys.NewTable(entry("a", office()), entry("b", office()), entry("goals", stored(t))))
	for _, c := range []struct{ name, script, want string }{
		{"stay", `stat -c %i a/README >$TMP/1; ls -lR >$TMP/2; stat -c %i a/README | cmp - $TMP/1 && echo same`, "same\n"},
		{"differ", `find . -printf '%i\n' | sort | uniq -d`, ""},
		{"are listed", `[ $(ls -i a | awk '$2=="README" {print $1}') = $(stat -c %i a/README) ] && echo same`, "same\n"},
		{"of another file of the same name", `cd goals; echo one >f; exec 3<f; echo two >g; mv g f
			[ $(stat -L -c %i /dev/fd/3) != $(stat -c %i f) ] && echo differ`, "differ\n"},
	} {
		if got := bash(t, dir, c.script+"; true"); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestOwner(t *testing.T) {
	dir := t.TempDir()
	mountAt(t, office(), dir, fuse.Options{Owner: &fuse.Owner{UID: 12, GID: 34}, FsName: "the office"})
	if got := bash(t, dir, `stat -c %u:%g README .`); got != "12:34\n12:34\n" {
		t.Errorf("got %q", got)
	}
	table, _ := os.ReadFile("/proc/self/mounts")
	if !strings.Contains(string(table), `the\040office `+dir) {
		t.Error("the name is not in the table of mounts")
	}
}

func TestCallerAndValues(t *testing.T) {
	who := &fsys.Call{Do: func(ctx context.Context, _ []byte) ([]byte, error) {
		return []byte(fsys.CallerOf(ctx) + "\n"), nil
	}}
	dir := t.TempDir()
	mountAt(t, fsys.NewTable(entry("who", who)), dir, fuse.Options{Caller: "alice"})
	if got := bash(t, dir, `exec 3<>who; echo x >&3; cat <&3`); got != "alice\n" {
		t.Errorf("got %q", got)
	}
}
