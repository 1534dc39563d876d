package data

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agent9/conformance/daemon"
	"agent9/fsys"
)

// fill gives an agent something of everything.
func fill(r *daemon.Tree, name string) {
	at := "agents/" + name + "/"
	r.Write(at+"config", `{"accept":["bob","team-*"],"inbox":{"limit":50}}`)
	r.Write(at+"budget/limits", `{"per_day_microusd":700000}`)
	r.Write(at+"compute/policy", `{"default_max_tokens":5}`)
	r.Make(at+"goals", "ship", "Ship it.\n")
	r.Mkdir(at+"goals", "learn")
	r.Make(at+"goals/learn", "bytes", string([]byte{0, 1, 255, '\n'})+strings.Repeat("long\n", 20_000))
	r.Make(at+"skills", "review.md", "---\nname: review\ndescription: d\n---\n")
	r.Make(at+"secrets", "github", daemon.Canary)
	for i := range 5 {
		r.Write(at+"inbox/new", fmt.Sprintf("message %d", i))
	}
	n := strings.TrimSpace(r.Ask(at+"compute/new", "hello"))
	r.Read(at + "compute/jobs/" + n + "/result")
	r.Write(at+"logs/write", "a line <of> its own")
	r.TryWrite(at+"config", `{"nonsense":1}`)
}

func sameFiles(t *testing.T, got, want map[string]string) {
	t.Helper()
	for path := range want {
		if got[path] != want[path] {
			t.Errorf("%s is %.200q, want %.200q", path, got[path], want[path])
		}
	}
	for path := range got {
		if _, ok := want[path]; !ok {
			t.Errorf("%s should not be there", path)
		}
	}
}

// untarred returns the members of a bundle, but for the times in it.
func untarred(t *testing.T, b []byte) map[string]string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("tar", "-x", "-C", dir)
	cmd.Stdin = bytes.NewReader(b)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("tar: %v: %s", err, out)
	}
	files := map[string]string{}
	err := filepath.WalkDir(filepath.Join(dir, "records"), func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			var b []byte
			b, err = os.ReadFile(path)
			files[filepath.Base(path)] = string(b)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// An agent moves to another data folder, as who it was.
func TestMove(t *testing.T) {
	d, r, _ := daemon.OneAgent(t)
	fill(r, "alice")
	want := r.Snapshot("agents/alice")
	b := d.MustCtl(nil, "export", "--with-keys", "alice")

	e := daemon.Start(t)
	e.SaysNo(b, "opens with the passphrase", "import")
	if got := string(e.MustCtl(b, "import", "--with-keys")); got != "agents/alice\n" {
		t.Errorf("import printed %q", got)
	}
	s := e.Root()
	sameFiles(t, s.Snapshot("agents/alice"), want)
	again := e.MustCtl(nil, "export", "--with-keys", "alice")
	sameFiles(t, untarred(t, again), untarred(t, b))

	message := `{"pubkey":"` + strings.TrimSpace(want["/identity/pubkey"]) + `","message":"m","signature":"` + strings.TrimSpace(s.Ask("agents/alice/identity/sign", "m")) + `"}`
	daemon.Equal(t, "verify", r.Ask("agents/alice/identity/verify", message), "true")
	want = s.Snapshot("agents/alice")

	// It lives: a restart finds it, and it goes on.
	e.Kill()
	e.Start()
	s = e.Root()
	sameFiles(t, s.Snapshot("agents/alice"), want)
	s.Write("agents/alice/inbox/new", "more")
	daemon.Has(t, "status", s.Read("agents/alice/status"), `"inbox":6`)

	for _, bytesOf := range [][]byte{b, again} {
		if bytes.Contains(bytesOf, []byte(daemon.Canary)) {
			t.Error("the bundle shows a secret")
		}
	}
	for _, text := range []string{d.Text(), e.Text(), s.Read("agents/alice/logs/errors"), s.Read("agents/alice/logs/recent")} {
		if strings.Contains(text, daemon.Canary) || strings.Contains(text, "h0rse") {
			t.Error("a log shows a secret")
		}
	}
}

func TestImportRefused(t *testing.T) {
	d, r, _ := daemon.OneAgent(t)
	fill(r, "alice")
	b := d.MustCtl(nil, "export", "alice")
	if bytes.Contains(b, []byte("keys.jsonl")) || bytes.Contains(b, []byte("Sealed")) {
		t.Error("there are keys in a bundle that was asked for without")
	}
	newer := bytes.Replace(b, []byte(`{"format":1,`), []byte(`{"format":9,`), 1)
	damaged := bytes.Replace(b, []byte("Ship it."), []byte("Ship at."), 1)
	d.SaysNo(b, "the bundle has no private key", "import")
	d.SaysNo(b, "there is an agent called alice", "import", "--new-identity")
	d.SaysNo(b, "a name here is made of", "import", "--new-identity", "--as", "a b")
	d.SaysNo(b, "mode is restore or clone, not move", "import", "--mode", "move")
	d.SaysNo(b, "no keys that a passphrase could open", "import", "--with-keys", "--as", "bob2")
	d.SaysNo(newer, "this bundle has format 9", "import", "--as", "bob2", "--new-identity")
	d.SaysNo(damaged, "the bundle is damaged: records/goals.jsonl is not what was written", "import", "--as", "bob2", "--new-identity")
	d.SaysNo(b[:len(b)/2], "the bundle ends too early", "import", "--as", "bob2", "--new-identity")
	d.SaysNo([]byte(strings.Repeat("hello\n", 200)), "this is not a bundle", "import", "--as", "bob2")
	d.SaysNo(nil, "no agent nobody", "export", "nobody")
	sealed := d.MustCtl(nil, "export", "--with-keys", "alice")
	wrong := filepath.Join(d.Dir, "wrong")
	if err := os.WriteFile(wrong, []byte("battery\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.SaysNo(sealed, "the passphrase is not the one", "import", "--as", "bob2", "--with-keys", "--passphrase-file", wrong)
	daemon.Refused(t, "what is half made", daemon.Second(r.TryRead("agents/bob2/status")), fsys.NotExist)
	daemon.Equal(t, "agents", strings.Contains(r.List("agents"), "bob2"), false)
}

func TestClone(t *testing.T) {
	d, r, _ := daemon.OneAgent(t)
	fill(r, "alice")
	r.Mkdir("accounts", "team")
	r.Write("agents/alice/budget/limits", `{"per_day_microusd":700000,"parent":"team"}`)
	b := d.MustCtl(nil, "export", "--with-keys", "alice")
	daemon.Equal(t, "clone", string(d.MustCtl(b, "import", "--as", "eve", "--mode", "clone", "--with-keys")), "agents/eve\n")
	alice, eve := r.Snapshot("agents/alice"), r.Snapshot("agents/eve")
	for _, path := range []string{"/config", "/budget/limits", "/compute/policy", "/goals/ship", "/goals/learn/bytes", "/skills/review.md", "/secrets/github"} {
		daemon.Equal(t, path, eve[path], alice[path])
	}
	if eve["/identity/pubkey"] == alice["/identity/pubkey"] {
		t.Error("a clone has the key of the other one")
	}
	daemon.Has(t, "the clone's status", eve["/status"], `"name":"eve"`, `"inbox":0`, `"spent_total_microusd":0`)
	daemon.Equal(t, "the clone's jobs", r.List("agents/eve/compute/jobs"), "")
	daemon.Has(t, "the clone's log", eve["/logs/recent"], `"event":"agent.imported","name":"eve","mode":"clone","of":"alice"`)
	daemon.Refused(t, "rmdir of the account of both", r.TryRemove("accounts/team"), fsys.Busy, "agents/alice has")
	r.Write("agents/alice/budget/limits", `{}`)
	daemon.Refused(t, "rmdir of the account of the clone", r.TryRemove("accounts/team"), fsys.Busy, "agents/eve has")

	other := daemon.Start(t)
	other.SaysNo(b, "the account team that the agent has above its own: it does not exist", "import", "--mode", "clone")
	daemon.Equal(t, "agents of the other daemon", other.Root().List("agents"), "")
}

// What was under way has been interrupted; it is paid, and not by the accounts
// of another daemon.
func TestMoveInterrupted(t *testing.T) {
	d := daemon.Start(t, "--compute", "slow=exec:cat >/dev/null; sleep 600")
	r := d.Root()
	r.Mkdir("agents", "alice")
	r.Mkdir("accounts", "team")
	r.Write("agents/alice/budget/limits", `{"per_day_microusd":700000,"parent":"team"}`)
	r.Ask("agents/alice/compute/new", `{"provider":"slow","messages":[{"role":"user","content":"x"}],"max_cost_microusd":70}`)
	daemon.Eventually(t, "the job runs", func() bool {
		return strings.Contains(r.Read("agents/alice/compute/jobs/1/status"), `"state":"running"`)
	})
	b := d.MustCtl(nil, "export", "alice")

	e := daemon.Start(t)
	s := e.Root()
	s.Mkdir("accounts", "team")
	s.Mkdir("agents", "bob")
	s.Write("agents/bob/budget/limits", `{"parent":"team"}`)
	e.MustCtl(b, "import", "--new-identity")
	daemon.Has(t, "the job", s.Read("agents/alice/compute/jobs/1/status"), `"state":"failed"`, "interrupted")
	daemon.Has(t, "usage", s.Read("agents/alice/budget/usage"), `"held_microusd":0,"holds":0`)
	daemon.Has(t, "team", s.Read("accounts/team/usage"), `"held_microusd":0,"holds":0`)
	daemon.Has(t, "its log", s.Read("agents/alice/logs/recent"), `"event":"agent.imported"`, `"was_pubkey"`)
}

// An agent that is written to while it is exported is exported as it was at
// one moment.
func TestExportWhileWriting(t *testing.T) {
	d, r, _ := daemon.OneAgent(t)
	r.Make("agents/alice/goals", "a", "")
	r.Make("agents/alice/goals", "b", "")
	ctx, stop := context.WithCancel(t.Context())
	wrote := make(chan error, 1)
	w := d.Root()
	go func() {
		var err error
		for i := 0; ctx.Err() == nil && err == nil; i++ { // a is never behind b
			for _, name := range []string{"a", "b"} {
				if err == nil {
					err = w.TryWrite("agents/alice/goals/"+name, fmt.Sprintf("%08d", i))
				}
			}
		}
		wrote <- err
	}()
	for i := range 5 {
		b := d.MustCtl(nil, "export", "alice")
		name := fmt.Sprintf("copy%d", i)
		d.MustCtl(b, "import", "--as", name, "--new-identity")
		first, second := r.Read("agents/"+name+"/goals/a"), r.Read("agents/"+name+"/goals/b")
		if first != "" && second != "" && first < second {
			t.Errorf("b is %s and a is %s", second, first)
		}
	}
	stop()
	if err := <-wrote; err != nil {
		t.Error(err)
	}
}
