package sandboxes

import (
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"agent9/conformance/daemon"
	"agent9/services/host"
)

// spoil changes the last byte of every record, in the database of d that nobody has
// open, whose key has one of parts in it.
func spoil(d *daemon.Daemon, parts ...string) {
	d.T.Helper()
	db, err := bbolt.Open(filepath.Join(d.Data(), host.DatabaseName), 0o600, nil)
	if err != nil {
		d.T.Fatal(err)
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
				d.T.Errorf("the database has no key with %q", part)
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
		d.T.Fatal(err)
	}
}

const (
	keyOne = "0000000000000001"
	keyTwo = "0000000000000002"
)

// What is damaged is listed, says so, is in the way of nothing, and can be removed,
// with the money that belongs to it.
func TestDamagedWork(t *testing.T) {
	daemon.HelperFor(t)
	d := daemon.Start(t, "--unsafe-host-containers", "--compute", "slow=exec:cat >/dev/null; sleep 600", "--compute", "quick=exec:cat >/dev/null; echo hi")
	r := d.Root()
	r.Mkdir("accounts", "team")
	r.Mkdir("agents", "alice")
	const at = "agents/alice/"
	r.Write(at+"budget/limits", `{"parent":"team","per_day_microusd":1000000}`)
	r.Ask(at+"compute/new", `{"provider":"slow","messages":[{"role":"user","content":"x"}],"max_cost_microusd":70}`)
	quick := `{"provider":"quick","messages":[{"role":"user","content":"x"}]}`
	r.Ask(at+"compute/new", quick)
	r.Ask(at+"compute/new", quick)
	for _, n := range []string{"2", "3"} {
		daemon.Has(t, "a job", r.Read(at+"compute/jobs/"+n+"/result"), "hi")
	}
	for range 2 {
		r.Read(at + "containers/sessions/" + r.Ask(at+"containers/new", `{"commands":["echo hi"]}`) + "/result")
		r.Ask(at+"sessions/new", "a talk")
	}
	r.Make(at+"goals", "whole", "a goal")
	r.Make(at+"goals", "broken", "a goal")
	r.Make(at+"goals", "lost", "a goal")
	for _, id := range []string{"m1", "m2"} {
		r.Write(at+"inbox/new", `{"id":"`+id+`","body":"text of `+id+`"}`)
	}
	r.Ask("ctl", "token alice r never")
	d.Kill()
	spoil(d, "/compute/rec/"+keyOne, "/compute/list/"+keyTwo, "/compute/totals", "/compute/end/", "/containers/rec/"+keyOne, "/containers/totals",
		"/sessions/rec/"+keyOne, "/sessions/idle/", "/inbox/q/", "/inbox/counts", "tokens/token/", "/goals/i/0000000000000003", "/goals/d/0000000000000001/lost")
	status, out := d.Offline(nil, "fsck", d.Data())
	for _, want := range []string{"alice/compute/1: ", "alice/containers/1: ", "alice/sessions/1: ", "alice/inbox"} {
		if status != 1 || !strings.Contains(out, want) {
			t.Errorf("fsck: status %d, and it does not say %q:\n%s", status, want, out)
		}
	}
	d.Start()
	r = d.Root()
	damaged := []string{"compute/jobs", "containers/sessions", "sessions"}
	for _, dir := range damaged {
		if got := " " + r.List(at+dir) + " "; !strings.Contains(got, " 1 ") || !strings.Contains(got, " 2 ") {
			t.Errorf("%s lists %s", dir, got)
		}
		daemon.Has(t, dir, r.Read(at+dir+"/1/damaged"), "is damaged")
		if text, err := r.TryRead(at + dir + "/1/status"); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("the status of what is damaged in %s: %q, %v", dir, text, err)
		}
		r.Read(at + dir + "/2/status")
	}
	daemon.Has(t, "the account", r.Read("accounts/team/usage"), `"held_microusd":70,`)
	daemon.Equal(t, "goals", r.List(at+"goals"), "broken lost whole")
	daemon.Equal(t, "a whole goal", r.Read(at+"goals/whole"), "a goal")
	if text, err := r.TryRead(at + "goals/broken"); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a damaged goal: %q, %v", text, err)
	}
	r.Remove(at + "goals/broken")
	r.Remove(at + "goals/lost")
	daemon.Equal(t, "goals", r.List(at+"goals"), "whole")
	daemon.Equal(t, "inbox", r.List(at+"inbox"), "new next head taken ctl m1 m2")
	daemon.Has(t, "next", r.Read(at+"inbox/next"), "text of m1")
	daemon.Has(t, "next", r.Read(at+"inbox/next"), "text of m2")
	for _, dir := range damaged {
		r.Remove(at + dir + "/1")
		if got := " " + r.List(at+dir) + " "; strings.Contains(got, " 1 ") || !strings.Contains(got, " 2 ") {
			t.Errorf("%s then lists %s", dir, got)
		}
	}
	daemon.Has(t, "the events", r.Read(at+"logs/recent"), `"event":"compute.removed","job":1,"reason":"its record was damaged","cost_microusd":70}`,
		`"event":"containers.removed","session":1,"reason":"its record was damaged; its sandbox`, `"event":"sessions.removed","session":1,"reason":"its record was damaged"`)
	for _, account := range []string{"accounts/team/usage", at + "budget/usage"} {
		daemon.Has(t, account, r.Read(account), `"held_microusd":0,"holds":0`, `"spent_microusd":70`)
	}
	r.Read(at + "compute/jobs/" + r.Ask(at+"compute/new", quick) + "/result")
	daemon.Has(t, "usage", r.Read(at+"compute/usage"), `"held_microusd":0,`, `"done":3`)
	r.Remove("tokens/" + r.List("tokens"))
	d.Stop()
	if status, out := d.Offline(nil, "fsck", d.Data()); strings.Contains(out, "jobs/1") || strings.Contains(out, "goals") || strings.Contains(out, "MONEY") {
		t.Errorf("fsck: status %d, and it said:\n%s", status, out)
	}
}

// An agent of which nothing can be read does not keep others from starting, and can
// be removed; what it held counts as spent above.
func TestDamagedAgent(t *testing.T) {
	d := daemon.Start(t, "--compute", "slow=exec:cat >/dev/null; sleep 600")
	r := d.Root()
	r.Mkdir("accounts", "team")
	for _, name := range []string{"alice", "bob", "carol"} {
		r.Mkdir("agents", name)
		r.Write("agents/"+name+"/budget/limits", `{"parent":"team","per_day_microusd":1000000}`)
		r.Ask("agents/"+name+"/compute/new", `{"provider":"slow","messages":[{"role":"user","content":"x"}],"max_cost_microusd":70}`)
	}
	d.Kill()
	spoil(d, "data/2/", "agents/carol") // the account has 1
	if status, out := d.Offline(nil, "fsck", d.Data()); status != 1 || !strings.Contains(out, "agents/alice/") {
		t.Errorf("fsck: status %d, and it said:\n%s", status, out)
	}
	d.Start()
	r = d.Root()
	daemon.Equal(t, "agents", r.List("agents"), "alice bob carol")
	if text, err := r.TryRead("agents/alice/status"); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("the status of what is damaged: %q, %v", text, err)
	}
	daemon.Has(t, "bob", r.Read("agents/bob/compute/jobs/1/status"), "interrupted")
	daemon.Has(t, "the account", r.Read("accounts/team/usage"), `"held_microusd":140,"holds":2`)
	for _, name := range []string{"alice", "carol"} {
		r.Remove("agents/" + name)
	}
	daemon.Equal(t, "agents", r.List("agents"), "bob")
	daemon.Has(t, "the account", r.Read("accounts/team/usage"), `"held_microusd":0,"holds":0`, `"spent_microusd":140`)
	r.Mkdir("agents", "alice")
	daemon.Has(t, "a new alice", r.Read("agents/alice/status"), `"state":"active"`)
	d.Stop()
	d.Start()
	daemon.Equal(t, "agents", d.Root().List("agents"), "alice bob")
}
