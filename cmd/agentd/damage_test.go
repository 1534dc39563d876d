package main

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agent9/services/host"
)

// A database of version 2, which has no checksums, and its master key.
var (
	//go:embed testdata/version2.db.gz
	version2 []byte
	//go:embed testdata/version2.key
	version2Key []byte
)

// oldDaemon returns a daemon, not running, on the data of an older one.
func oldDaemon(t *testing.T) *daemon {
	t.Helper()
	d := newDaemon(t)
	z, err := gzip.NewReader(bytes.NewReader(version2))
	if err != nil {
		t.Fatal(err)
	}
	db, err := io.ReadAll(z)
	if err == nil {
		err = os.Mkdir(d.data(), 0o700)
	}
	for name, content := range map[string][]byte{host.DatabaseName: db, "master.key": version2Key} {
		if err == nil {
			err = os.WriteFile(filepath.Join(d.data(), name), content, 0o600)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// change makes other bytes of those in d's database, which nobody has open, and returns
// where.
func (d *daemon) change(was, is string) {
	d.t.Helper()
	path := filepath.Join(d.data(), host.DatabaseName)
	b, err := os.ReadFile(path)
	if err == nil && (len(was) != len(is) || !bytes.Contains(b, []byte(was))) {
		d.t.Fatalf("the database does not have %q", was)
	}
	if err == nil {
		err = os.WriteFile(path, bytes.ReplaceAll(b, []byte(was), []byte(is)), 0o600)
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// stop ends the daemon in order.
func (d *daemon) stop() {
	d.t.Helper()
	d.signal(syscall.SIGTERM)
	d.ends(bound)
}

func TestAnOldDatabaseIsSealed(t *testing.T) {
	d := oldDaemon(t)
	d.start()
	r := d.root()
	same := func() {
		t.Helper()
		if got := r.read("agents/alice/goals/today"); got != "a golden goal\n" {
			t.Errorf("the goal is %q", got)
		}
		if lines := r.read("agents/alice/state/lines"); strings.Count(lines, "golden line ") != 4000 {
			t.Errorf("the file has %d lines", strings.Count(lines, "\n"))
		}
		if got := r.read("agents/alice/inbox/head"); !strings.Contains(got, "golden message") {
			t.Errorf("the message is %q", got)
		}
	}
	same()
	r.make("agents/bob/goals", "new", "a new goal")
	d.stop()
	d.clean(d.data())
	status, out := d.offline(nil, "fsck", "--reseal", d.data())
	if status != 0 || !strings.Contains(out, "records were given a checksum") || !strings.Contains(out, "nothing is wrong") {
		t.Fatalf("fsck --reseal: status %d, and it said:\n%s", status, out)
	}
	if status, out := d.offline(nil, "fsck", "--reseal", d.data()); status != 0 || strings.Contains(out, "given a checksum") {
		t.Errorf("once more: status %d, and it said:\n%s", status, out)
	}
	d.start()
	r = d.root()
	same()
	d.stop()
	d.change("golden line 77\n", "golden line 88\n")
	d.start()
	if got, err := d.root().tryRead("agents/alice/state/lines"); err == nil {
		t.Errorf("a changed file was read: %d bytes", len(got))
	}
}

// Changed bytes are an error of the files that they belong to, which the daemon
// names; it serves the rest, and makes no backup or bundle of it.
func TestChangedRecords(t *testing.T) {
	d := startDaemon(t)
	furnish(t, d)
	r := d.root()
	r.make("agents/alice/goals", "marked", "the goal that changes")
	r.make("agents/alice/goals", "other", "another goal")
	id := strings.TrimSpace(r.ask("agents/alice/inbox/new", `{"body":"the message that changes"}`))
	d.stop()
	d.change("the goal that changes", "the goal That changes")
	d.change("the message that changes", "the message That changes")
	status, out := d.offline(nil, "fsck", d.data())
	for _, want := range []string{"agents/alice/goals/marked: ", "agents/alice/inbox/" + id + ": ", "What can be done: restore it from a backup"} {
		if status != 1 || !strings.Contains(out, want) {
			t.Errorf("fsck: status %d, and it does not say %q:\n%s", status, want, out)
		}
	}
	d.start()
	r = d.root()
	for path, file := range map[string]string{
		"agents/alice/goals/marked": "agents/alice/goals/marked", "agents/alice/inbox/" + id: "agents/alice/inbox/" + id,
		"bundles/alice.tar": "agents/alice/", "backup": "agents/alice/",
	} {
		got, err := r.tryRead(path)
		if err == nil || strings.Contains(got, "That") {
			t.Errorf("%s: %d bytes, %v", path, len(got), err)
		} else if !strings.Contains(d.text()+err.Error(), file) {
			t.Errorf("%s: nothing names %s: %v", path, file, err)
		}
	}
	if got := r.read("agents/alice/goals/other"); got != "another goal" {
		t.Errorf("another file: %q", got)
	}
	r.write("agents/alice/inbox/new", "one more message")
	r.write("agents/alice/goals/marked", "written anew")
	r.read("bundles/bob.tar")
	d.stop()
	if _, out := d.offline(nil, "fsck", d.data()); !strings.Contains(out, "inbox/"+id) {
		t.Errorf("fsck: %s", out)
	}
}

// A damaged message is in the way of no other, and can be removed.
func TestDamagedMessage(t *testing.T) {
	d := startDaemon(t)
	r := d.root()
	r.mkdir("agents", "alice")
	for i, text := range []string{"first text", "second text", "third text"} {
		r.write("agents/alice/inbox/new", fmt.Sprintf(`{"id":"m%d","body":"%s"}`, i+1, text))
	}
	d.stop()
	d.change("first text", "First text")
	d.start()
	r = d.root()
	has(t, "next", r.read("agents/alice/inbox/next"), "second text")
	has(t, "the events", r.read("agents/alice/logs/recent"), `"inbox.damaged"`)
	equal(t, "inbox", r.list("agents/alice/inbox"), "new next head taken ctl m1 m3")
	if got, err := r.tryRead("agents/alice/inbox/m1"); err == nil {
		t.Errorf("the damaged message is read: %s", got)
	}
	if err := r.tryWrite("agents/alice/inbox/new", `{"id":"m1","body":"anew"}`); err == nil || !strings.Contains(err.Error(), "it is damaged: remove it") {
		t.Errorf("a message with the id of a damaged one: %v", err)
	}
	r.write("agents/alice/config", d.config("note", ""))
	r.until("alice", "state/log", "message third text")
	r.until("alice", "status", `"inbox":1,`)
	r.remove("agents/alice/inbox/m1")
	equal(t, "inbox", r.list("agents/alice/inbox"), inboxFiles)
	r.until("alice", "status", `"inbox":0,`)
	d.stop()
	d.clean(d.data())
}
