package data

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"agent9/conformance/daemon"
	"agent9/services/host"
	"agent9/store"
	"agent9/store/bolt"
)

// furnish gives a daemon agents with something of everything.
func furnish(t *testing.T, d *daemon.Daemon) {
	t.Helper()
	r := d.Root()
	r.Mkdir("accounts", "team")
	for _, name := range []string{"alice", "bob"} {
		r.Mkdir("agents", name)
		r.Write("agents/"+name+"/budget/limits", `{"parent":"team","per_day_microusd":1000000}`)
		r.Make("agents/"+name+"/secrets", "key", "a secret")
		r.Make("agents/"+name+"/goals", "today", "something to do")
		r.Ask("agents/"+name+"/sessions/new", "a talk")
		r.Write("agents/"+name+"/inbox/new", "a message")
	}
	r.Write("agents/bob/config", `{"program":{"exec":"cat > /dev/null; echo seen"}}`)
	r.Write("agents/bob/ctl", "alarm @daily look around")
	r.Ask("ctl", "token alice rw never")
}

func TestFsckAfterKills(t *testing.T) {
	daemon.HelperFor(t)
	d := daemon.Start(t, "--unsafe-host-containers")
	furnish(t, d)
	for round := range 4 {
		var wg sync.WaitGroup
		var did atomic.Int64
		worked := make(chan struct{})
		for i, name := range []string{"alice", "bob", "alice", "bob"} {
			r := d.Root()
			wg.Go(func() {
				for n := 0; ; n++ { // until the daemon dies
					var err error
					at := "agents/" + name + "/"
					switch (i*3 + n) % 6 {
					case 0:
						err = r.TryWrite(at+"inbox/new", fmt.Sprintf(`{"id":"m-%d-%d-%d","body":%d}`, round, i, n, n))
					case 1:
						err = r.TryWrite(at+"compute/new", fmt.Sprintf("question %d", n))
					case 2:
						err = r.TryMake(at+"goals", fmt.Sprintf("g%d", n%7), strings.Repeat("goal ", n%9000))
					case 3:
						err = r.TryWrite(at+"containers/new", `{"commands":["echo in a box"]}`)
					case 4:
						err = r.TryWrite(at+"sessions/1/prompt", fmt.Sprintf("what is %d?", n))
					case 5:
						if rerr := r.TryRemove(at + fmt.Sprintf("goals/g%d", n%7)); rerr != nil && isDead(d) {
							err = rerr
						}
					}
					if err != nil && isDead(d) {
						return
					}
					if did.Add(1) == 60 {
						close(worked)
					}
				}
			})
		}
		select {
		case <-worked:
		case <-time.After(daemon.Limit):
			t.Fatalf("only %d things were done", did.Load())
		}
		time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond) // anywhere in the middle
		d.Kill()
		wg.Wait()
		d.Clean(d.Data())
		d.Start()
	}
	d.Signal(syscall.SIGTERM)
	d.Ends(daemon.Bound)
	d.Clean(d.Data())
}

// isDead reports whether the daemon has ended.
func isDead(d *daemon.Daemon) bool {
	select {
	case <-d.Exited:
		return true
	default:
		return false
	}
}

func TestFsck(t *testing.T) {
	d := daemon.Start(t)
	furnish(t, d)
	if status, out := d.Offline(nil, "fsck", d.Data()); status != 2 || !strings.Contains(out, "is in use by another daemon") {
		t.Errorf("while a daemon runs: status %d, and it said:\n%s", status, out)
	}
	d.Kill()
	d.Clean(d.Data())
	db := filepath.Join(d.Data(), host.DatabaseName)
	breakAt(t, db, "data/1/inbox/counts", []byte(`{"waiting":12}`))
	breakAt(t, db, "data/1/budget/totals", []byte(`{"held":9,"holds":1}`))
	before, err := os.ReadFile(db)
	if err != nil {
		t.Fatal(err)
	}
	status, out := d.Offline(nil, "fsck", d.Data())
	for _, want := range []string{"agents/", "/inbox: 12 messages are counted as waiting", "--repair counts them again", "MONEY ", "2 findings"} {
		if !strings.Contains(out, want) {
			t.Errorf("there is no %q in:\n%s", want, out)
		}
	}
	if status != 1 {
		t.Errorf("got status %d, want 1", status)
	}
	if after, err := os.ReadFile(db); err != nil || !bytes.Equal(before, after) {
		t.Error("without --repair it changed the database")
	}
	if status, out := d.Offline(nil, "fsck", "--repair", d.Data()); status != 0 || !strings.Contains(out, "Mended: counts them again") {
		t.Errorf("a repair: status %d, and it said:\n%s", status, out)
	}
	d.Clean(d.Data())
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"fsck", filepath.Join(d.Dir, "none")}, "the database"},
		{[]string{"fsck", "a", "b"}, "unexpected argument"},
		{[]string{"fsck", "--nonsense"}, "nonsense"},
	} {
		if status, out := d.Offline(nil, c.args...); status != 2 || !strings.Contains(out, c.says) {
			t.Errorf("%q: status %d, and it said:\n%s", c.args, status, out)
		}
	}
	if _, err := os.Stat(filepath.Join(d.Dir, "none")); err == nil {
		t.Error("fsck made a directory")
	}
	d.Start()
	d.Root().Read("agents/alice/status")
}

func breakAt(t *testing.T, path, key string, value []byte) {
	t.Helper()
	db, err := bolt.OpenWith(path, bolt.Options{Steps: host.Steps()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	found := ""
	for _, id := range []string{"1", "2", "3"} { // the first that has it
		k := strings.Replace(key, "/1/", "/"+id+"/", 1)
		if _, err := db.Get(t.Context(), k); err == nil && found == "" {
			found = k
		}
	}
	if found == "" {
		t.Fatalf("there is no %s", key)
	}
	if err := db.Put(t.Context(), found, value); err != nil {
		t.Fatal(err)
	}
}

// What was acknowledged before a backup began is in it, whatever is written
// meanwhile.
func TestBackupUnderLoad(t *testing.T) {
	d := daemon.Start(t)
	furnish(t, d)
	var acknowledged atomic.Int64
	enough, stop := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	for w := range 3 {
		r := d.Root()
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := r.TryMake("agents/alice/goals", fmt.Sprintf("w%d-%d", w, n), strings.Repeat(fmt.Sprintf("%d %d\n", w, n), 200)); err != nil {
					t.Error(err)
					return
				}
				if w == 0 {
					if acknowledged.Store(int64(n + 1)); n+1 == 20 {
						close(enough)
					}
				}
			}
		})
	}
	select {
	case <-enough:
	case <-time.After(daemon.Limit):
		t.Fatalf("only %d files were written", acknowledged.Load())
	}
	least := acknowledged.Load()
	archive := d.Root().Read("backup")
	close(stop)
	wg.Wait()
	again := d.Root().Read("backup")
	if len(again) == 0 {
		t.Error("a second backup is empty")
	}

	r := &daemon.Daemon{T: t, Dir: filepath.Join(d.Dir, "r")}
	files := unpack(t, archive, r.Data())
	if want := "BACKUP agent9.db"; strings.Join(files, " ") != want {
		t.Errorf("the backup has %v, want %s", files, want)
	}
	text, err := os.ReadFile(filepath.Join(r.Data(), "BACKUP"))
	if err != nil {
		t.Fatal(err)
	}
	daemon.Has(t, "BACKUP", string(text), "master.key", "workspaces")
	r.Refuses(1, nil, "the master key", "is missing")
	key, err := os.ReadFile(filepath.Join(d.Data(), "master.key"))
	if err == nil {
		err = os.WriteFile(filepath.Join(r.Data(), "master.key"), key, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.Clean(r.Data())
	r.Start()
	defer r.Kill()
	root := r.Root()
	for n := range least {
		if got, want := root.Read(fmt.Sprintf("agents/alice/goals/w0-%d", n)), strings.Repeat(fmt.Sprintf("0 %d\n", n), 200); got != want {
			t.Fatalf("file %d of %d that were acknowledged has %d bytes, want %d", n, least, len(got), len(want))
		}
	}
	root.Ask("agents/alice/identity/sign", "with the same key")
	if err := root.TryWrite("backup", "x"); err == nil {
		t.Error("a backup can be written to")
	}
}

// unpack is tar -x.
func unpack(t *testing.T, archive, dir string) (names []string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(strings.NewReader(archive)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, h.Name), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
}

func TestRekey(t *testing.T) {
	d := daemon.Start(t)
	furnish(t, d)
	pubkey := d.Root().Read("agents/alice/identity/pubkey")
	if status, out := d.Offline(nil, "rekey", d.Data()); status != 1 || !strings.Contains(out, "in use by another daemon") {
		t.Errorf("while a daemon runs: status %d, and it said:\n%s", status, out)
	}
	d.Kill()
	key := filepath.Join(d.Data(), "master.key")
	first, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	rekey := func(env []string, args ...string) {
		t.Helper()
		if status, out := d.Offline(env, append(append([]string{"rekey"}, args...), d.Data())...); status != 0 || !strings.Contains(out, "of 2 agents are sealed under the new master key") {
			t.Fatalf("status %d, and it said:\n%s", status, out)
		}
	}
	rekey(nil)
	if b, err := os.ReadFile(key); err != nil || bytes.Equal(b, first) {
		t.Fatalf("the key is the same, or: %v", err)
	}
	if b, err := os.ReadFile(key + ".old"); err != nil || !bytes.Equal(b, first) {
		t.Errorf("the old key was not kept: %v", err)
	}
	d.Clean(d.Data())
	d.Start()
	if got := d.Root().Read("agents/alice/identity/pubkey"); got != pubkey {
		t.Errorf("the agent has another key")
	}
	d.Root().Ask("agents/alice/identity/sign", "x")
	d.Kill()

	word := filepath.Join(d.Dir, "word")
	if err := os.WriteFile(word, []byte("a passphrase\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if status, out := d.Offline(nil, "rekey", "--passphrase-file", word, d.Data()); status != 1 || !strings.Contains(out, "can be read or written by others") {
		t.Errorf("a passphrase that others can read: status %d, and it said:\n%s", status, out)
	}
	if err := os.Chmod(word, 0o600); err != nil {
		t.Fatal(err)
	}
	rekey(nil, "--passphrase-file", word)
	if _, err := os.Stat(key); err == nil {
		t.Error("the key file is still there")
	}
	d.Refuses(1, nil, "sealed under a passphrase, and none was given")
	env := []string{"AGENT9_PASSPHRASE_FILE=" + word}
	if status, out := d.Offline(env, "fsck", d.Data()); status != 0 {
		t.Errorf("fsck with the passphrase: status %d, and it said:\n%s", status, out)
	}
	if status, out := d.Offline([]string{"AGENT9_PASSPHRASE=another"}, "rekey", d.Data()); status != 1 || !strings.Contains(out, "is not the one that the keys here were sealed under") {
		t.Errorf("a wrong passphrase: status %d, and it said:\n%s", status, out)
	}
	rekey(env)
	d.Start()
	d.Root().Ask("agents/bob/identity/sign", "x")
	d.Kill()
	if err := os.WriteFile(key, first, 0o600); err != nil {
		t.Fatal(err)
	}
	d.Refuses(1, nil, "is not the one that the keys here were sealed under", "nothing was changed")
}

func TestOpenDataDirectory(t *testing.T) {
	d := daemon.New(t)
	if err := os.Mkdir(d.Data(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(d.Data(), 0o777); err != nil {
		t.Fatal(err)
	}
	d.Refuses(1, nil, "can be written by others", "chmod 700")
	if files, err := os.ReadDir(d.Data()); err != nil || len(files) > 0 {
		t.Errorf("it was refused, and has %v, %v", files, err)
	}
}

func TestNewerDatabase(t *testing.T) {
	d := daemon.Start(t)
	d.Kill()
	path := filepath.Join(d.Data(), host.DatabaseName)
	db, err := bolt.OpenWith(path, bolt.Options{Steps: append(host.Steps(), func(context.Context, store.Store) error { return nil })})
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d.Refuses(1, nil, "this daemon supports versions up to", "nothing was changed")
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Error("it was refused, and changed")
	}
}

func TestAgentctlBackup(t *testing.T) {
	d := daemon.Start(t)
	furnish(t, d)
	cmd := exec.CommandContext(daemon.Within(t), daemon.Agentctl(t), "--addr", "unix:"+d.Sock(), "backup")
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, complaints.String())
	}
	dir := filepath.Join(d.Dir, "copy")
	unpack(t, out.String(), dir)
	if status, said := d.Offline(nil, "fsck", dir); status != 1 || !strings.Contains(said, "keys and secrets are not checked, and agentd would not start: the master key") || strings.Contains(said, "nothing is wrong") {
		t.Errorf("fsck without the master key: status %d, and it said:\n%s", status, said)
	}
	token := d.Root().Ask("ctl", "token * r,/backup:-")
	c, ok := daemon.Ctl(t, "unix:"+d.Sock(), "", "--token", token, "backup")
	if ok || !strings.Contains(c, "backup") {
		t.Errorf("with a token that has no right to it: %v, %q", ok, c)
	}
}
