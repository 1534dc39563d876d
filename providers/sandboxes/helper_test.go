package sandboxes_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agent9/fsys"
	"agent9/providers/sandboxes"
)

func TestFindHelper(t *testing.T) {
	dir := t.TempDir()
	static := build(t, filepath.Join(dir, "static"), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	script := filepath.Join(dir, "script")
	unexecutable := filepath.Join(dir, "unexecutable")
	program, err := os.ReadFile(static)
	for name, text := range map[string]string{script: "#!/bin/sh\n", unexecutable: string(program)} {
		if err == nil {
			err = os.WriteFile(name, []byte(text), 0o644)
		}
	}
	if err == nil {
		err = os.Chmod(script, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, goos, arch, reason string }{
		{static, "linux", "amd64", ""},
		{static, "linux", "arm64", "is for another processor than arm64: build it with CGO_ENABLED=0"},
		{script, "linux", "amd64", "is not a program for Linux"},
		{script, "darwin", "arm64", ""},
		{unexecutable, "linux", "amd64", "cannot be executed"},
		{filepath.Join(dir, "none"), "linux", "amd64", "no such file"},
	} {
		t.Setenv(sandboxes.HelperEnv, c.path)
		h, err := sandboxes.FindHelper(c.goos, c.arch)
		switch {
		case c.reason == "" && (err != nil || h.Path != c.path || len(h.Hash) != 64):
			t.Errorf("%s for %s: %+v, %v", c.path, c.arch, h, err)
		case c.reason != "" && (fsys.CodeOf(err) == fsys.Internal || !strings.Contains(fsys.ReasonOf(err), c.reason)):
			t.Errorf("%s for %s: %v, want %q", c.path, c.arch, err, c.reason)
		}
	}
	t.Setenv(sandboxes.HelperEnv, "")
	if _, err := sandboxes.FindHelper("linux", "riscv64"); fsys.CodeOf(err) != fsys.Unavailable ||
		!strings.Contains(fsys.ReasonOf(err), "CGO_ENABLED=0 GOOS=linux GOARCH=riscv64 go build ./cmd/a9") {
		t.Errorf("where there is none: %v", err)
	}
}

func TestHelperThatNeedsLibraries(t *testing.T) {
	ls, err := exec.LookPath("ls")
	if err != nil {
		t.Skip("there is no ls")
	}
	h, err := sandboxes.CheckHelper(ls, "linux", "")
	if err == nil {
		t.Skipf("%s is static here", h.Path)
	}
	if !strings.Contains(fsys.ReasonOf(err), "needs libraries") && !strings.Contains(fsys.ReasonOf(err), "not a program for Linux") {
		t.Error(err)
	}
}

// build makes a program.
func build(t *testing.T, path string, env ...string) string {
	t.Helper()
	source := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, source)
	cmd.Env = append(cmd.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

func TestWherePath(t *testing.T) {
	folder := sandboxes.Where{Root: "/srv/box/", Workspace: "/srv/box/workspace"}
	for _, c := range []struct {
		where sandboxes.Where
		name  string
		below string
		ok    bool
	}{
		{sandboxes.Inside(), "/etc/passwd", "etc/passwd", true},
		{sandboxes.Inside(), "a/b", "workspace/a/b", true},
		{sandboxes.Inside(), "../x", "x", true},
		{sandboxes.Inside(), "/", "", true},
		{folder, "a", "workspace/a", true},
		{folder, "/srv/box", "", true},
		{folder, "/srv/boxes", "/srv/boxes", false},
		{folder, "../../x", "/srv/x", false},
	} {
		if below, ok := c.where.Path(c.name); below != c.below || ok != c.ok {
			t.Errorf("%q below %s: %q, %v, want %q, %v", c.name, c.where.Root, below, ok, c.below, c.ok)
		}
	}
}
