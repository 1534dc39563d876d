package data

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agent9/conformance/daemon"
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
func oldDaemon(t *testing.T) *daemon.Daemon {
	t.Helper()
	d := daemon.New(t)
	z, err := gzip.NewReader(bytes.NewReader(version2))
	if err != nil {
		t.Fatal(err)
	}
	db, err := io.ReadAll(z)
	if err == nil {
		err = os.Mkdir(d.Data(), 0o700)
	}
	for name, content := range map[string][]byte{host.DatabaseName: db, "master.key": version2Key} {
		if err == nil {
			err = os.WriteFile(filepath.Join(d.Data(), name), content, 0o600)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// change makes other bytes of those in d's database, which nobody has open, and returns
// where.
func change(d *daemon.Daemon, was, is string) {
	d.T.Helper()
	path := filepath.Join(d.Data(), host.DatabaseName)
	b, err := os.ReadFile(path)
	if err == nil && (len(was) != len(is) || !bytes.Contains(b, []byte(was))) {
		d.T.Fatalf("the database does not have %q", was)
	}
	if err == nil {
		err = os.WriteFile(path, bytes.ReplaceAll(b, []byte(was), []byte(is)), 0o600)
	}
	if err != nil {
		d.T.Fatal(err)
	}
}

func TestAnOldDatabaseIsSealed(t *testing.T) {
	d := oldDaemon(t)
	d.Start()
	r := d.Root()
	same := func() {
		t.Helper()
		if got := r.Read("agents/alice/goals/today"); got != "a golden goal\n" {
			t.Errorf("the goal is %q", got)
		}
		if lines := r.Read("agents/alice/state/lines"); strings.Count(lines, "golden line ") != 4000 {
			t.Errorf("the file has %d lines", strings.Count(lines, "\n"))
		}
		if got := r.Read("agents/alice/inbox/head"); !strings.Contains(got, "golden message") {
			t.Errorf("the message is %q", got)
		}
	}
	same()
	r.Make("agents/bob/goals", "new", "a new goal")
	d.Stop()
	d.Clean(d.Data())
	status, out := d.Offline(nil, "fsck", "--reseal", d.Data())
	if status != 0 || !strings.Contains(out, "records were given a checksum") || !strings.Contains(out, "nothing is wrong") {
		t.Fatalf("fsck --reseal: status %d, and it said:\n%s", status, out)
	}
	if status, out := d.Offline(nil, "fsck", "--reseal", d.Data()); status != 0 || strings.Contains(out, "given a checksum") {
		t.Errorf("once more: status %d, and it said:\n%s", status, out)
	}
	d.Start()
	r = d.Root()
	same()
	d.Stop()
	change(d, "golden line 77\n", "golden line 88\n")
	d.Start()
	if got, err := d.Root().TryRead("agents/alice/state/lines"); err == nil {
		t.Errorf("a changed file was read: %d bytes", len(got))
	}
}

// Changed bytes are an error of the files that they belong to, which the daemon
// names; it serves the rest, and makes no backup or bundle of it.
func TestChangedRecords(t *testing.T) {
	d := daemon.Start(t)
	furnish(t, d)
	r := d.Root()
	r.Make("agents/alice/goals", "marked", "the goal that changes")
	r.Make("agents/alice/goals", "other", "another goal")
	id := strings.TrimSpace(r.Ask("agents/alice/inbox/new", `{"body":"the message that changes"}`))
	d.Stop()
	change(d, "the goal that changes", "the goal That changes")
	change(d, "the message that changes", "the message That changes")
	status, out := d.Offline(nil, "fsck", d.Data())
	for _, want := range []string{"agents/alice/goals/marked: ", "agents/alice/inbox/" + id + ": ", "What can be done: restore it from a backup"} {
		if status != 1 || !strings.Contains(out, want) {
			t.Errorf("fsck: status %d, and it does not say %q:\n%s", status, want, out)
		}
	}
	d.Start()
	r = d.Root()
	for path, file := range map[string]string{
		"agents/alice/goals/marked": "agents/alice/goals/marked", "agents/alice/inbox/" + id: "agents/alice/inbox/" + id,
		"bundles/alice.tar": "agents/alice/", "backup": "agents/alice/",
	} {
		got, err := r.TryRead(path)
		if err == nil || strings.Contains(got, "That") {
			t.Errorf("%s: %d bytes, %v", path, len(got), err)
		} else if !strings.Contains(d.Text()+err.Error(), file) {
			t.Errorf("%s: nothing names %s: %v", path, file, err)
		}
	}
	if got := r.Read("agents/alice/goals/other"); got != "another goal" {
		t.Errorf("another file: %q", got)
	}
	r.Write("agents/alice/inbox/new", "one more message")
	r.Write("agents/alice/goals/marked", "written anew")
	r.Read("bundles/bob.tar")
	d.Stop()
	if _, out := d.Offline(nil, "fsck", d.Data()); !strings.Contains(out, "inbox/"+id) {
		t.Errorf("fsck: %s", out)
	}
}

// A damaged message is in the way of no other, and can be removed.
func TestDamagedMessage(t *testing.T) {
	d := daemon.Start(t)
	r := d.Root()
	r.Mkdir("agents", "alice")
	for i, text := range []string{"first text", "second text", "third text"} {
		r.Write("agents/alice/inbox/new", fmt.Sprintf(`{"id":"m%d","body":"%s"}`, i+1, text))
	}
	d.Stop()
	change(d, "first text", "First text")
	d.Start()
	r = d.Root()
	daemon.Has(t, "next", r.Read("agents/alice/inbox/next"), "second text")
	daemon.Has(t, "the events", r.Read("agents/alice/logs/recent"), `"inbox.damaged"`)
	daemon.Equal(t, "inbox", r.List("agents/alice/inbox"), "new next head taken ctl m1 m3")
	if got, err := r.TryRead("agents/alice/inbox/m1"); err == nil {
		t.Errorf("the damaged message is read: %s", got)
	}
	if err := r.TryWrite("agents/alice/inbox/new", `{"id":"m1","body":"anew"}`); err == nil || !strings.Contains(err.Error(), "it is damaged: remove it") {
		t.Errorf("a message with the id of a damaged one: %v", err)
	}
	r.Write("agents/alice/config", d.Config("note", ""))
	r.Until("alice", "state/log", "message third text")
	r.Until("alice", "status", `"inbox":1,`)
	r.Remove("agents/alice/inbox/m1")
	daemon.Equal(t, "inbox", r.List("agents/alice/inbox"), daemon.InboxFiles)
	r.Until("alice", "status", `"inbox":0,`)
	d.Stop()
	d.Clean(d.Data())
}
