//go:build unix

package conformance_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestDisk holds a directory of Stored files, mounted with agentctl, to what
// programs expect of a disk.
func TestDisk(t *testing.T) {
	bin := buildCommands(t)
	d := startDaemon(t, bin)
	dir := filepath.Join(d.dir, "m")
	mount(t, dir, bin+"/agentctl", "--addr", "tcp:127.0.0.1:"+d.port, "--token", d.token, "mount", "--foreground", dir)
	goals := filepath.Join(dir, "goals")
	for name, do := range map[string]func(*testing.T, string){
		"fsx": fsx, "names": diskNames, "open": diskOpen, "times": diskTimes, "writers": diskWriters,
		"listing": diskListing, "find and rsync": diskRsync, "git": diskGit,
	} {
		t.Run(name, func(t *testing.T) {
			own := filepath.Join(goals, strings.ReplaceAll(name, " ", "-"))
			must(t, os.Mkdir(own, 0o755))
			do(t, own)
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func fails(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func holds(t *testing.T, path, want string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil || string(b) != want {
		t.Errorf("%s: %.60q, %v, want %.60q", filepath.Base(path), b, err, want)
	}
}

// fsx reads, writes, truncates and opens anew, at random, and compares with
// memory.
func fsx(t *testing.T, dir string) {
	const most = 200_000
	rnd := rand.New(rand.NewPCG(1, 2))
	path := filepath.Join(dir, "f")
	f, err := os.Create(path)
	must(t, err)
	defer func() { f.Close() }()
	var want []byte
	for step := range 600 {
		off, n := rnd.IntN(most), rnd.IntN(20_000)
		switch rnd.IntN(8) {
		case 0, 1, 2:
			p := make([]byte, n)
			for i := range p {
				p[i] = byte(rnd.IntN(256))
			}
			if n > 0 {
				want = append(want, make([]byte, max(0, off+n-len(want)))...)
			}
			copy(want[min(off, len(want)):], p)
			if _, err := f.WriteAt(p, int64(off)); err != nil {
				t.Fatalf("step %d: write %d at %d: %v", step, n, off, err)
			}
		case 3:
			want = append(want, make([]byte, max(0, off-len(want)))...)[:off]
			must(t, f.Truncate(int64(off)))
		case 4:
			must(t, f.Close())
			if f, err = os.OpenFile(path, os.O_RDWR, 0); err != nil {
				t.Fatal(err)
			}
		case 5:
			must(t, f.Sync())
		default:
			p := make([]byte, n)
			got, _ := f.ReadAt(p, int64(off))
			if part := want[min(off, len(want)):min(off+n, len(want))]; !bytes.Equal(p[:got], part) {
				t.Fatalf("step %d: a read of %d at %d of %d is not what was written (%d bytes, want %d)", step, n, off, len(want), got, len(part))
			}
		}
		if info, err := f.Stat(); err != nil || info.Size() != int64(len(want)) {
			t.Fatalf("step %d: size %d, %v, want %d", step, info.Size(), err, len(want))
		}
	}
	holds(t, path, string(want))
}

func diskNames(t *testing.T, dir string) {
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) { t.Helper(); must(t, os.WriteFile(at(name), []byte(text), 0o644)) }
	write("a", "one")
	write("b", "two")
	must(t, os.Rename(at("a"), at("b"))) // over it
	holds(t, at("b"), "one")
	_, err := os.Stat(at("a"))
	fails(t, "stat of what was renamed", err, fs.ErrNotExist)
	must(t, os.Rename(at("b"), at("b")))
	fails(t, "renaming nothing", os.Rename(at("no"), at("x")), fs.ErrNotExist)

	must(t, os.Mkdir(at("d"), 0o755))
	must(t, os.Mkdir(at("e"), 0o755))
	fails(t, "mkdir again", os.Mkdir(at("d"), 0o755), fs.ErrExist)
	write("d/f", "x")
	fails(t, "rmdir of what is not empty", syscall.Rmdir(at("d")), syscall.ENOTEMPTY)
	if err := syscall.Rename(at("e"), at("d")); err == nil {
		t.Error("a directory was renamed over one that is not empty")
	}
	if err := syscall.Rename(at("b"), at("e")); err == nil {
		t.Error("a file was renamed over a directory")
	}
	fails(t, "unlink of a directory", syscall.Unlink(at("e")), syscall.EISDIR)
	fails(t, "rmdir of a file", syscall.Rmdir(at("b")), syscall.ENOTDIR)
	_, err = os.Stat(at("b/x"))
	fails(t, "below a file", err, syscall.ENOTDIR)
	must(t, os.Rename(at("d"), at("g")))
	holds(t, at("g/f"), "x")

	for _, name := range []string{strings.Repeat("n", 255), "ü 日本\n\t*?\"'\\", "-rf", "...", "a.b~"} {
		write(name, name)
		holds(t, at(name), name)
		must(t, os.Remove(at(name)))
	}
	fails(t, "a name of 256 bytes", os.WriteFile(at(strings.Repeat("n", 256)), nil, 0o644), syscall.ENAMETOOLONG)
	fails(t, "a symbolic link", os.Symlink("b", at("l")), syscall.EPERM) // symlink(2)
}

func diskOpen(t *testing.T, dir string) {
	path := filepath.Join(dir, "f")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	must(t, err)
	_, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	fails(t, "O_EXCL of what exists", err, fs.ErrExist)
	_, err = f.WriteString("hello")
	must(t, err)
	if _, err := os.OpenFile(filepath.Join(dir, "no"), os.O_RDWR, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open of nothing: %v", err)
	}
	r, err := os.Open(path)
	must(t, err)
	defer r.Close()
	if _, err := r.Write([]byte("x")); !errors.Is(err, syscall.EBADF) {
		t.Errorf("a write to what is open for reading: %v", err)
	}
	must(t, os.Truncate(path, 2))
	holds(t, path, "he")
	must(t, os.Truncate(path, 5))
	holds(t, path, "he\x00\x00\x00")
	must(t, f.Close())

	g, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	must(t, err)
	must(t, g.Close())
	holds(t, path, "")

	must(t, os.Remove(path)) // while r has it open
	_, err = os.Stat(path)
	fails(t, "stat of what was removed", err, fs.ErrNotExist)
	must(t, os.WriteFile(path, []byte("another"), 0o644))
	holds(t, path, "another")
}

func diskTimes(t *testing.T, dir string) {
	path := filepath.Join(dir, "f")
	must(t, os.WriteFile(path, []byte("x"), 0o640))
	at := time.Date(2001, 2, 3, 4, 5, 6, 789e6, time.UTC)
	must(t, os.Chtimes(path, at, at))
	info, err := os.Stat(path)
	must(t, err)
	if !info.ModTime().Equal(at) {
		t.Errorf("mtime %v, want %v", info.ModTime(), at)
	}
	must(t, os.Chmod(path, 0o600))
	if info, err = os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	must(t, os.WriteFile(path, []byte("y"), 0))
	if info, err = os.Stat(path); err != nil || !info.ModTime().After(at) {
		t.Errorf("a write left the mtime at %v, %v", info.ModTime(), err)
	}
}

// diskWriters has two append to one file: no line is lost or broken.
func diskWriters(t *testing.T, dir string) {
	const each = 200
	path := filepath.Join(dir, "log")
	must(t, os.WriteFile(path, nil, 0o644))
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			for i := range each {
				if _, err := fmt.Fprintf(f, "writer %d line %d\n", w, i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b, err := os.ReadFile(path)
	must(t, err)
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	slices.Sort(lines)
	if n := len(slices.Compact(lines)); n != 2*each {
		t.Errorf("%d different lines, want %d", n, 2*each)
	}
}

// diskListing reads a directory while files come and go: what stays is there
// once.
func diskListing(t *testing.T, dir string) {
	for i := range 300 {
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("stays-%03d", i)), nil, 0o644))
	}
	f, err := os.Open(dir)
	must(t, err)
	defer f.Close()
	seen := map[string]int{}
	for i := 0; ; i++ {
		names, err := f.Readdirnames(20)
		for _, n := range names {
			seen[n]++
		}
		if err != nil {
			break
		}
		name := filepath.Join(dir, fmt.Sprintf("comes-%03d", i))
		must(t, os.WriteFile(name, nil, 0o644))
		if i%2 == 0 {
			must(t, os.Remove(name))
		}
	}
	for i := range 300 {
		if n := seen[fmt.Sprintf("stays-%03d", i)]; n != 1 {
			t.Errorf("stays-%03d was listed %d times", i, n)
		}
	}
}

func command(t *testing.T, dir, script string) string {
	t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%v\n%s", script, err, out)
	}
	return string(out)
}

func diskRsync(t *testing.T, dir string) {
	need(t, "it copies there and back", "rsync", "find", "diff")
	from, back := t.TempDir(), t.TempDir()
	command(t, from, `mkdir -p a/b/c empty; for i in $(seq 40); do echo "file $i" > a/f$i; done; head -c 300000 /dev/urandom > a/b/large; : > a/b/c/none; touch -d 2001-02-03T04:05:06Z a/f1; chmod 600 a/f2`)
	command(t, from, `rsync -rtp ./ "`+dir+`/" && rsync -rtp "`+dir+`/" "`+back+`/" && diff -r . "`+back+`"`)
	if again := command(t, from, `rsync -rtpi ./ "`+dir+`/"`); strings.Contains(again, ">f") {
		t.Errorf("a second rsync sends\n%s", again)
	}
	mine, theirs := command(t, from, `find . | sort`), command(t, dir, `find . | sort`)
	if mine != theirs {
		t.Errorf("find sees\n%s, want\n%s", theirs, mine)
	}
	command(t, dir, `find . -mindepth 1 -delete`)
}

func diskGit(t *testing.T, dir string) {
	need(t, "it keeps a repository on the mount", "git")
	command(t, dir, `git init -q . && mkdir src && for i in $(seq 20); do echo "line $i" > src/f$i; done
git add -A && git commit -qm one && echo more >> src/f1 && git mv src/f2 src/g2 && git commit -qam two && git gc -q && git fsck --strict`)
	if out := command(t, dir, `git status --porcelain; git log --format=%s`); out != "two\none\n" {
		t.Errorf("git says\n%s", out)
	}
}
