package process

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agent9/conformance/daemon"
	"agent9/fsys"
)

// A hundred readers that wait do not keep the daemon, and each is told.
func TestEndWithBlockedReaders(t *testing.T) {
	for _, how := range []string{"SIGTERM", "SIGINT", "shutdown"} {
		t.Run(how, func(t *testing.T) {
			d := daemon.Start(t)
			r := d.Root()
			r.Mkdir("agents", "alice")
			own := r.Ask("ctl", "socket alice")
			alice := d.At("/agents/alice")
			alice.Make("goals", "kept", "text")

			var trees []*daemon.Tree
			for range 5 {
				trees = append(trees, d.At("/agents/alice"))
			}
			tr, err := daemon.Attach(t, "unix", own, "")
			if err != nil {
				t.Fatal(err)
			}
			trees = append(trees, tr)
			var waiting []*daemon.Pending
			for i := range 100 {
				tr := trees[i%len(trees)]
				h := tr.Open([]string{"inbox/next", "logs/trace", "inbox/head"}[i%3], fsys.Read)
				waiting = append(waiting, tr.Begin(h))
			}
			waiting = append(waiting, r.Begin(r.Open("events", fsys.Read)))
			for _, p := range waiting {
				p.Waits(t)
			}
			switch how {
			case "SIGTERM":
				d.Signal(syscall.SIGTERM)
			case "SIGINT":
				d.Signal(syscall.SIGINT)
			case "shutdown":
				// The answer comes before the end.
				other := d.Root()
				other.Write("ctl", "shutdown")
			}
			d.Ends(daemon.Bound)
			for _, p := range waiting {
				p.Ends(t)
				if p.Err == nil {
					t.Errorf("a reader got %q", p.Text)
				}
			}
			for _, path := range []string{d.Sock(), own} {
				if _, err := os.Lstat(path); err == nil {
					t.Errorf("%s was left", path)
				}
			}
			d.Start()
			daemon.Equal(t, "a goal", d.At("/agents/alice").Read("goals/kept"), "text")
		})
	}
}

func isMounted(d *daemon.Daemon) bool {
	d.T.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		d.T.Fatal(err)
	}
	return strings.Contains(string(mounts), d.Dir)
}

func TestShutdownThroughMount(t *testing.T) {
	d, in := daemon.WithMount(t)
	if err := os.WriteFile(in("ctl"), []byte("shutdown\n"), 0o644); err != nil {
		t.Errorf("echo shutdown > ctl: %v", err)
	}
	d.Ends(daemon.Bound)
	daemon.Equal(t, "mounted", isMounted(d), false)
}

// The mount of a daemon goes with it, also when many wait in it.
func TestEndWithMount(t *testing.T) {
	d, mnt := daemon.WithMount(t)
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
	alice := d.At("/agents/alice")
	daemon.Has(t, "logs/errors", alice.Tail("logs/errors"), "the JSON object is not complete", "longer than this file accepts", `"by":"operator"`)
	daemon.Equal(t, "inbox", alice.List("inbox"), daemon.InboxFiles)
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
	d.Signal(syscall.SIGTERM)
	d.Ends(daemon.Bound)
	for range readers {
		select {
		case err := <-ended:
			if err == nil {
				t.Error("a read in the mount got something")
			}
		case <-daemon.Within(t).Done():
			t.Fatal("a read in the mount did not end")
		}
	}
	daemon.Equal(t, "mounted", isMounted(d), false)
}

// Mounting where it cannot be done ends the daemon, which leaves nothing.
func TestBadMount(t *testing.T) {
	d := daemon.New(t)
	d.Refuses(1, []string{"--mount", filepath.Join(d.Dir, "nowhere")}, filepath.Join(d.Dir, "nowhere"))
	if _, err := os.Lstat(d.Sock()); err == nil {
		t.Error("the operator's socket was left")
	}
}

// Refusals that are only counted when the daemon ends in order are recorded then.
func TestEndSumsUpRefusals(t *testing.T) {
	const many = 300
	d := daemon.Start(t)
	r := d.Root()
	r.Mkdir("agents", "alice")
	reader, err := daemon.Attach(t, "unix", d.Sock(), r.Ask("ctl", "token alice r"))
	if err != nil {
		t.Fatal(err)
	}
	for range many {
		daemon.Refused(t, "a write", reader.TryWrite("config", "x"), fsys.Permission)
	}
	d.Signal(syscall.SIGTERM)
	d.Ends(daemon.Limit)
	d.Start()
	sum, counted := 0, 0
	for line := range strings.Lines(d.Root().Tail("agents/alice/logs/errors")) {
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
