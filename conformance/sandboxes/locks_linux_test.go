package sandboxes

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agent9/conformance/daemon"
	"agent9/fsys"
	"agent9/fsys/export/fuse"
	"agent9/fsys/ninep"
)

// A lock excludes everybody who uses the file, by whatever socket, path and
// token it was come to.
func TestLocksExclude(t *testing.T) {
	d := daemon.Start(t, "--listen", "tcp:127.0.0.1:0")
	r := d.Root()
	r.Mkdir("agents", "alice")
	r.Write("ctl", "socket alice")
	r.Make("agents/alice/goals", "g", "text")
	_, rest, _ := strings.Cut(d.Text(), "listening on tcp:")
	address, _, _ := strings.Cut(rest, "\n")
	token := r.Ask("ctl", "token alice rw")
	ways := []struct{ name, network, address, aname, path string }{
		{"operator", "unix", d.Sock(), "", "agents/alice/goals/g"},
		{"operator, from below", "unix", d.Sock(), "/agents/alice", "goals/g"},
		{"operator, in goals", "unix", d.Sock(), "/agents/alice/goals", "g"},
		{"the agent's socket", "unix", filepath.Join(d.Data(), "sockets/alice.sock"), "", "goals/g"},
		{"a token", "tcp", address, token, "goals/g"},
		{"a token and a path", "unix", d.Sock(), token + "/goals", "g"},
		{"all", "unix", d.Sock(), r.Ask("ctl", "token * rw"), "agents/alice/goals/g"},
	}
	lock := fsys.Lock{Kind: fsys.LockWrite, End: math.MaxUint64, Owner: "host", Process: 1}
	open := func(i int, flag fsys.Flag, path string) fsys.Locker {
		w := ways[i]
		c := daemon.Dial(t, w.network, w.address, ninep.DialVersion("9P2000.L"))
		root, err := c.Attach(daemon.Within(t), "", w.aname)
		if err != nil {
			t.Fatal(w.name, err)
		}
		return (&daemon.Tree{T: t, Client: c, Root: root}).Open(strings.Replace(w.path, "goals/g", path, 1), flag).(fsys.Locker)
	}
	must := func(what string, h fsys.Locker, l fsys.Lock, want bool) {
		t.Helper()
		got, err := h.Lock(daemon.Within(t), l, false)
		if err != nil || got != want {
			t.Errorf("%s: granted %v, %v; want %v", what, got, err, want)
		}
	}
	for i, holder := range ways {
		h := open(i, fsys.Read|fsys.Write, "goals/g")
		must(holder.name, h, lock, true)
		for j, other := range ways {
			o := open(j, fsys.Read|fsys.Write, "goals/g")
			must(other.name+" after "+holder.name, o, lock, false)
			o.Close()
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// Also where the tree has no files of its own, and before and after a rename.
	for _, path := range []string{"inbox/new", "ctl", "events"} {
		l, flag := lock, fsys.Read
		if l.Kind = fsys.LockRead; path != "events" {
			l.Kind, flag = fsys.LockWrite, fsys.Read|fsys.Write
		}
		h := open(0, flag, path)
		must(path, h, l, true)
		o := open(4, flag, path)
		must(path+" again", o, l, path == "events")
		h.Close()
		o.Close()
	}
	h := open(0, fsys.Write, "goals/g")
	must("before the rename", h, lock, true)
	goals, err := fsys.WalkPath(daemon.Within(t), r.Root, "agents/alice/goals")
	if err != nil {
		t.Fatal(err)
	}
	if err := fsys.Rename(daemon.Within(t), goals, "g", "renamed"); err != nil {
		t.Fatal(err)
	}
	must("after it", open(1, fsys.Write, "goals/renamed"), lock, false)
	if err := fsys.Rename(daemon.Within(t), goals, "renamed", "g"); err != nil {
		t.Fatal(err)
	}
	h.Close()
	// A lock for writing needs a file that is open for that.
	reader := open(4, fsys.Read, "goals/g")
	_, err = reader.Lock(daemon.Within(t), lock, false)
	daemon.Refused(t, "a lock for writing", err, fsys.BadHandle)
	// And a token that is revoked has none, at once.
	h = open(4, fsys.Write, "goals/g")
	must("the token", h, lock, true)
	for _, id := range strings.Fields(r.List("tokens")) {
		r.Remove("tokens/" + id)
	}
	must("after the token was revoked", open(0, fsys.Write, "goals/g"), lock, true)
}

// flock(1) and fcntl(2) by a mount exclude those by another mount, and clients
// of 9P; who gets a lock sees what the last holder has written.
func TestLocksThroughMounts(t *testing.T) {
	if f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err != nil {
		t.Skip(err)
	} else {
		f.Close()
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip(err)
	}
	d := daemon.Start(t)
	r := d.Root()
	r.Mkdir("agents", "alice")
	r.Make("agents/alice/goals", "n", "0\n")
	var mounts []string
	for range 2 {
		dir := t.TempDir()
		if out, ok := daemon.Ctl(t, "unix:"+d.Sock(), "", "mount", dir, "alice"); !ok {
			t.Fatal(out)
		}
		t.Cleanup(func() { fuse.Unmount(dir) })
		mounts = append(mounts, filepath.Join(dir, "goals/n"))
	}
	const hold = `
import fcntl, sys
f = open(sys.argv[1], "r+")
getattr(fcntl, sys.argv[2])(f, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
`
	for _, how := range []string{"flock", "lockf"} {
		holder := exec.Command(python, "-c", hold, mounts[0], how)
		in, err := holder.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := holder.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := holder.Start(); err != nil {
			t.Fatal(err)
		}
		if n, err := out.Read(make([]byte, 8)); n == 0 {
			t.Fatal(how, err)
		}
		for _, other := range mounts {
			if text, err := exec.Command("flock", "-n", other, "echo", "got").CombinedOutput(); err == nil {
				t.Errorf("%s: flock(1) on %s: %s", how, other, text)
			}
			const try = `import fcntl, sys; fcntl.lockf(open(sys.argv[1], "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB)`
			if text, err := exec.Command(python, "-c", try, other).CombinedOutput(); err == nil || !strings.Contains(string(text), "BlockingIOError") {
				t.Errorf("%s: fcntl on %s: %v %s", how, other, err, text)
			}
		}
		c := daemon.Dial(t, "unix", d.Sock(), ninep.DialVersion("9P2000.L"))
		root, err := c.Attach(daemon.Within(t), "", "/agents/alice/goals")
		if err != nil {
			t.Fatal(err)
		}
		h := (&daemon.Tree{T: t, Client: c, Root: root}).Open("n", fsys.Read|fsys.Write).(fsys.Locker)
		lock := fsys.Lock{Kind: fsys.LockWrite, End: math.MaxUint64, Owner: "host", Process: 1}
		if got, err := h.Lock(daemon.Within(t), lock, false); got || err != nil {
			t.Errorf("%s: 9P: %v, %v", how, got, err)
		}
		waits := make(chan error, 1)
		go func() {
			_, err := h.Lock(daemon.Within(t), lock, true)
			waits <- err
		}()
		in.Close()
		if err := holder.Wait(); err != nil {
			t.Fatal(err)
		}
		if err := <-waits; err != nil {
			t.Errorf("%s: who waited: %v", how, err)
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
	}
	const count = `
import fcntl, os, sys
for i in range(25):
    f = os.open(sys.argv[1], os.O_RDWR)
    fcntl.flock(f, fcntl.LOCK_EX)
    n = int(os.pread(f, 64, 0))
    os.pwrite(f, b"%d\n" % (n + 1), 0)
    os.close(f)
`
	var all []*exec.Cmd
	for i := range 4 {
		cmd := exec.Command(python, "-c", count, mounts[i%2])
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	for _, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	daemon.Equal(t, "what four have counted", r.Read("agents/alice/goals/n"), fmt.Sprintln(100))
}
