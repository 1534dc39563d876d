//go:build linux

package bwrap_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agent9/conformance"
	"agent9/fsys"
	"agent9/providers/sandboxes"
	"agent9/providers/sandboxes/bwrap"
	"agent9/providers/sandboxes/bwrap/launch"
	"agent9/providers/sandboxes/folder/foldertest"
)

var driver = foldertest.Driver{New: func(dir, helper string) (sandboxes.Provider, error) {
	return bwrap.New(bwrap.Config{Dir: dir, Helper: helper})
}}

func TestMain(m *testing.M) { driver.Main(m) }

// provider returns one that can make sandboxes, or skips.
func provider(t *testing.T, change ...func(*bwrap.Config)) *bwrap.Provider {
	t.Helper()
	config := bwrap.Config{Dir: t.TempDir(), Helper: foldertest.Helper()}
	for _, c := range change {
		c(&config)
	}
	p, err := bwrap.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Info(t.Context()); err != nil {
		t.Skip(err)
	}
	return p
}

func TestContainers(t *testing.T) {
	dir := t.TempDir()
	p := provider(t, func(c *bwrap.Config) { c.Dir = dir })
	conformance.TestContainers(t, conformance.Containers{
		Provider: p,
		Missing:  "nosuch",
		Again: func(t *testing.T) sandboxes.Provider {
			return provider(t, func(c *bwrap.Config) { c.Dir = dir })
		},
		Crash:       func(t *testing.T, id string) { foldertest.EndRun(t, dir, id) },
		SkillsFixed: true,
		Left:        func() error { return left(dir) },
	})
}

func TestCrash(t *testing.T) {
	provider(t)
	dir := t.TempDir()
	t.Run("a daemon is killed", func(t *testing.T) { driver.Crash(t, dir) })
	again(t, func() error { return noLoops(dir) })
}

// noLoops says which loop devices there are of files below dir.
func noLoops(dir string) error {
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, f := range files {
		if text, _ := os.ReadFile(f); strings.Contains(string(text), dir+"/") {
			err = fmt.Errorf("%s is %s", f, text)
		}
	}
	return err
}

// asUser are the tests that are run again by TestAsUser.
const asUser = "^Test(Inside|Sockets|ForkBomb|Disk|Hidden|Paths|Crash|Image|ManyAtOnce)$"

// TestAsUser runs tests as a user without rights. Which user that is does not
// matter; this one is sure to exist.
func TestAsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the other tests are run by a user without rights")
	}
	provider(t)
	dir, err := os.MkdirTemp("", "agent9-user-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	self, err := os.ReadFile(os.Args[0])
	program := filepath.Join(dir, "bwrap.test")
	if err == nil {
		err = os.WriteFile(program, self, 0o755)
	}
	if err == nil {
		err = os.Chown(dir, 65534, 65534)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.v", "-test.run", asUser)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestInside ")) {
		t.Errorf("%v\n%s", err, out)
	}
	if testing.Verbose() {
		t.Logf("%s", out)
	}
}

// TestInside proves what a program can see and do.
func TestInside(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	host, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	box := foldertest.Start(t, provider(t), sandboxes.Spec{Skills: []sandboxes.File{{Name: "a/b.md", Data: []byte("know how")}}})
	for _, test := range []struct{ name, script, want string }{
		{"who", "id -u; id -g; id -G", "65534\n65534\n65534"},
		{"capabilities", "grep -E '^Cap' /proc/self/status | cut -f2 | sort -u", "0000000000000000"},
		{"no new privileges", "grep NoNewPrivs /proc/self/status | cut -f2", "1"},
		{"the root", "ls -A / | tr '\n' ' '", ""},
		{"the root of the first process", "ls /proc/1/root/ >/dev/null 2>&1 || echo no", "no"},
		{"the environment of the first process", "cat /proc/1/environ 2>/dev/null || echo no", "no"},
		{"the memory of the first process", "dd if=/proc/1/mem count=1 2>/dev/null || echo no", "no"},
		{"killing the first process", "kill -9 1; kill -TERM 1; echo there", "there"},
		{"processes", "ls /proc | grep -c '^[0-9]'", ""},
		{"a file of the host", "cat " + secret + " 2>/dev/null || echo no", "no"},
		{"passwords", "cat /etc/shadow /root/.ssh/* 2>/dev/null || echo no", "no"},
		{"engines", "ls /var/run/docker.sock /run/docker.sock /run/containerd 2>/dev/null || echo no", "no"},
		{"what can be written", "for d in / /usr /etc /dev /agent9 /run /var /workspace/skills /workspace/skills/a /proc /bin; do touch $d/x 2>/dev/null && echo $d; done; for d in /workspace /tmp /dev/shm /run/agent9; do touch $d/x && rm $d/x || echo not $d; done", ""},
		{"programs with rights", "find /usr/bin -perm -4000 -exec {} --version \\; >/dev/null 2>&1; id -u", "65534"},
		{"a user namespace", "unshare -U true 2>/dev/null || echo no", "no"},
		{"a mount", "mount -t tmpfs x /tmp 2>/dev/null || echo no", "no"},
		{"the kernel", "echo x 2>/dev/null >/proc/sys/kernel/core_pattern || echo no; echo b 2>/dev/null >/proc/sysrq-trigger || echo no", "no\nno"},
		{"devices", "ls -A /dev | tr '\n' ' '; ls /dev/pts | wc -l", "core fd full null ptmx pts random shm stderr stdin stdout tty urandom zero 1"},
		{"interfaces", "grep -c : /proc/net/dev", "1"},
		{"the host's network", fmt.Sprintf("bash -c 'exec 3<>/dev/tcp/127.0.0.1/%d' 2>/dev/null || echo no", host.Addr().(*net.TCPAddr).Port), "no"},
		{"files of the daemon", "ls /proc/self/fd | tr '\n' ' '", "0 1 2 3 "},
		{"skills", "cat /workspace/skills/a/b.md", "know how"},
		{"the name of the machine", "hostname", "sandbox"},
		{"core dumps", "ulimit -c", "0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, exit := foldertest.Sh(t, box, test.script)
			switch test.name {
			case "the root":
				test.want = "agent9 bin dev etc lib lib64 proc run sbin tmp usr var workspace"
				if _, err := os.Lstat("/lib32"); err == nil {
					t.Skip("other names on this machine")
				}
			case "processes":
				if n, _ := strconv.Atoi(got); n < 2 || n > 5 {
					t.Errorf("%d processes, want the box, the shell, and its own", n)
				}
				return
			}
			if got != strings.TrimSpace(test.want) {
				t.Errorf("%q, %+v; want %q", got, exit, test.want)
			}
		})
	}
}

// TestSockets proves that kinds of socket which know no network namespaces
// cannot be had.
func TestSockets(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	box := foldertest.Start(t, provider(t), sandboxes.Spec{})
	got, _ := foldertest.Sh(t, box, `/usr/bin/python3 -c '
import socket
for family in (1, 2, 10, 16, 40, 38, 17, 31):
    try:
        socket.socket(family, socket.SOCK_STREAM if family in (1, 2, 10) else socket.SOCK_RAW if family != 38 else socket.SOCK_SEQPACKET).close()
        print(family)
    except OSError as e:
        if e.errno != 97: print(family, e)
'`)
	if got != "1\n2\n10\n16" {
		t.Errorf("%q", got)
	}
}

func TestOutOfMemory(t *testing.T) {
	p := provider(t)
	if !slices.Contains(info(t, p).Enforced, "memory") {
		t.Skip("memory is not limited here")
	}
	box := foldertest.Start(t, p, sandboxes.Spec{Limits: sandboxes.Limits{Memory: 64 << 20}})
	for range 2 { // and it goes on after that
		_, exit := foldertest.Sh(t, box, "exec /usr/bin/awk 'BEGIN { s = \"x\"; while (1) s = s s }'")
		if exit.Reason != sandboxes.ReasonOOM || exit.Code != 137 {
			t.Errorf("%+v", exit)
		}
	}
	used, err := box.Usage(t.Context())
	if err != nil || used.OOMKills < 2 || used.Memory < 32<<20 || used.Memory > 64<<20 || used.CPU <= 0 || used.Wall <= 0 {
		t.Errorf("%+v, %v", used, err)
	}
	// What is in memory is full before the memory is.
	got, _ := foldertest.Sh(t, box, "head -c 60m /dev/zero >/tmp/x 2>/dev/null; stat -c %s /tmp/x; head -c 60m /dev/zero >/dev/shm/x 2>/dev/null; stat -c %s /dev/shm/x")
	if got != "16777216\n16777216" {
		t.Errorf("%q", got)
	}
}

func TestForkBomb(t *testing.T) {
	p := provider(t)
	if !slices.Contains(info(t, p).Enforced, "pids") {
		t.Skip("processes are not limited here")
	}
	box := foldertest.Start(t, p, sandboxes.Spec{Limits: sandboxes.Limits{PIDs: 40, CPUs: 500}})
	other := foldertest.Start(t, p, sandboxes.Spec{Limits: sandboxes.Limits{PIDs: 40, CPUs: 500}})
	exit, err := box.Exec(t.Context(), sandboxes.Command{Argv: []string{"bash", "-c", "bomb() { bomb | bomb & }; bomb; exec sleep 1000"}, Timeout: time.Second}, sandboxes.Streams{})
	if err != nil || exit.Code != 124 || exit.Reason != sandboxes.ReasonTimeout {
		t.Errorf("%+v, %v", exit, err)
	}
	var out bytes.Buffer
	_, err = box.Exec(t.Context(), sandboxes.Command{
		Argv:    []string{"/bin/sh", "-c", "(i=0; while [ $i -lt 500 ]; do sleep 1000 & i=$((i+1)); echo $i; done) 2>/dev/null; exec sleep 1000"},
		Timeout: time.Second,
	}, sandboxes.Streams{Out: func(_ int, p []byte) error { out.Write(p); return nil }})
	lines := strings.Fields(out.String())
	if n, nerr := strconv.Atoi(lines[len(lines)-1]); nerr != nil || n < 20 || n > 100 || err != nil {
		t.Errorf("%d processes at once with a limit of 40, %v, %v", n, nerr, err)
	}
	for _, b := range []*sandboxes.Box{box, other} {
		// What was killed takes a moment to be gone.
		again(t, func() error {
			if got, exit := foldertest.Sh(t, b, "echo $(echo there)"); got != "there" {
				return fmt.Errorf("%q, %+v", got, exit)
			}
			return nil
		})
	}
}

// again tries until it succeeds, but not for long.
func again(t *testing.T, try func() error) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

func TestDisk(t *testing.T) {
	p := provider(t)
	box := foldertest.Start(t, p, sandboxes.Spec{Limits: sandboxes.Limits{Disk: 8 << 20}})
	got, _ := foldertest.Sh(t, box, "trap '' XFSZ; head -c 20m /dev/zero >big 2>/dev/null; stat -c %s big; rm big")
	if got != "8388608" {
		t.Errorf("one file: %q", got)
	}
	files, err := box.Files(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, file, err := fsys.OpenCreate(t.Context(), files, "tmp", 0o644, fsys.Write)
	if err == nil {
		t.Error("a directory was opened for writing")
		file.Close()
	}
	workspace, err := fsys.WalkPath(t.Context(), files, "workspace")
	if err != nil {
		t.Fatal(err)
	}
	_, file, err = fsys.OpenCreate(t.Context(), workspace, "big", 0o644, fsys.Write)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fsys.WriteAt(t.Context(), file, make([]byte, 1000), 9<<20); err == nil {
		t.Error("a file is longer than all of the disk")
	}
	file.Close()

	kernel := info(t, p).Disk == "image"
	exit, err := box.Exec(t.Context(), sandboxes.Command{Argv: []string{"/bin/sh", "-c", "i=0; while i=$((i+1)); do head -c 1m /dev/zero >file$i || exit 3; done"}}, sandboxes.Streams{})
	if err != nil || !kernel && (exit.Reason != sandboxes.ReasonDisk || exit.Code != 137) || kernel && exit.Code != 3 {
		t.Errorf("many files: %+v, %v", exit, err)
	}
	if err := fsys.WriteFile(t.Context(), files, "workspace/big", make([]byte, 8<<20)); fsys.CodeOf(err) != fsys.NoSpace {
		t.Errorf("when it is full: %v", err)
	}
	if got, exit := foldertest.Sh(t, box, "rm file* && sleep 2 && echo room"); got != "room" {
		t.Errorf("%q, %+v", got, exit)
	}
	again(t, func() error { return fsys.WriteFile(t.Context(), files, "workspace/big", []byte("more")) })
}

func TestManyAtOnce(t *testing.T) {
	dir := t.TempDir()
	p := provider(t, func(c *bwrap.Config) { c.Dir = dir })
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { foldertest.Once(t, p) })
	}
	all.Wait()
	if err := left(dir); err != nil {
		t.Errorf("left behind: %v", err)
	}
}

// left says what is left of sandboxes below dir, and of their groups.
func left(dir string) error {
	if err := foldertest.Empty(dir); err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(dir))
	groups, err := filepath.Glob("/sys/fs/cgroup/*/agent9-" + hex.EncodeToString(sum[:4]) + "/*/")
	if err == nil && len(groups) > 0 {
		err = fmt.Errorf("%v", groups)
	}
	return err
}

func TestCanceledCreate(t *testing.T) {
	dir := t.TempDir()
	p := provider(t, func(c *bwrap.Config) { c.Dir = dir })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Create(ctx, sandboxes.Spec{}, func(string) {}); fsys.CodeOf(err) != fsys.Canceled {
		t.Error(err)
	}
	if err := left(dir); err != nil {
		t.Errorf("left behind: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	p := provider(t)
	for _, test := range []struct {
		spec sandboxes.Spec
		want fsys.Code
	}{
		{sandboxes.Spec{Image: "debian"}, fsys.NotExist},
		{sandboxes.Spec{Limits: sandboxes.Limits{Memory: 1000}}, fsys.Invalid},
		{sandboxes.Spec{Skills: []sandboxes.File{{Name: "../x"}}}, fsys.Invalid},
		{sandboxes.Spec{Workspace: strings.Repeat("x", 300)}, fsys.NameTooLong},
	} {
		if _, err := p.Create(t.Context(), test.spec, func(string) {}); fsys.CodeOf(err) != test.want {
			t.Errorf("%+v: %v; want %v", test.spec, err, test.want)
		}
	}
	missing, err := bwrap.New(bwrap.Config{Dir: t.TempDir(), Helper: foldertest.Helper(), Program: "no-bwrap"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := missing.Info(t.Context()); fsys.CodeOf(err) != fsys.Unavailable || !strings.Contains(err.Error(), "install") {
		t.Error(err)
	}
	forbidden, err := bwrap.New(bwrap.Config{Dir: t.TempDir(), Helper: foldertest.Helper(), Program: "/bin/false"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := forbidden.Info(t.Context()); fsys.CodeOf(err) != fsys.Unavailable {
		t.Error(err)
	}
}

// TestImage makes a sandbox of a root file system that has one program.
func TestImage(t *testing.T) {
	const busybox = "/bin/busybox"
	if _, err := os.Stat(busybox); err != nil {
		t.Skip("busybox-static is not installed")
	}
	image := t.TempDir()
	for _, d := range []string{"bin", "etc", "var/lib", "proc"} {
		if err := os.MkdirAll(filepath.Join(image, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program, err := os.ReadFile(busybox)
	if err == nil {
		err = os.WriteFile(filepath.Join(image, "bin/busybox"), program, 0o755)
	}
	if err == nil {
		err = os.Symlink("busybox", filepath.Join(image, "bin/sh"))
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(image, "etc/passwd"), []byte("root:x:0:0::/:/bin/sh\n"), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	p := provider(t, func(c *bwrap.Config) { c.Images = map[string]string{"busybox": image} })
	images, err := p.Images(t.Context())
	if err != nil || len(images) != 1 || images[0].Name != "busybox" || images[0].Size < int64(len(program)) {
		t.Errorf("%+v, %v", images, err)
	}
	box := foldertest.Start(t, p, sandboxes.Spec{Image: "busybox"})
	if got, exit := foldertest.Sh(t, box, "busybox ls / | busybox tr '\n' ' '; busybox ls /bin /etc; busybox touch /bin/x 2>/dev/null || echo no"); got != "agent9 bin dev etc proc run tmp var workspace /bin:\nbusybox\nsh\n\n/etc:\nhostname\nhosts\npasswd\nno" {
		t.Errorf("%q, %+v", got, exit)
	}
}

func info(t *testing.T, p sandboxes.Provider) sandboxes.Info {
	t.Helper()
	i, err := p.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// TestNetworkOfTheMachine proves what a network gives, and that info says it:
// servers of the machine, but not its abstract Unix sockets where the kernel
// can tell whose they are.
func TestNetworkOfTheMachine(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	p := provider(t)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	name := fmt.Sprintf("agent9-test-%d", os.Getpid())
	abstract, err := net.Listen("unix", "@"+name)
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()
	want := map[string]string{"scoped": "tcp\nown", "host": "tcp\nabstract\nown"}[info(t, p).Network]
	if launch.Scopes() != (info(t, p).Network == "scoped") || want == "" {
		t.Errorf("info says %q", info(t, p).Network)
	}
	box := foldertest.Start(t, p, sandboxes.Spec{Limits: sandboxes.Limits{Network: true}})
	got, exit := foldertest.Sh(t, box, fmt.Sprintf(`/usr/bin/python3 -c '
import socket, os
def dial(what, family, address):
    try:
        socket.socket(family).connect(address)
        print(what)
    except PermissionError: pass
dial("tcp", 2, ("127.0.0.1", %d))
dial("abstract", 1, "\0%s")
own = socket.socket(1); own.bind("\0own-%s"); own.listen()
dial("own", 1, "\0own-%s")
'`, tcp.Addr().(*net.TCPAddr).Port, name, name, name))
	if got != want {
		t.Errorf("reached %q, %+v; want %q", got, exit, want)
	}
}
