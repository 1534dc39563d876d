package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agent9/fsys"
)

// agentctlOn runs agentctl at the daemon with a passphrase in its environment.
func (d *daemon) agentctl(in []byte, args ...string) (out []byte, says string, err error) {
	d.t.Helper()
	cmd := ctlCommand(d.t, "unix:"+d.sock(), args...)
	cmd.Env = append(os.Environ(), "AGENT9_TOKEN=", "AGENT9_BUNDLE_PASSPHRASE=correct h0rse")
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), &stderr
	out, err = cmd.Output()
	return out, stderr.String(), err
}

func (d *daemon) mustCtl(in []byte, args ...string) []byte {
	d.t.Helper()
	out, says, err := d.agentctl(in, args...)
	if err != nil {
		d.t.Fatalf("agentctl %q: %v: %s", args, err, says)
	}
	return out
}

// saysNo checks that agentctl fails and says words.
func (d *daemon) saysNo(in []byte, words string, args ...string) {
	d.t.Helper()
	out, says, err := d.agentctl(in, args...)
	if err == nil || len(out) > 0 || !strings.Contains(says, words) {
		d.t.Errorf("agentctl %q: %v, printed %q and said %q, want %q", args, err, out, says, words)
	}
}

const canary = "c4nary-of-a-s3cret"

// fill gives an agent something of everything.
func fill(r *tree, name string) {
	at := "agents/" + name + "/"
	r.write(at+"config", `{"accept":["bob","team-*"],"inbox":{"limit":50}}`)
	r.write(at+"budget/limits", `{"per_day_microusd":700000}`)
	r.write(at+"compute/policy", `{"default_max_tokens":5}`)
	r.make(at+"goals", "ship", "Ship it.\n")
	r.mkdir(at+"goals", "learn")
	r.make(at+"goals/learn", "bytes", string([]byte{0, 1, 255, '\n'})+strings.Repeat("long\n", 20_000))
	r.make(at+"skills", "review.md", "---\nname: review\ndescription: d\n---\n")
	r.make(at+"secrets", "github", canary)
	for i := range 5 {
		r.write(at+"inbox/new", fmt.Sprintf("message %d", i))
	}
	n := strings.TrimSpace(r.ask(at+"compute/new", "hello"))
	r.read(at + "compute/jobs/" + n + "/result")
	r.write(at+"logs/write", "a line <of> its own")
	r.tryWrite(at+"config", `{"nonsense":1}`)
}

// snapshot reads every file of a tree that reading does not change, and the
// size of every stream.
func (tr *tree) snapshot(path string) map[string]string {
	files := map[string]string{}
	n, err := fsys.WalkPath(within(tr.t), tr.root, path)
	if err != nil {
		tr.t.Fatal(err)
	}
	tr.gather(files, n, "")
	return files
}

func (tr *tree) gather(files map[string]string, n fsys.Node, path string) {
	ctx := within(tr.t)
	info, err := n.Stat(ctx)
	if err != nil {
		tr.t.Fatalf("%s: %v", path, err)
	}
	switch {
	case path == "/compute/providers": // is the daemon's
	case info.Kind == fsys.Directory:
		list, err := fsys.List(ctx, n)
		if err != nil {
			tr.t.Fatalf("%s: %v", path, err)
		}
		files[path+"/"] = fmt.Sprint(info.Perm)
		for _, e := range list {
			tr.gather(files, e.Node, path+"/"+e.Name)
		}
	case info.Kind == fsys.Message, info.Perm&0o444 == 0, strings.HasSuffix(path, "inbox/next"), strings.HasSuffix(path, "inbox/head"):
		files[path] = info.Kind.String()
	default:
		h, err := n.Open(ctx, fsys.Read)
		if err != nil {
			tr.t.Fatalf("%s: %v", path, err)
		}
		defer h.Close()
		b := make([]byte, info.Size)
		for m := int64(0); m < info.Size; {
			k, err := fsys.ReadAt(ctx, h, b[m:], m)
			if err != nil {
				tr.t.Fatalf("%s: %v", path, err)
			}
			m += int64(k)
		}
		files[path] = string(b)
	}
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
	d, r, _ := oneAgent(t)
	fill(r, "alice")
	want := r.snapshot("agents/alice")
	b := d.mustCtl(nil, "export", "--with-keys", "alice")

	e := startDaemon(t)
	e.saysNo(b, "opens with the passphrase", "import")
	if got := string(e.mustCtl(b, "import", "--with-keys")); got != "agents/alice\n" {
		t.Errorf("import printed %q", got)
	}
	s := e.root()
	sameFiles(t, s.snapshot("agents/alice"), want)
	again := e.mustCtl(nil, "export", "--with-keys", "alice")
	sameFiles(t, untarred(t, again), untarred(t, b))

	message := `{"pubkey":"` + strings.TrimSpace(want["/identity/pubkey"]) + `","message":"m","signature":"` + strings.TrimSpace(s.ask("agents/alice/identity/sign", "m")) + `"}`
	equal(t, "verify", r.ask("agents/alice/identity/verify", message), "true")
	want = s.snapshot("agents/alice")

	// It lives: a restart finds it, and it goes on.
	e.kill()
	e.start()
	s = e.root()
	sameFiles(t, s.snapshot("agents/alice"), want)
	s.write("agents/alice/inbox/new", "more")
	has(t, "status", s.read("agents/alice/status"), `"inbox":6`)

	for _, bytesOf := range [][]byte{b, again} {
		if bytes.Contains(bytesOf, []byte(canary)) {
			t.Error("the bundle shows a secret")
		}
	}
	for _, text := range []string{d.text(), e.text(), s.read("agents/alice/logs/errors"), s.read("agents/alice/logs/recent")} {
		if strings.Contains(text, canary) || strings.Contains(text, "h0rse") {
			t.Error("a log shows a secret")
		}
	}
}

func TestImportRefused(t *testing.T) {
	d, r, _ := oneAgent(t)
	fill(r, "alice")
	b := d.mustCtl(nil, "export", "alice")
	if bytes.Contains(b, []byte("keys.jsonl")) || bytes.Contains(b, []byte("Sealed")) {
		t.Error("there are keys in a bundle that was asked for without")
	}
	newer := bytes.Replace(b, []byte(`{"format":1,`), []byte(`{"format":9,`), 1)
	damaged := bytes.Replace(b, []byte("Ship it."), []byte("Ship at."), 1)
	d.saysNo(b, "the bundle has no private key", "import")
	d.saysNo(b, "there is an agent called alice", "import", "--new-identity")
	d.saysNo(b, "a name here is made of", "import", "--new-identity", "--as", "a b")
	d.saysNo(b, "mode is restore or clone, not move", "import", "--mode", "move")
	d.saysNo(b, "no keys that a passphrase could open", "import", "--with-keys", "--as", "bob2")
	d.saysNo(newer, "this bundle has format 9", "import", "--as", "bob2", "--new-identity")
	d.saysNo(damaged, "the bundle is damaged: records/goals.jsonl is not what was written", "import", "--as", "bob2", "--new-identity")
	d.saysNo(b[:len(b)/2], "the bundle ends too early", "import", "--as", "bob2", "--new-identity")
	d.saysNo([]byte(strings.Repeat("hello\n", 200)), "this is not a bundle", "import", "--as", "bob2")
	d.saysNo(nil, "no agent nobody", "export", "nobody")
	sealed := d.mustCtl(nil, "export", "--with-keys", "alice")
	wrong := filepath.Join(d.dir, "wrong")
	if err := os.WriteFile(wrong, []byte("battery\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.saysNo(sealed, "the passphrase is not the one", "import", "--as", "bob2", "--with-keys", "--passphrase-file", wrong)
	refused(t, "what is half made", second(r.tryRead("agents/bob2/status")), fsys.NotExist)
	equal(t, "agents", strings.Contains(r.list("agents"), "bob2"), false)
}

func second[T any](_ T, err error) error { return err }

func TestClone(t *testing.T) {
	d, r, _ := oneAgent(t)
	fill(r, "alice")
	r.mkdir("accounts", "team")
	r.write("agents/alice/budget/limits", `{"per_day_microusd":700000,"parent":"team"}`)
	b := d.mustCtl(nil, "export", "--with-keys", "alice")
	equal(t, "clone", string(d.mustCtl(b, "import", "--as", "eve", "--mode", "clone", "--with-keys")), "agents/eve\n")
	alice, eve := r.snapshot("agents/alice"), r.snapshot("agents/eve")
	for _, path := range []string{"/config", "/budget/limits", "/compute/policy", "/goals/ship", "/goals/learn/bytes", "/skills/review.md", "/secrets/github"} {
		equal(t, path, eve[path], alice[path])
	}
	if eve["/identity/pubkey"] == alice["/identity/pubkey"] {
		t.Error("a clone has the key of the other one")
	}
	has(t, "the clone's status", eve["/status"], `"name":"eve"`, `"inbox":0`, `"spent_total_microusd":0`)
	equal(t, "the clone's jobs", r.list("agents/eve/compute/jobs"), "")
	has(t, "the clone's log", eve["/logs/recent"], `"event":"agent.imported","name":"eve","mode":"clone","of":"alice"`)
	refused(t, "rmdir of the account of both", r.tryRemove("accounts/team"), fsys.Busy, "agents/alice has")
	r.write("agents/alice/budget/limits", `{}`)
	refused(t, "rmdir of the account of the clone", r.tryRemove("accounts/team"), fsys.Busy, "agents/eve has")

	other := startDaemon(t)
	other.saysNo(b, "the account team that the agent has above its own: it does not exist", "import", "--mode", "clone")
	equal(t, "agents of the other daemon", other.root().list("agents"), "")
}

// What was under way has been interrupted; it is paid, and not by the accounts
// of another daemon.
func TestMoveInterrupted(t *testing.T) {
	d := startDaemon(t, "--compute", "slow=exec:cat >/dev/null; sleep 600")
	r := d.root()
	r.mkdir("agents", "alice")
	r.mkdir("accounts", "team")
	r.write("agents/alice/budget/limits", `{"per_day_microusd":700000,"parent":"team"}`)
	r.ask("agents/alice/compute/new", `{"provider":"slow","messages":[{"role":"user","content":"x"}],"max_cost_microusd":70}`)
	eventually(t, "the job runs", func() bool {
		return strings.Contains(r.read("agents/alice/compute/jobs/1/status"), `"state":"running"`)
	})
	b := d.mustCtl(nil, "export", "alice")

	e := startDaemon(t)
	s := e.root()
	s.mkdir("accounts", "team")
	s.mkdir("agents", "bob")
	s.write("agents/bob/budget/limits", `{"parent":"team"}`)
	e.mustCtl(b, "import", "--new-identity")
	has(t, "the job", s.read("agents/alice/compute/jobs/1/status"), `"state":"failed"`, "interrupted")
	has(t, "usage", s.read("agents/alice/budget/usage"), `"held_microusd":0,"holds":0`)
	has(t, "team", s.read("accounts/team/usage"), `"held_microusd":0,"holds":0`)
	has(t, "its log", s.read("agents/alice/logs/recent"), `"event":"agent.imported"`, `"was_pubkey"`)
}

// An agent that is written to while it is exported is exported as it was at
// one moment.
func TestExportWhileWriting(t *testing.T) {
	d, r, _ := oneAgent(t)
	r.make("agents/alice/goals", "a", "")
	r.make("agents/alice/goals", "b", "")
	ctx, stop := context.WithCancel(t.Context())
	wrote := make(chan error, 1)
	w := d.root()
	go func() {
		var err error
		for i := 0; ctx.Err() == nil && err == nil; i++ { // a is never behind b
			for _, name := range []string{"a", "b"} {
				if err == nil {
					err = w.tryWrite("agents/alice/goals/"+name, fmt.Sprintf("%08d", i))
				}
			}
		}
		wrote <- err
	}()
	for i := range 5 {
		b := d.mustCtl(nil, "export", "alice")
		name := fmt.Sprintf("copy%d", i)
		d.mustCtl(b, "import", "--as", name, "--new-identity")
		first, second := r.read("agents/"+name+"/goals/a"), r.read("agents/"+name+"/goals/b")
		if first != "" && second != "" && first < second {
			t.Errorf("b is %s and a is %s", second, first)
		}
	}
	stop()
	if err := <-wrote; err != nil {
		t.Error(err)
	}
}
