package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
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

	"agent9/services/host"
	"agent9/store"
	"agent9/store/bolt"
)

// offline runs agentd on the data of a daemon that need not run, and returns
// its exit status and what it printed.
func (d *daemon) offline(env []string, args ...string) (status int, out string) {
	d.t.Helper()
	cmd := runAgentd(d.t, args...)
	cmd.Env = append(cmd.Env, env...)
	b, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		d.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(b)
}

func (d *daemon) clean(dir string) {
	d.t.Helper()
	if status, out := d.offline(nil, "fsck", dir); status != 0 || !strings.Contains(out, "nothing is wrong") {
		d.t.Fatalf("agentd fsck ended with status %d and said:\n%s", status, out)
	}
}

// furnish gives a daemon agents with something of everything.
func furnish(t *testing.T, d *daemon) {
	t.Helper()
	r := d.root()
	r.mkdir("accounts", "team")
	for _, name := range []string{"alice", "bob"} {
		r.mkdir("agents", name)
		r.write("agents/"+name+"/budget/limits", `{"parent":"team","per_day_microusd":1000000}`)
		r.make("agents/"+name+"/secrets", "key", "a secret")
		r.make("agents/"+name+"/goals", "today", "something to do")
		r.ask("agents/"+name+"/sessions/new", "a talk")
		r.write("agents/"+name+"/inbox/new", "a message")
	}
	r.write("agents/bob/config", `{"program":{"exec":"cat > /dev/null; echo seen"}}`)
	r.write("agents/bob/ctl", "alarm @daily look around")
	r.ask("ctl", "token alice rw never")
}

func TestFsckAfterKills(t *testing.T) {
	helperFor(t)
	d := startDaemon(t, "--unsafe-host-containers")
	furnish(t, d)
	for round := range 4 {
		var wg sync.WaitGroup
		var did atomic.Int64
		worked := make(chan struct{})
		for i, name := range []string{"alice", "bob", "alice", "bob"} {
			r := d.root()
			wg.Go(func() {
				for n := 0; ; n++ { // until the daemon dies
					var err error
					at := "agents/" + name + "/"
					switch (i*3 + n) % 6 {
					case 0:
						err = r.tryWrite(at+"inbox/new", fmt.Sprintf(`{"id":"m-%d-%d-%d","body":%d}`, round, i, n, n))
					case 1:
						err = r.tryWrite(at+"compute/new", fmt.Sprintf("question %d", n))
					case 2:
						err = r.tryMake(at+"goals", fmt.Sprintf("g%d", n%7), strings.Repeat("goal ", n%9000))
					case 3:
						err = r.tryWrite(at+"containers/new", `{"commands":["echo in a box"]}`)
					case 4:
						err = r.tryWrite(at+"sessions/1/prompt", fmt.Sprintf("what is %d?", n))
					case 5:
						if rerr := r.tryRemove(at + fmt.Sprintf("goals/g%d", n%7)); rerr != nil && d.isDead() {
							err = rerr
						}
					}
					if err != nil && d.isDead() {
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
		case <-time.After(limit):
			t.Fatalf("only %d things were done", did.Load())
		}
		time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond) // anywhere in the middle
		d.kill()
		wg.Wait()
		d.clean(d.data())
		d.start()
	}
	d.signal(syscall.SIGTERM)
	d.ends(bound)
	d.clean(d.data())
}

// isDead reports whether the daemon has ended.
func (d *daemon) isDead() bool {
	select {
	case <-d.exited:
		return true
	default:
		return false
	}
}

func TestFsck(t *testing.T) {
	d := startDaemon(t)
	furnish(t, d)
	if status, out := d.offline(nil, "fsck", d.data()); status != 2 || !strings.Contains(out, "is in use by another daemon") {
		t.Errorf("while a daemon runs: status %d, and it said:\n%s", status, out)
	}
	d.kill()
	d.clean(d.data())
	db := filepath.Join(d.data(), host.DatabaseName)
	breakAt(t, db, "data/1/inbox/counts", []byte(`{"waiting":12}`))
	breakAt(t, db, "data/1/budget/totals", []byte(`{"held":9,"holds":1}`))
	before, err := os.ReadFile(db)
	if err != nil {
		t.Fatal(err)
	}
	status, out := d.offline(nil, "fsck", d.data())
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
	if status, out := d.offline(nil, "fsck", "--repair", d.data()); status != 0 || !strings.Contains(out, "Mended: counts them again") {
		t.Errorf("a repair: status %d, and it said:\n%s", status, out)
	}
	d.clean(d.data())
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"fsck", filepath.Join(d.dir, "none")}, "the database"},
		{[]string{"fsck", "a", "b"}, "unexpected argument"},
		{[]string{"fsck", "--nonsense"}, "nonsense"},
	} {
		if status, out := d.offline(nil, c.args...); status != 2 || !strings.Contains(out, c.says) {
			t.Errorf("%q: status %d, and it said:\n%s", c.args, status, out)
		}
	}
	if _, err := os.Stat(filepath.Join(d.dir, "none")); err == nil {
		t.Error("fsck made a directory")
	}
	d.start()
	d.root().read("agents/alice/status")
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
	d := startDaemon(t)
	furnish(t, d)
	var acknowledged atomic.Int64
	enough, stop := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	for w := range 3 {
		r := d.root()
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := r.tryMake("agents/alice/goals", fmt.Sprintf("w%d-%d", w, n), strings.Repeat(fmt.Sprintf("%d %d\n", w, n), 200)); err != nil {
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
	case <-time.After(limit):
		t.Fatalf("only %d files were written", acknowledged.Load())
	}
	least := acknowledged.Load()
	archive := d.root().read("backup")
	close(stop)
	wg.Wait()
	again := d.root().read("backup")
	if len(again) == 0 {
		t.Error("a second backup is empty")
	}

	r := &daemon{t: t, dir: filepath.Join(d.dir, "r")}
	files := unpack(t, archive, r.data())
	if want := "BACKUP agent9.db"; strings.Join(files, " ") != want {
		t.Errorf("the backup has %v, want %s", files, want)
	}
	text, err := os.ReadFile(filepath.Join(r.data(), "BACKUP"))
	if err != nil {
		t.Fatal(err)
	}
	has(t, "BACKUP", string(text), "master.key", "workspaces")
	r.refuses(1, nil, "the master key", "is missing")
	key, err := os.ReadFile(filepath.Join(d.data(), "master.key"))
	if err == nil {
		err = os.WriteFile(filepath.Join(r.data(), "master.key"), key, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.clean(r.data())
	r.start()
	defer r.kill()
	root := r.root()
	for n := range least {
		if got, want := root.read(fmt.Sprintf("agents/alice/goals/w0-%d", n)), strings.Repeat(fmt.Sprintf("0 %d\n", n), 200); got != want {
			t.Fatalf("file %d of %d that were acknowledged has %d bytes, want %d", n, least, len(got), len(want))
		}
	}
	root.ask("agents/alice/identity/sign", "with the same key")
	if err := root.tryWrite("backup", "x"); err == nil {
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
	d := startDaemon(t)
	furnish(t, d)
	pubkey := d.root().read("agents/alice/identity/pubkey")
	if status, out := d.offline(nil, "rekey", d.data()); status != 1 || !strings.Contains(out, "in use by another daemon") {
		t.Errorf("while a daemon runs: status %d, and it said:\n%s", status, out)
	}
	d.kill()
	key := filepath.Join(d.data(), "master.key")
	first, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	rekey := func(env []string, args ...string) {
		t.Helper()
		if status, out := d.offline(env, append(append([]string{"rekey"}, args...), d.data())...); status != 0 || !strings.Contains(out, "of 2 agents are sealed under the new master key") {
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
	d.clean(d.data())
	d.start()
	if got := d.root().read("agents/alice/identity/pubkey"); got != pubkey {
		t.Errorf("the agent has another key")
	}
	d.root().ask("agents/alice/identity/sign", "x")
	d.kill()

	word := filepath.Join(d.dir, "word")
	if err := os.WriteFile(word, []byte("a passphrase\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if status, out := d.offline(nil, "rekey", "--passphrase-file", word, d.data()); status != 1 || !strings.Contains(out, "can be read or written by others") {
		t.Errorf("a passphrase that others can read: status %d, and it said:\n%s", status, out)
	}
	if err := os.Chmod(word, 0o600); err != nil {
		t.Fatal(err)
	}
	rekey(nil, "--passphrase-file", word)
	if _, err := os.Stat(key); err == nil {
		t.Error("the key file is still there")
	}
	d.refuses(1, nil, "sealed under a passphrase, and none was given")
	env := []string{"AGENT9_PASSPHRASE_FILE=" + word}
	if status, out := d.offline(env, "fsck", d.data()); status != 0 {
		t.Errorf("fsck with the passphrase: status %d, and it said:\n%s", status, out)
	}
	if status, out := d.offline([]string{"AGENT9_PASSPHRASE=another"}, "rekey", d.data()); status != 1 || !strings.Contains(out, "is not the one that the keys here were sealed under") {
		t.Errorf("a wrong passphrase: status %d, and it said:\n%s", status, out)
	}
	rekey(env)
	d.start()
	d.root().ask("agents/bob/identity/sign", "x")
	d.kill()
	if err := os.WriteFile(key, first, 0o600); err != nil {
		t.Fatal(err)
	}
	d.refuses(1, nil, "is not the one that the keys here were sealed under", "nothing was changed")
}

func TestOpenDataDirectory(t *testing.T) {
	d := newDaemon(t)
	if err := os.Mkdir(d.data(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(d.data(), 0o777); err != nil {
		t.Fatal(err)
	}
	d.refuses(1, nil, "can be written by others", "chmod 700")
	if files, err := os.ReadDir(d.data()); err != nil || len(files) > 0 {
		t.Errorf("it was refused, and has %v, %v", files, err)
	}
}

func TestNewerDatabase(t *testing.T) {
	d := startDaemon(t)
	d.kill()
	path := filepath.Join(d.data(), host.DatabaseName)
	db, err := bolt.OpenWith(path, bolt.Options{Steps: append(host.Steps(), func(context.Context, store.Store) error { return nil })})
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d.refuses(1, nil, "this daemon supports versions up to", "nothing was changed")
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Error("it was refused, and changed")
	}
}

func TestAgentctlBackup(t *testing.T) {
	d := startDaemon(t)
	furnish(t, d)
	cmd := exec.CommandContext(within(t), buildAgentctl(t), "--addr", "unix:"+d.sock(), "backup")
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, complaints.String())
	}
	dir := filepath.Join(d.dir, "copy")
	unpack(t, out.String(), dir)
	if status, said := d.offline(nil, "fsck", dir); status != 1 || !strings.Contains(said, "keys and secrets are not checked, and agentd would not start: the master key") || strings.Contains(said, "nothing is wrong") {
		t.Errorf("fsck without the master key: status %d, and it said:\n%s", status, said)
	}
	token := d.root().ask("ctl", "token * r,/backup:-")
	c, ok := ctl(t, "unix:"+d.sock(), "", "--token", token, "backup")
	if ok || !strings.Contains(c, "backup") {
		t.Errorf("with a token that has no right to it: %v, %q", ok, c)
	}
}
