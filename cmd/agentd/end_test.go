package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/fsys/export/fuse"
)

// bound is how long the end of the daemon may take.
const bound = 20 * time.Second

// A hundred readers that wait do not keep the daemon, and each is told.
func TestEndWithBlockedReaders(t *testing.T) {
	for _, how := range []string{"SIGTERM", "SIGINT", "shutdown"} {
		t.Run(how, func(t *testing.T) {
			d := startDaemon(t)
			r := d.root()
			r.mkdir("agents", "alice")
			own := r.ask("ctl", "socket alice")
			alice := d.at("/agents/alice")
			alice.make("goals", "kept", "text")

			var trees []*tree
			for range 5 {
				trees = append(trees, d.at("/agents/alice"))
			}
			tr, err := attach(t, "unix", own, "")
			if err != nil {
				t.Fatal(err)
			}
			trees = append(trees, tr)
			var waiting []*pending
			for i := range 100 {
				tr := trees[i%len(trees)]
				h := tr.open([]string{"inbox/next", "logs/trace", "inbox/head"}[i%3], fsys.Read)
				waiting = append(waiting, tr.begin(h))
			}
			waiting = append(waiting, r.begin(r.open("events", fsys.Read)))
			for _, p := range waiting {
				p.waits(t)
			}
			switch how {
			case "SIGTERM":
				d.signal(syscall.SIGTERM)
			case "SIGINT":
				d.signal(syscall.SIGINT)
			case "shutdown":
				// The answer comes before the end.
				other := d.root()
				other.write("ctl", "shutdown")
			}
			d.ends(bound)
			for _, p := range waiting {
				p.ends(t)
				if p.err == nil {
					t.Errorf("a reader got %q", p.text)
				}
			}
			for _, path := range []string{d.sock(), own} {
				if _, err := os.Lstat(path); err == nil {
					t.Errorf("%s was left", path)
				}
			}
			d.start()
			equal(t, "a goal", d.at("/agents/alice").read("goals/kept"), "text")
		})
	}
}

// withMount starts a daemon that is mounted, with the agent alice, and returns
// the path of a file of the mount.
func withMount(t *testing.T) (d *daemon, in func(path string) string) {
	t.Helper()
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no FUSE here: %v", err)
	}
	f.Close()
	d = newDaemon(t)
	dir := filepath.Join(d.dir, "mnt")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	d.args = append(d.args, "--mount", dir)
	d.start()
	t.Cleanup(func() { fuse.Unmount(dir) }) // if the daemon did not
	if err := os.Mkdir(filepath.Join(dir, "agents/alice"), 0o755); err != nil {
		t.Fatal(err)
	}
	return d, func(path string) string { return filepath.Join(dir, path) }
}

func (d *daemon) isMounted() bool {
	d.t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		d.t.Fatal(err)
	}
	return strings.Contains(string(mounts), d.dir)
}

func TestShutdownThroughMount(t *testing.T) {
	d, in := withMount(t)
	if err := os.WriteFile(in("ctl"), []byte("shutdown\n"), 0o644); err != nil {
		t.Errorf("echo shutdown > ctl: %v", err)
	}
	d.ends(bound)
	equal(t, "mounted", d.isMounted(), false)
}

// The mount of a daemon goes with it, also when many wait in it.
func TestEndWithMount(t *testing.T) {
	d, mnt := withMount(t)
	in := func(path string) string { return mnt("agents/alice/" + path) }

	// What a shell sees of a refusal is a number; the reason is in logs/errors.
	half := os.WriteFile(in("inbox/new"), []byte(`{"body": "half`), 0o644)
	if !errors.Is(half, syscall.EINVAL) {
		t.Errorf("half a request: got %v, want EINVAL", half)
	}
	huge := os.WriteFile(in("inbox/new"), make([]byte, 100<<20), 0o644)
	if !errors.Is(huge, syscall.EFBIG) {
		t.Errorf("100 MB: got %v, want EFBIG", huge)
	}
	if err := os.Remove(in("")); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("rmdir of a running agent: got %v, want EBUSY", err)
	}
	alice := d.at("/agents/alice")
	has(t, "logs/errors", alice.tail("logs/errors"), "the JSON object is not complete", "longer than this file accepts", `"by":"operator"`)
	equal(t, "inbox", alice.list("inbox"), inboxFiles)
	if err := os.WriteFile(in("goals/open"), []byte("one\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(in("goals/open"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Remove(in("goals/open")); err != nil {
		t.Errorf("removing what is open: %v", err)
	}
	b := make([]byte, 4)
	if _, err := f.ReadAt(b, 0); err != nil || string(b) != "one\n" {
		t.Errorf("reading what was removed: %q, %v", b, err)
	}

	const readers = 20
	ended := make(chan error, readers)
	for i := range readers {
		f, err := os.Open(in([]string{"inbox/next", "inbox/head", "logs/trace"}[i%3]))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer f.Close()
			_, err := f.Read(make([]byte, 100))
			ended <- err
		}()
	}
	d.signal(syscall.SIGTERM)
	d.ends(bound)
	for range readers {
		select {
		case err := <-ended:
			if err == nil {
				t.Error("a read in the mount got something")
			}
		case <-within(t).Done():
			t.Fatal("a read in the mount did not end")
		}
	}
	equal(t, "mounted", d.isMounted(), false)
}

// Mounting where it cannot be done ends the daemon, which leaves nothing.
func TestBadMount(t *testing.T) {
	d := newDaemon(t)
	d.refuses(1, []string{"--mount", filepath.Join(d.dir, "nowhere")}, filepath.Join(d.dir, "nowhere"))
	if _, err := os.Lstat(d.sock()); err == nil {
		t.Error("the operator's socket was left")
	}
}

// Refusals that are only counted when the daemon ends in order are recorded then.
func TestEndSumsUpRefusals(t *testing.T) {
	const many = 300
	d := startDaemon(t)
	r := d.root()
	r.mkdir("agents", "alice")
	reader, err := attach(t, "unix", d.sock(), r.ask("ctl", "token alice r"))
	if err != nil {
		t.Fatal(err)
	}
	for range many {
		refused(t, "a write", reader.tryWrite("config", "x"), fsys.Permission)
	}
	d.signal(syscall.SIGTERM)
	d.ends(limit)
	d.start()
	sum, counted := 0, 0
	for line := range strings.Lines(d.root().tail("agents/alice/logs/errors")) {
		var e struct{ More int }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		sum += max(e.More, 1)
		counted += e.More
	}
	if sum != many || counted == 0 {
		t.Errorf("%d refusals are recorded, %d of them as numbers; want %d", sum, counted, many)
	}
}
