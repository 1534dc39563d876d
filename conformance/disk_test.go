//go:build unix

package conformance_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agent9/conformance/disk"
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

func fsx(t *testing.T, dir string) {
	must(t, disk.FSX(filepath.Join(dir, "f"), 600, 200_000))
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

// diskV9fs is what TestDiskOverV9fs does in the guest: each step ends with what
// it came to. A command that fails ends it, and the exit status says so.
const diskV9fs = `set -eu
export PATH=/x:/bin GIT_EXEC_PATH=/x GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
fails() { if "$@" 2>/dev/null; then echo "this was done: $*"; exit 1; fi; }
same() { [ "$1" = "$2" ] || { echo "got [$1], want [$2]"; exit 1; }; }

mkdir $M/goals/ops && cd $M/goals/ops
echo one >a; echo two >b; mv a b; same "$(cat b)" one; fails cat a; fails mv no x
mkdir d e; fails mkdir d; echo x >d/f; fails rmdir d; fails rmdir b; fails cat b/x
mv d g; same "$(cat g/f)" x
(set -C; fails sh -c 'set -C; echo again >b'; echo new >c); same "$(cat c)" new
echo more >>b; same "$(cat b)" "one
more"
truncate -s 2 b; same "$(cat b)" on; truncate -s 4 b; same "$(wc -c <b)" 4
touch -d '2001-02-03 04:05:06' b; same "$(stat -c %Y b)" 981173106; chmod 600 b; same "$(stat -c %a b)" 600
echo later >b; [ "$(stat -c %Y b)" -gt 981173106 ]; fails ln -s b l; fails ln b l
exec 3<b; rm b; fails cat b; echo another >b; same "$(cat b)" another; exec 3<&-
for w in 1 2; do (for i in $(seq 20); do echo "$w $i" >>log; done) & done; wait; same "$(sort -u log | wc -l)" 40
cd /; rm -r $M/goals/ops; same "$(ls $M/goals)" ''
echo 'DISK operations'

fsx $M/goals/f 150 100000; rm $M/goals/f
echo 'DISK fsx'

mkdir -p /tmp/from/a/b/c /tmp/from/empty; cd /tmp/from
for i in $(seq 12); do echo "file $i" >a/f$i; done; head -c 100000 /dev/urandom >a/b/large; : >a/b/c/none
touch -d '2001-02-03 04:05:06' a/f1; chmod 600 a/f2
rsync -rtp ./ $M/goals/; rsync -rtp $M/goals/ /tmp/back/; diff -r . /tmp/back
same "$(rsync -rtpi ./ $M/goals/ | grep '^>f' || :)" ''
same "$(cd $M/goals && find . | sort)" "$(find . | sort)"
same "$(cd $M/goals && find . -name 'f1*' -newermt 2002-01-01 -type f | wc -l)" 3
cd $M/goals; find . -mindepth 1 -delete; same "$(ls -A)" ''
echo 'DISK rsync and find'

mkdir $M/state/repo && cd $M/state/repo
git init -q --template= -b main .; mkdir src; for i in 1 2 3 4 5; do echo "line $i" >src/f$i; done
git add -A; git commit -qm one; echo more >>src/f1; git mv src/f2 src/g2; git commit -qam two
git gc -q; git fsck --strict
same "$(git status --porcelain; git log --format=%s)" "two
one"
git checkout -q HEAD~1; same "$(cat src/f1)" 'line 1'; same "$(git status --porcelain)" ''
cd /; rm -r $M/state/repo
echo 'DISK git'
`

// TestDiskOverV9fs holds directories of Stored files, mounted by the Linux
// kernel's own client in a guest, to what programs expect of a disk.
func TestDiskOverV9fs(t *testing.T) {
	need(t, "the guest needs it (deps.sh)", "qemu-system-x86_64", "busybox", "cpio", "xz", "zstd")
	need(t, "it works on the mount", "git", "rsync", "find", "diff", "bash")
	needKernel(t, "6.1")
	bin := buildCommands(t)
	build := exec.Command("go", "build", "-o", filepath.Join(bin, "fsx"), "agent9/conformance/disk/fsx")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	d := startDaemon(t, bin)
	const programs = "bash git rsync find diff sort stat touch truncate grep fsx"
	cmd := exec.CommandContext(t.Context(), "v9fs/v9fs.sh", "-p", d.port, "-a", d.token, "-x", programs, "-t", "300", "-")
	cmd.Stdin = strings.NewReader("exec /x/bash <<'END OF SCRIPT'\n" + diskV9fs + "END OF SCRIPT\n")
	cmd.Env = append(os.Environ(), "LC_ALL=C", "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	for _, step := range []string{"operations", "fsx", "rsync and find", "git"} {
		if !strings.Contains(string(out), "DISK "+step+"\n") {
			t.Errorf("%s did not come to its end", step)
		}
	}
	if err != nil || t.Failed() {
		t.Errorf("the guest ended with %v:\n%s", err, out)
	}
}
