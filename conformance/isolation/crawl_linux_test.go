package isolation

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agent9/conformance/daemon"
	"agent9/fsys"
	"agent9/fsys/export/fuse"
	"agent9/fsys/ninep"
)

// crawlers read all that they find from a directory on, as people let them do
// without thinking. $1 is the directory, $2 an empty one.
var crawlers = map[string]string{
	"grep":          `grep -r "no such words" "$1"; true`,
	"cp":            `cp -r "$1" "$2/copy"`,
	"cp -a":         `cp -a "$1" "$2/copy"`,
	"find":          `find "$1" -type f -exec cat {} + >/dev/null`,
	"find and stat": `find "$1" -ls >/dev/null; find "$1" -newer /etc/passwd >/dev/null`,
	"tar":           `tar -C "$1" -c . >/dev/null`,
	"rsync":         `command -v rsync >/dev/null || exit 0; rsync -a "$1/" "$2/copy"`,
	"du":            `du -a "$1" >/dev/null; ls -laR "$1" >/dev/null`,
	"wc":            `shopt -s globstar; cat "$1"/** >/dev/null 2>&1; true`,
}

// crawlTime is how long one may take over a tree of a few hundred files.
const crawlTime = 90 * time.Second

// A crawled tree has everything in it that an agent may have: a new mount gets
// something here, and is then under the test.
func crawled(t *testing.T) (d *daemon.Daemon, alice *daemon.Tree, started string) {
	daemon.HelperFor(t)
	d = daemon.Start(t, "--compute", "slow=exec:cat >/dev/null; sleep 600", "--containers", "main=bwrap:")
	r := d.RootWith(t, "alice")
	r.Mkdir("agents", "bob")
	alice = d.At("/agents/alice")
	started = filepath.Join(d.Dir, "started")
	for _, text := range []string{"one", "two", "three"} {
		alice.Write("inbox/new", text)
	}
	alice.Read("inbox/next")
	alice.Write("config", strings.Replace(daemon.ToolConfig(t, started), `{"tools"`, `{"inbox":{"limit":2},"tools"`, 1))
	alice.Write("inbox/new", "dead")
	alice.Write("outbox/new", `{"to":"bob","body":"sent"}`)
	alice.Make("secrets", "key", "s3cr3t-value")
	alice.Make("goals", "plan", "a plan")
	r.Write("agents/bob/config", `{"program":{"exec":"true"},"triggers":{"messages":false}}`)
	r.Write("agents/bob/ctl", "alarm +1h look")
	r.Ask("ctl", "token alice")
	alice.Read("compute/jobs/" + alice.Ask("compute/new", `{"provider":"echo","messages":[{"role":"user","content":"hi"}]}`) + "/result")
	alice.Write("compute/new", `{"provider":"slow","messages":[{"role":"user","content":"hi"}]}`)
	alice.Write("budget/limits", `{"total_microusd": 100000, "approval_threshold_microusd": 100}`)
	alice.Write("compute/new", daemon.WaitingJob)
	alice.Ask("sessions/new", "{}")
	if h := alice.Read("containers/providers/main/health"); strings.Contains(h, `"ok":true`) {
		ended := "containers/sessions/" + alice.Ask("containers/new", "mkdir d; echo kept > d/file; ln -s /etc/shadow out; mkfifo pipe")
		alice.Read(ended + "/result")
		running := "containers/sessions/" + alice.Ask("containers/new", `{"commands":["echo ready"],"keep":true}`)
		x := running + "/exec/" + alice.Ask(running+"/exec/new", "echo begun; sleep 600")
		h := alice.Open(x+"/stdout", fsys.Read)
		if _, err := fsys.ReadAt(daemon.Within(t), h, make([]byte, 16), 0); err != nil {
			t.Fatal(err)
		}
		daemon.Equal(t, "files of a session that has ended", alice.List(ended+"/files"), "workspace")
		daemon.Has(t, "they", alice.List(ended+"/files/workspace"), "d")
		daemon.Equal(t, "one of them", alice.Read(ended+"/files/workspace/d/file"), "kept\n")
		_, err := alice.TryRead(ended + "/files/workspace/out")
		daemon.Refused(t, "a link that leads out", err, fsys.Permission)
	}
	return d, alice, started
}

// world is what a crawl must not change: what there is, what runs, what happened.
func world(d *daemon.Daemon, alice *daemon.Tree) string {
	var w strings.Builder
	for _, dir := range []string{"inbox", "inbox/taken", "deadletter", "approvals", "compute/jobs", "sessions", "containers/sessions", "goals", "secrets"} {
		if names := alice.List(dir); names != "" {
			fmt.Fprintf(&w, "%s: %s\n", dir, names)
		}
	}
	for _, file := range []string{"ctl", "tools/counter/status"} {
		w.WriteString(alice.Read(file))
	}
	bob := d.As(alice.T).At("/agents/bob")
	w.WriteString(bob.Read("ctl") + bob.Tail("logs/trajectory"))
	w.WriteString(alice.Tail("logs/trajectory"))
	return w.String()
}

// descendants are the processes that pid began, and they, and so on.
func descendants(t *testing.T, pid int) (all []string) {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		b, _ := os.ReadFile(list) // of a thread that is gone
		for _, child := range strings.Fields(string(b)) {
			var n int
			fmt.Sscan(child, &n)
			all = append(append(all, child), descendants(t, n)...)
		}
	}
	return all
}

// unchanged fails if a crawl changed the world, and if the log of errors has
// more than a handful of lines of it.
func unchanged(d *daemon.Daemon, t *testing.T, alice *daemon.Tree, crawl func()) {
	t.Helper()
	before, errors := world(d, alice), alice.Read("logs/errors")
	processes := descendants(t, d.Cmd.Process.Pid) // some may be about to end
	crawl()
	if now := descendants(t, d.Cmd.Process.Pid); len(now) > len(processes) {
		t.Errorf("%d processes run, %d did before", len(now), len(processes))
	}
	if after := world(d, alice); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	if more := strings.TrimPrefix(alice.Read("logs/errors"), errors); strings.Count(more, "\n") > 5 {
		t.Errorf("logs/errors has\n%s", more)
	}
}

// TestCrawl lets programs read all of a mount: they end, destroy nothing and
// start nothing, and are not refused by the hundred.
func TestCrawl(t *testing.T) {
	d, alice, started := crawled(t)
	mount := filepath.Join(d.Dir, "m")
	if err := os.Mkdir(mount, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip(err)
	}
	if out, ok := daemon.Ctl(t, "unix:"+d.Sock(), "", "mount", mount); !ok {
		t.Skipf("no FUSE: %s", out)
	}
	t.Cleanup(func() { fuse.Unmount(mount) })
	for name, script := range crawlers {
		t.Run(name, func(t *testing.T) {
			alice := d.As(t).At("/agents/alice")
			unchanged(d, t, alice, func() {
				ctx, cancel := context.WithTimeout(t.Context(), crawlTime)
				defer cancel()
				cmd := exec.CommandContext(ctx, "bash", "-c", script, "bash", mount, t.TempDir())
				cmd.WaitDelay = 5 * time.Second
				var said bytes.Buffer
				cmd.Stderr = &said
				err := cmd.Run()
				if ctx.Err() != nil {
					t.Fatalf("it did not end; %s", said.String())
				}
				// What nobody may read is refused, as the mode says: a secret, and the link and the pipe.
				for line := range strings.Lines(said.String()) {
					known := strings.Contains(line, "Permission denied") && (strings.Contains(line, "secrets/key") || strings.Contains(line, "workspace/"))
					if !known && !strings.Contains(line, "with errors") && !strings.Contains(line, "previous errors") && !strings.Contains(line, "see previous") {
						t.Errorf("%v: %s", err, line)
					}
				}
			})
		})
	}
	for _, version := range []string{"9P2000", "9P2000.L"} {
		t.Run(version, func(t *testing.T) {
			alice := d.As(t).At("/agents/alice")
			root, err := daemon.Dial(t, "unix", d.Sock(), ninep.DialVersion(version)).Attach(daemon.Within(t), "", "/agents")
			if err != nil {
				t.Fatal(err)
			}
			unchanged(d, t, alice, func() { crawl(t, "", root) })
		})
	}
	t.Run("editor", func(t *testing.T) { edit(d, t, mount) })
	if _, err := os.Stat(started); err == nil {
		t.Error("the server of tools was started")
	}
	for _, path := range []string{"inbox/head", "logs/trajectory", "containers/sessions/2/root/etc/passwd", "containers/sessions/2/files/etc/passwd"} {
		if _, err := os.Stat(filepath.Join(mount, "agents/alice", path)); err != nil {
			t.Errorf("what is not listed can be walked to: %v", err)
		}
	}
	daemon.Has(t, "what is still there", alice.Read("inbox/next"), `"body":"two"`)
}

// crawl reads all below n.
func crawl(t *testing.T, path string, n fsys.Node) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	entries, err := fsys.List(ctx, n)
	if err == nil {
		for _, e := range entries {
			crawl(t, path+"/"+e.Name, e.Node)
		}
		return
	}
	if fsys.CodeOf(err) != fsys.NotDir {
		t.Errorf("%s: %v", path, err)
		return
	}
	h, err := n.Open(ctx, fsys.Read)
	if err == nil {
		defer h.Close()
		_, err = fsys.ReadAll(ctx, h)
	}
	if err != nil && fsys.CodeOf(err) != fsys.Permission {
		t.Errorf("%s: %v", path, err)
	}
}

// edit does beside a file what editors and file managers do before a person has
// done anything.
func edit(d *daemon.Daemon, t *testing.T, mount string) {
	alice := d.As(t).At("/agents/alice")
	before := alice.Read("logs/errors")
	for _, dir := range []string{"", "inbox", "compute", "containers/sessions/1", "logs"} {
		at := filepath.Join(mount, "agents/alice", dir)
		for _, name := range []string{".status.swp", "4913", ".#status"} {
			if f, err := os.OpenFile(filepath.Join(at, name), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600); err == nil {
				f.Close()
				t.Errorf("%s/%s was made", at, name)
			}
			os.Remove(filepath.Join(at, name))
			os.Symlink("x", filepath.Join(at, name))
			unix.Access(filepath.Join(at, name), unix.W_OK)
		}
		unix.Getxattr(at, "security.selinux", make([]byte, 64))
		os.ReadDir(filepath.Join(at, ".git"))
	}
	if vim, err := exec.LookPath("vim"); err == nil {
		ctx, cancel := context.WithTimeout(t.Context(), crawlTime)
		defer cancel()
		cmd := exec.CommandContext(ctx, vim, "-u", "NONE", "--cmd", "set swapfile directory=.", "-es", "-c", "q!", filepath.Join(mount, "agents/alice/status"))
		cmd.Run() // its status is about the terminal
		if ctx.Err() != nil {
			t.Error("vim did not end")
		}
	}
	if after := alice.Read("logs/errors"); after != before {
		t.Errorf("logs/errors has\n%s", strings.TrimPrefix(after, before))
	}
	if err := os.WriteFile(filepath.Join(mount, "agents/alice/note"), []byte("x"), 0o644); err == nil {
		t.Error("a file was made")
	}
	daemon.Has(t, "what a person was refused", strings.TrimPrefix(alice.Read("logs/errors"), before), `"path":"/note","op":"create"`)
}
