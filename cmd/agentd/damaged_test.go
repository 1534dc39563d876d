package main

import (
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"agent9/services/host"
)

// spoil changes the last byte of every record, in the database of d that nobody has
// open, whose key has one of parts in it.
func (d *daemon) spoil(parts ...string) {
	d.t.Helper()
	db, err := bbolt.Open(filepath.Join(d.data(), host.DatabaseName), 0o600, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	defer db.Close()
	err = db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte("sealed"))
		for _, part := range parts {
			found := map[string][]byte{}
			err := b.ForEach(func(k, v []byte) error {
				if strings.Contains(string(k), part) && len(v) > 0 {
					found[string(k)] = append([]byte(nil), v...)
				}
				return nil
			})
			if err != nil {
				return err
			}
			if len(found) == 0 {
				d.t.Errorf("the database has no key with %q", part)
			}
			for k, v := range found {
				v[len(v)-1] ^= 1
				if err := b.Put([]byte(k), v); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		d.t.Fatal(err)
	}
}

const (
	keyOne = "0000000000000001"
	keyTwo = "0000000000000002"
)

// What is damaged is listed, says so, is in the way of nothing, and can be removed,
// with the money that belongs to it.
func TestDamagedWork(t *testing.T) {
	helperFor(t)
	d := startDaemon(t, "--unsafe-host-containers", "--compute", "slow=exec:cat >/dev/null; sleep 600", "--compute", "quick=exec:cat >/dev/null; echo hi")
	r := d.root()
	r.mkdir("accounts", "team")
	r.mkdir("agents", "alice")
	const at = "agents/alice/"
	r.write(at+"budget/limits", `{"parent":"team","per_day_microusd":1000000}`)
	r.ask(at+"compute/new", `{"provider":"slow","messages":[{"role":"user","content":"x"}],"max_cost_microusd":70}`)
	quick := `{"provider":"quick","messages":[{"role":"user","content":"x"}]}`
	r.ask(at+"compute/new", quick)
	r.ask(at+"compute/new", quick)
	for _, n := range []string{"2", "3"} {
		has(t, "a job", r.read(at+"compute/jobs/"+n+"/result"), "hi")
	}
	for range 2 {
		r.read(at + "containers/sessions/" + r.ask(at+"containers/new", `{"commands":["echo hi"]}`) + "/result")
		r.ask(at+"sessions/new", "a talk")
	}
	r.make(at+"goals", "whole", "a goal")
	r.make(at+"goals", "broken", "a goal")
	r.make(at+"goals", "lost", "a goal")
	for _, id := range []string{"m1", "m2"} {
		r.write(at+"inbox/new", `{"id":"`+id+`","body":"text of `+id+`"}`)
	}
	r.ask("ctl", "token alice r never")
	d.kill()
	d.spoil("/compute/rec/"+keyOne, "/compute/list/"+keyTwo, "/compute/totals", "/compute/end/", "/containers/rec/"+keyOne, "/containers/totals",
		"/sessions/rec/"+keyOne, "/sessions/idle/", "/inbox/q/", "/inbox/counts", "tokens/token/", "/goals/i/0000000000000003", "/goals/d/0000000000000001/lost")
	status, out := d.offline(nil, "fsck", d.data())
	for _, want := range []string{"alice/compute/1: ", "alice/containers/1: ", "alice/sessions/1: ", "alice/inbox"} {
		if status != 1 || !strings.Contains(out, want) {
			t.Errorf("fsck: status %d, and it does not say %q:\n%s", status, want, out)
		}
	}
	d.start()
	r = d.root()
	damaged := []string{"compute/jobs", "containers/sessions", "sessions"}
	for _, dir := range damaged {
		if got := " " + r.list(at+dir) + " "; !strings.Contains(got, " 1 ") || !strings.Contains(got, " 2 ") {
			t.Errorf("%s lists %s", dir, got)
		}
		has(t, dir, r.read(at+dir+"/1/damaged"), "is damaged")
		if text, err := r.tryRead(at + dir + "/1/status"); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("the status of what is damaged in %s: %q, %v", dir, text, err)
		}
		r.read(at + dir + "/2/status")
	}
	has(t, "the account", r.read("accounts/team/usage"), `"held_microusd":70,`)
	equal(t, "goals", r.list(at+"goals"), "broken lost whole")
	equal(t, "a whole goal", r.read(at+"goals/whole"), "a goal")
	if text, err := r.tryRead(at + "goals/broken"); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a damaged goal: %q, %v", text, err)
	}
	r.remove(at + "goals/broken")
	r.remove(at + "goals/lost")
	equal(t, "goals", r.list(at+"goals"), "whole")
	equal(t, "inbox", r.list(at+"inbox"), "new next head taken ctl m1 m2")
	has(t, "next", r.read(at+"inbox/next"), "text of m1")
	has(t, "next", r.read(at+"inbox/next"), "text of m2")
	for _, dir := range damaged {
		r.remove(at + dir + "/1")
		if got := " " + r.list(at+dir) + " "; strings.Contains(got, " 1 ") || !strings.Contains(got, " 2 ") {
			t.Errorf("%s then lists %s", dir, got)
		}
	}
	has(t, "the events", r.read(at+"logs/recent"), `"event":"compute.removed","job":1,"reason":"its record was damaged","cost_microusd":70}`,
		`"event":"containers.removed","session":1,"reason":"its record was damaged; its sandbox`, `"event":"sessions.removed","session":1,"reason":"its record was damaged"`)
	for _, account := range []string{"accounts/team/usage", at + "budget/usage"} {
		has(t, account, r.read(account), `"held_microusd":0,"holds":0`, `"spent_microusd":70`)
	}
	r.read(at + "compute/jobs/" + r.ask(at+"compute/new", quick) + "/result")
	has(t, "usage", r.read(at+"compute/usage"), `"held_microusd":0,`, `"done":3`)
	r.remove("tokens/" + r.list("tokens"))
	d.stop()
	if status, out := d.offline(nil, "fsck", d.data()); strings.Contains(out, "jobs/1") || strings.Contains(out, "goals") || strings.Contains(out, "MONEY") {
		t.Errorf("fsck: status %d, and it said:\n%s", status, out)
	}
}

// An agent of which nothing can be read does not keep others from starting, and can
// be removed; what it held counts as spent above.
func TestDamagedAgent(t *testing.T) {
	d := startDaemon(t, "--compute", "slow=exec:cat >/dev/null; sleep 600")
	r := d.root()
	r.mkdir("accounts", "team")
	for _, name := range []string{"alice", "bob", "carol"} {
		r.mkdir("agents", name)
		r.write("agents/"+name+"/budget/limits", `{"parent":"team","per_day_microusd":1000000}`)
		r.ask("agents/"+name+"/compute/new", `{"provider":"slow","messages":[{"role":"user","content":"x"}],"max_cost_microusd":70}`)
	}
	d.kill()
	d.spoil("data/2/", "agents/carol") // the account has 1
	if status, out := d.offline(nil, "fsck", d.data()); status != 1 || !strings.Contains(out, "agents/alice/") {
		t.Errorf("fsck: status %d, and it said:\n%s", status, out)
	}
	d.start()
	r = d.root()
	equal(t, "agents", r.list("agents"), "alice bob carol")
	if text, err := r.tryRead("agents/alice/status"); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("the status of what is damaged: %q, %v", text, err)
	}
	has(t, "bob", r.read("agents/bob/compute/jobs/1/status"), "interrupted")
	has(t, "the account", r.read("accounts/team/usage"), `"held_microusd":140,"holds":2`)
	for _, name := range []string{"alice", "carol"} {
		r.remove("agents/" + name)
	}
	equal(t, "agents", r.list("agents"), "bob")
	has(t, "the account", r.read("accounts/team/usage"), `"held_microusd":0,"holds":0`, `"spent_microusd":140`)
	r.mkdir("agents", "alice")
	has(t, "a new alice", r.read("agents/alice/status"), `"state":"active"`)
	d.stop()
	d.start()
	equal(t, "agents", d.root().list("agents"), "alice bob")
}
