package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// noise is n bytes that do not repeat.
func noise(n int) []byte {
	b := make([]byte, n)
	random := rand.NewChaCha8([32]byte{1})
	random.Read(b)
	return b
}

// plant writes files below dir; a name that ends in a slash is a directory.
func plant(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// grown returns the files below dir and what they say.
func grown(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p)
		files[filepath.ToSlash(rel)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func sameFiles(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s is %.40q, want %.40q", name, got[name], text)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s is there, and should not be", name)
		}
	}
}

func TestCopy(t *testing.T) {
	c := realDaemon(t)
	c.ok("", "create", "alice", "bob")
	here := t.TempDir()
	files := map[string]string{"a": "A\n", "empty": "", "deep/er/b": "B\n", "big": string(noise(3 << 20)), "ü ñ": "name\n"}
	plant(t, filepath.Join(here, "plan"), files)
	old := time.Date(2020, 5, 17, 1, 2, 3, 0, time.UTC)
	script := filepath.Join(here, "plan", "a")
	if err := os.Chmod(script, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(script, old, old); err != nil {
		t.Fatal(err)
	}

	c.failsAs(8, "copy it with -r", "cp", filepath.Join(here, "plan"), "alice:goals")
	c.ok("", "cp", "-r", filepath.Join(here, "plan"), "alice:goals")
	c.ok("A\n", "cat", "agents/alice/goals/plan/a")
	c.ok("", "cp", "-r", "alice:goals/plan", "bob:state/")
	c.ok("", "cp", "-r", "bob:state/plan", filepath.Join(here, "back"))
	sameFiles(t, grown(t, filepath.Join(here, "back")), files)
	c.ok("", "cp", "-r", ":agents/alice/goals/plan/.", here)
	sameFiles(t, grown(t, filepath.Join(here, "deep")), map[string]string{"er/b": "B\n"})

	info, err := os.Stat(filepath.Join(here, "back", "a"))
	if err != nil {
		t.Fatal(err)
	}
	if got := info.ModTime().UTC(); !got.Equal(old) {
		t.Errorf("the time of a copy is %v, want %v", got, old)
	}
	if got := info.Mode().Perm(); got != 0o750 && runtime.GOOS != "windows" {
		t.Errorf("the mode of a copy is %v, want 0750", got)
	}

	c.ok("", "cp", filepath.Join(here, "back", "a"), filepath.Join(here, "back", "big"), "alice:goals")
	c.says([]string{"a", "big"}, "ls", "agents/alice/goals")
	c.failsAs(8, "no such directory to copy into", "cp", filepath.Join(here, "back", "a"), filepath.Join(here, "back", "big"), "alice:goals/nowhere")
	c.failsAs(3, "No such file", "cp", "alice:goals/nothing", here)
	c.failsAs(2, "all of it is on this machine", "cp", "a", "b")
	c.failsAs(6, "into itself", "cp", "-r", "alice:goals", "alice:goals/x/y")
	c.failsAs(8, "message file", "cp", "alice:ctl", here)
}

// A sandbox's files go in and out as they are, and a copy of a whole tree takes
// nothing away from it.
func TestCopySandbox(t *testing.T) {
	c := realDaemon(t)
	c.ok("", "create", "alice")
	got := c.run("run", "alice", "--keep", "mkdir -p sub; printf hello > sub/out; chmod 751 sub/out; ln -s . sub/loop")
	dir := strings.TrimSpace(got.err)
	files := strings.TrimPrefix(dir, "agents/") + "/files"
	files = strings.Replace(files, "/", ":", 1)
	here := t.TempDir()
	c.ok("", "cp", files+"/sub/out", here)
	if b, err := os.ReadFile(filepath.Join(here, "out")); err != nil || string(b) != "hello" {
		t.Errorf("out: %q, %v", b, err)
	}
	if info, err := os.Stat(filepath.Join(here, "out")); err != nil || info.Mode().Perm() != 0o751 {
		t.Errorf("out: %v, %v; want mode 0751", info, err)
	}
	if err := os.WriteFile(filepath.Join(here, "in.sh"), []byte("#!/bin/sh\necho it runs\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	c.ok("", "cp", filepath.Join(here, "in.sh"), files)
	number := dir[strings.LastIndex(dir, "/")+1:]
	c.ok("it runs\n", "shell", "alice", number, "--", "./in.sh")
	c.says([]string{"sub", "in.sh"}, "ls", dir+"/files") // the workspace is all that this sandbox has
	t.Logf("a tree with a link into itself: %+v", c.run("cp", "-r", files, filepath.Join(here, "all")))

	id := strings.TrimSpace(c.says(nil, "send", "alice", "stay"))
	if got := c.run("cp", "-r", "alice:inbox", here); got.status != 0 || got.err != "agentctl: 2 were left out, such as alice:inbox/ctl\n" {
		t.Errorf("cp -r of inbox: %+v", got)
	}
	c.says([]string{id}, "ls", "agents/alice/inbox")
	if b, err := os.ReadFile(filepath.Join(here, "inbox", id)); err != nil || !bytes.Contains(b, []byte("stay")) {
		t.Errorf("the copy of a message: %s, %v", b, err)
	}
}

// What fails leaves what was there.
func TestCopyFails(t *testing.T) {
	h := newHost(t, "alice")
	c := console{t: t, addr: h.serve()}
	here := t.TempDir()
	plant(t, here, map[string]string{"keep": "old\n", "tree/one": "1", "tree/two": "2"})
	if err := os.Mkdir(filepath.Join(here, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	c.failsAs(3, "alice:goals/none: No such file", "cp", "alice:goals/none", filepath.Join(here, "keep"))
	sameFiles(t, grown(t, here), map[string]string{"keep": "old\n", "tree/one": "1", "tree/two": "2"})
	if runtime.GOOS != "windows" {
		if err := os.Symlink(filepath.Join(here, "tree"), filepath.Join(here, "tree", "again")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("keep", filepath.Join(here, "link")); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("agentctl: 1 were left out, such as %s\n", filepath.Join(here, "tree", "again"))
		c.want(output{0, "", want}, "cp", "-r", filepath.Join(here, "tree"), "alice:goals")
		c.in = "new\n"
		c.ok("", "put", "agents/alice/goals/new")
		c.ok("", "cp", "alice:goals/new", filepath.Join(here, "link"))
		if b, _ := os.ReadFile(filepath.Join(here, "keep")); string(b) != "new\n" {
			t.Errorf("what the link leads to is %q", b)
		}
		if left, _ := filepath.Glob(filepath.Join(here, ".agentctl-*")); len(left) > 0 {
			t.Errorf("left over: %v", left)
		}
	}
}

func TestGoodName(t *testing.T) {
	for name, good := range map[string]bool{"a": true, "a b": true, ".hidden": true, "..": false, ".": false, "a/b": false, "": false, "/": false} {
		if err := goodName(name); (err == nil) != good {
			t.Errorf("goodName(%q) = %v", name, err)
		}
	}
}
