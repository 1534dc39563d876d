//go:build linux

package bwrap_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"agent9/providers/sandboxes"
	"agent9/providers/sandboxes/bwrap"
	"agent9/providers/sandboxes/folder/foldertest"
)

// No file of the kernel tells a program inside where on the host something is:
// a mount shows the top of its own file system, or what it is called inside.
func TestPaths(t *testing.T) {
	p := provider(t)
	if info(t, p).Paths != "none" {
		t.Skip("no overlay can be mounted here")
	}
	for name, spec := range map[string]sandboxes.Spec{
		"one that goes":                  {Limits: sandboxes.Limits{Disk: 8 << 20}},
		"one that persists":              {Limits: sandboxes.Limits{Disk: 8 << 20}, Workspace: "kept"},
		"one that is bounded by nothing": {Skills: []sandboxes.File{{Name: "a", Data: []byte("b")}}},
	} {
		box := foldertest.Start(t, p, spec)
		text, _ := foldertest.Sh(t, box, "cat /proc/self/mountinfo /proc/1/mountinfo")
		lines := strings.Split(text, "\n")
		if len(lines) < 10 {
			t.Fatalf("%s: %q", name, text)
		}
		for _, line := range lines {
			f := strings.Fields(line)
			root, at := f[3], f[4]
			made := strings.Contains(line, " - tmpfs ") || strings.Contains(line, " - devtmpfs ") || strings.Contains(line, " - overlay ") || strings.Contains(line, " - proc ")
			if root != "/" && root != at && !made && !(at == "/workspace" && root == "/workspace") {
				t.Errorf("%s: %s", name, line)
			}
		}
		all, _ := foldertest.Sh(t, box, "cat /proc/self/mountinfo /proc/self/mounts /proc/self/mountstats /proc/1/mount*")
		for _, path := range []string{os.TempDir(), filepath.Dir(foldertest.Helper()), "sandboxes", "workspaces", "containers"} {
			for _, line := range strings.Split(all, "\n") {
				if strings.Contains(strings.ReplaceAll(line, " /tmp ", " "), path+"/") {
					t.Errorf("%s: %s is in %s", name, path, line)
				}
			}
		}
		if err := box.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// limited makes a sandbox with 16 MB of disk, and returns how much of it the
// host can have lost.
func limited(t *testing.T, p *bwrap.Provider, dir string) (*sandboxes.Box, func() int64) {
	box := foldertest.Start(t, p, sandboxes.Spec{Limits: sandboxes.Limits{Disk: 16 << 20}})
	var before unix.Statfs_t
	if err := unix.Statfs(dir, &before); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "sandboxes", box.ID(), "workspace")
	return box, func() int64 {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			t.Fatal(err)
		}
		return st.Blocks * 512
	}
}

// Whatever a program does to hide what it writes, the limit of the disk holds.
func TestHidden(t *testing.T) {
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("the attacks are written in Python")
	}
	dir := t.TempDir()
	p := provider(t, func(c *bwrap.Config) { c.Dir = dir })
	kernel := info(t, p).Disk == "image"
	const write = `
import os, sys, mmap, socket, array, time, ctypes
def fill(path):
    f = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.write(f, b"x" * (4 << 20))
    return f
`
	for name, attack := range map[string]string{
		"files without a name": `
for i in range(64):
    f = fill("x"); os.unlink("x")
time.sleep(30)
`,
		"a directory that forbids everything": `
os.mkdir("d"); os.chdir("d")
for i in range(64): fill(str(i))
os.chdir(".."); os.chmod("d", 0)
time.sleep(30)
`,
		"many small files": `
for i in range(100000):
    if i % 1000 == 0: os.mkdir("d%d" % i)
    open("d%d/%d" % (i - i % 1000, i), "w").write("x")
time.sleep(30)
`,
		"a deep tree": `
for i in range(3000): os.mkdir("dddd"); os.chdir("dddd")
for i in range(64): fill(str(i))
time.sleep(30)
`,
		"files of a process that hides them": `
ctypes.CDLL(None).prctl(4, 0)
for i in range(64):
    f = fill("x"); os.unlink("x")
time.sleep(30)
`,
		"files that are only mapped": `
keep = []
for i in range(64):
    f = fill("x"); os.unlink("x"); keep.append(mmap.mmap(f, 4096)); os.close(f)
time.sleep(30)
`,
		"files under way in a socket": `
keep = []
for i in range(64):
    f = fill("x"); os.unlink("x"); a, b = socket.socketpair(socket.AF_UNIX); keep += [a, b]
    a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [f]))]); os.close(f)
time.sleep(30)
`,
	} {
		t.Run(name, func(t *testing.T) {
			box, taken := limited(t, p, dir)
			exit, err := box.Exec(t.Context(), sandboxes.Command{Argv: []string{"/usr/bin/python3", "-c", write + attack}}, sandboxes.Streams{})
			switch {
			case err != nil || exit.Code == 0:
				t.Errorf("it succeeded: %+v, %v", exit, err)
			case !kernel && exit.Reason != sandboxes.ReasonDisk:
				t.Errorf("%+v", exit)
			case kernel && taken() > 24<<20:
				t.Errorf("the host has lost %d bytes", taken())
			}
		})
	}
	t.Run("holes and names take nothing", func(t *testing.T) {
		box, _ := limited(t, p, dir)
		got, exit := foldertest.Sh(t, box, "truncate -s 15M a && truncate -s 15M b && head -c 3m /dev/zero >c && for i in 1 2 3 4 5 6 7 8 9; do ln c c$i || exit 1; done; sleep 2.5; echo fine")
		if got != "fine" {
			t.Errorf("%q, %+v", got, exit)
		}
	})
}

// A limit that is changed is that of the workspace the next time; one that is
// less than there is leaves it readable, with no room.
func TestResize(t *testing.T) {
	p := provider(t)
	if info(t, p).Disk != "image" {
		t.Skip("the kernel does not bound the disk here")
	}
	const room = "head -c 100m /dev/zero >rest 2>/dev/null; stat -c %s rest; rm rest; cat kept | wc -c"
	for _, step := range []struct {
		disk, least, most int
		script            string
	}{
		{16, 14, 16, "head -c 6m /dev/zero >kept"},
		{32, 24, 26, "true"},
		{8, 0, 3, "true"},
		{4, 0, 1, "true"}, // and no less than is there
		{16, 8, 10, "true"},
	} {
		box := foldertest.Start(t, p, sandboxes.Spec{Workspace: "w", Limits: sandboxes.Limits{Disk: int64(step.disk) << 20}})
		foldertest.Sh(t, box, step.script)
		got, exit := foldertest.Sh(t, box, "ulimit -f unlimited 2>/dev/null; trap '' XFSZ; "+room)
		lines := strings.Fields(got)
		n := -1
		if len(lines) == 2 {
			n, _ = strconv.Atoi(lines[0])
		}
		if len(lines) != 2 || lines[1] != strconv.Itoa(6<<20) || n > step.most<<20+4<<20 || n < (step.least-8)<<20 {
			t.Errorf("with %d MB: %q, %+v", step.disk, got, exit)
		}
		if err := box.Remove(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

// users gives every agent the next number.
type users struct {
	next atomic.Int64
	of   map[string]int
}

func (u *users) User(_ context.Context, agent string) (int, error) {
	if u.of[agent] == 0 {
		u.of[agent] = int(0x70000000 + u.next.Add(1))
	}
	return u.of[agent], nil
}

// Each agent is a user of its own on this machine, who can reach nothing of
// another's; inside all are who the image says.
func TestUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be others")
	}
	dir := t.TempDir()
	u := &users{of: map[string]int{}}
	p := provider(t, func(c *bwrap.Config) { c.Dir, c.Users = dir, u })
	if got := info(t, p).Users; got != "each" {
		t.Fatal(got)
	}
	boxes := map[string]*sandboxes.Box{}
	for _, agent := range []string{"alice", "bob"} {
		for _, limits := range []sandboxes.Limits{{}, {Disk: 8 << 20}} {
			box := foldertest.Start(t, p, sandboxes.Spec{Agent: agent, Limits: limits})
			boxes[agent+strconv.FormatInt(limits.Disk, 10)] = box
			if got, _ := foldertest.Sh(t, box, "echo secret >file; chmod 644 file; id -u; stat -c %u file .; cat file"); got != "65534\n65534\n65534\nsecret" {
				t.Errorf("inside: %q", got)
			}
		}
	}
	if u.of["alice"] == u.of["bob"] {
		t.Error("they are one user")
	}
	for name, box := range boxes {
		path := filepath.Join(dir, "sandboxes", box.ID(), "workspace")
		owner := u.of["alice"]
		if strings.HasPrefix(name, "bob") {
			owner = u.of["bob"]
		}
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil || int(st.Gid) != owner || st.Mode&0o077 != 0 || st.Mode&unix.S_IFMT == unix.S_IFREG && st.Uid != 0 {
			t.Errorf("%s: %+v, %v", name, st, err)
		}
		for _, thief := range u.of {
			if err := readAs(t, thief, path); !errors.Is(err, unix.EACCES) {
				t.Errorf("user %d reads the workspace of %s: %v", thief, name, err)
			}
		}
		if !p.Has(owner) {
			t.Error("nothing is theirs")
		}
	}
	for _, box := range boxes {
		if err := box.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	}
	if p.Has(u.of["alice"]) || p.Has(u.of["bob"]) {
		t.Error("something is left of them")
	}
}

// What was there before agents were users becomes theirs, also when that was
// cut off.
func TestUsersLater(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be others")
	}
	dir := t.TempDir()
	work := filepath.Join(dir, "workspaces", "old", "a", "b")
	if err := os.MkdirAll(work, 0o700); err != nil {
		t.Fatal(err)
	}
	for i, path := range []string{"", "a", "a/b"} {
		if err := os.Chown(filepath.Join(dir, "workspaces/old", path), 65534+i%2, 65534); err != nil {
			t.Fatal(err)
		}
	}
	p := provider(t, func(c *bwrap.Config) { c.Dir, c.Users = dir, &users{of: map[string]int{}} })
	for range 2 {
		box := foldertest.Start(t, p, sandboxes.Spec{Agent: "alice", Workspace: "old", Limits: sandboxes.Limits{Disk: 8 << 20}})
		if got, exit := foldertest.Sh(t, box, "echo more >>a/b/file && cat a/b/file | wc -l && stat -c %u a a/b a/b/file | sort -u"); !strings.HasSuffix(got, "\n65534") {
			t.Errorf("%q, %+v", got, exit)
		}
		if err := box.Remove(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

// readAs opens a path as a user.
func readAs(t *testing.T, uid int, path string) error {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // which is the user's, and ends with this
		if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); e != 0 {
			done <- e
			return
		}
		unix.RawSyscall(unix.SYS_SETRESGID, uintptr(uid), uintptr(uid), uintptr(uid))
		unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid))
		fd, err := unix.Open(path, unix.O_RDONLY, 0)
		if err == nil {
			unix.Close(fd)
		}
		done <- err
	}()
	return <-done
}
