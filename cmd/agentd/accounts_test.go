package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"agent9/fsys"
)

// Agents under a team under an organisation.
func TestAccounts(t *testing.T) {
	d, r, alice := oneAgent(t)
	r.mkdir("agents", "bob")
	bob := d.at("/agents/bob")
	events := r.begin(r.open("events", fsys.Read))
	r.mkdir("accounts", "org")
	events.ends(t)
	has(t, "events", events.text, `{"account":"org",`, `"event":"account.created"}`)
	r.mkdir("accounts", "team")
	refused(t, "mkdir again", r.tryMkdir("accounts", "team"), fsys.Exist)
	refused(t, "a bad name", r.tryMkdir("accounts", "a b"), fsys.Invalid)
	equal(t, "accounts", r.list("accounts"), "org team")
	equal(t, "an account", r.list("accounts/team"), "limits usage ledger")

	refused(t, "no such parent", alice.tryWrite("budget/limits", `{"parent":"none"}`), fsys.Invalid, "mkdir accounts/none")
	alice.write("budget/limits", `{"parent":"team"}`)
	bob.write("budget/limits", `{"parent":"team"}`)
	r.write("accounts/team/limits", `{"parent":"org"}`)
	refused(t, "a cycle", r.tryWrite("accounts/org/limits", `{"parent":"team"}`), fsys.Invalid, "is its own ancestor")
	r.write("accounts/org/limits", `{"total_microusd":1000,"approval_threshold_microusd":900}`)

	alice.ask("compute/new", `{"messages":[{"role":"user","content":"x"}],"max_cost_microusd":950}`)
	for _, account := range []string{"org", "team"} {
		has(t, account, r.read("accounts/"+account+"/usage"), `"held_microusd":950,"holds":1`)
		has(t, account, r.tail("accounts/"+account+"/ledger"), `"kind":"hold","hold":"1","account":"alice","max_microusd":950,"what":"compute job 1"`)
	}
	refused(t, "what the organisation has no money for", bob.tryWrite("compute/new", `{"messages":[{"role":"user","content":"x"}],"max_cost_microusd":51}`),
		fsys.Exhausted, "$0.00005 is left in total in account org")
	has(t, "what bob holds", bob.read("budget/usage"), `"held_microusd":0,"holds":0`)

	d.kill()
	d.start()
	r, alice = d.root(), d.at("/agents/alice")
	equal(t, "accounts after kill -9", r.list("accounts"), "org team")
	has(t, "what waits for the organisation's threshold", alice.read("approvals/1"), `"threshold_microusd":900,"account":"org"`)
	has(t, "org", r.read("accounts/org/usage"), `"held_microusd":950,"holds":1`)

	refused(t, "rmdir of org", r.tryRemove("accounts/org"), fsys.Busy, "accounts/team has this account above it")
	refused(t, "rmdir of team", r.tryRemove("accounts/team"), fsys.Busy, "agents/alice has this account above it")
	alice.write("budget/limits", `{}`)
	r.write("agents/bob/ctl", "stop")
	r.remove("agents/bob")
	refused(t, "rmdir of team, which holds", r.tryRemove("accounts/team"), fsys.Busy, "1 holds of account team are open")
	alice.write("approvals/1", "deny")
	for _, account := range []string{"org", "team"} {
		has(t, account, r.read("accounts/"+account+"/usage"), `"held_microusd":0,"holds":0`)
	}
	team := r.open("accounts/team/limits", fsys.Read|fsys.Write)
	r.remove("accounts/team")
	if _, err := fsys.WriteAt(within(t), team, []byte(`{"parent":"org"}`), 0); fsys.CodeOf(err) != fsys.NotExist {
		t.Errorf("writing the limits of what is gone: %v", err)
	}
	r.remove("accounts/org")
	equal(t, "accounts", r.list("accounts"), "")
	r.mkdir("accounts", "team")
	if ledger := r.tail("accounts/team/ledger"); strings.Contains(ledger, "hold") {
		t.Errorf("a new account has the ledger of an old one:\n%s", ledger)
	}
	d.kill()
	d.start()
	equal(t, "accounts after another kill -9", d.root().list("accounts"), "team")
}

// Whoever shows what is left shows what the agent can really spend now.
func TestLeftIsWhatCanBeSpent(t *testing.T) {
	d, r, alice := oneAgent(t)
	r.mkdir("accounts", "team")
	alice.write("budget/limits", `{"per_day_microusd":9000000,"parent":"team"}`)
	for _, row := range []struct {
		limit, left string
		micros      string
	}{{`{"total_microusd":1000}`, "$0.001", "1000"}, {`{"total_microusd":0}`, "$0.00", "0"}} {
		r.write("accounts/team/limits", row.limit)
		for _, args := range [][]string{{"list"}, {"status", "alice"}, {"info", "alice"}, {"top", "--once"}, {"budget", "alice"}} {
			out, _ := ctl(t, "unix:"+d.sock(), "", args...)
			if !regexp.MustCompile(`(?m)^(left +|alice.* )` + regexp.QuoteMeta(row.left) + `($| )`).MatchString(out) {
				t.Errorf("with %s above it, agentctl %q does not say that %s is left:\n%s", row.limit, args, row.left, out)
			}
		}
		for _, file := range []string{"status", "budget/usage"} {
			has(t, file, alice.read(file), `"left_microusd":`+row.micros)
		}
	}
	r.write("accounts/team/limits", `{"total_microusd":1000,"approval_threshold_microusd":1}`)
	alice.ask("compute/new", `{"messages":[{"role":"user","content":"x"}],"max_cost_microusd":950}`)
	r.write("accounts/team/limits", `{"total_microusd":100}`)
	for _, args := range [][]string{{"status", "alice"}, {"budget", "alice"}} {
		out, _ := ctl(t, "unix:"+d.sock(), "", args...)
		has(t, args[0], out, "-$0.00085: overdrawn")
	}
}

// What an agent still holds when it is removed is not held for ever.
func TestRemovedAgentHoldsNothing(t *testing.T) {
	_, r, alice := oneAgent(t)
	r.mkdir("accounts", "team")
	alice.write("budget/limits", `{"parent":"team","approval_threshold_microusd":10}`)
	alice.ask("compute/new", `{"messages":[{"role":"user","content":"x"}],"max_cost_microusd":950}`)
	has(t, "team", r.read("accounts/team/usage"), `"held_microusd":950,"holds":1`)
	alice.write("ctl", "stop")
	r.remove("agents/alice")
	has(t, "team", r.read("accounts/team/usage"), `"held_microusd":0,"holds":0`)
	r.remove("accounts/team")
}

// atOnce runs all and returns how many succeeded; the others must have one of
// the codes.
func atOnce(t *testing.T, codes []fsys.Code, all ...func() error) (succeeded int) {
	t.Helper()
	errs := make(chan error, len(all))
	for _, f := range all {
		go func() { errs <- f() }()
	}
	for range all {
		err := <-errs
		switch {
		case err == nil:
			succeeded++
		case !slices.Contains(codes, fsys.CodeOf(err)):
			t.Errorf("got %v, want nothing or %v", err, codes)
		}
	}
	return succeeded
}

// Whoever comes first, there is never an account above that is not there, nor
// one above itself, nor two of a name.
func TestAccountsAtOnce(t *testing.T) {
	_, r, alice := oneAgent(t)
	for range 20 {
		mkdir := func() error { return r.tryMkdir("accounts", "a") }
		equal(t, "made", atOnce(t, []fsys.Code{fsys.Exist}, mkdir, mkdir, mkdir), 1)
		r.mkdir("accounts", "b")
		equal(t, "parents of each other", atOnce(t, []fsys.Code{fsys.Invalid},
			func() error { return r.tryWrite("accounts/a/limits", `{"parent":"b"}`) },
			func() error { return r.tryWrite("accounts/b/limits", `{"parent":"a"}`) }), 1)
		r.write("accounts/a/limits", `{}`)
		r.write("accounts/b/limits", `{}`)
		equal(t, "removed or above", atOnce(t, []fsys.Code{fsys.Invalid, fsys.Busy},
			func() error { return alice.tryWrite("budget/limits", `{"parent":"a"}`) },
			func() error { return r.tryRemove("accounts/a") }), 1)
		alice.write("budget/limits", `{}`)
		remove := func() error { return r.tryRemove("accounts/b") }
		equal(t, "removed", atOnce(t, []fsys.Code{fsys.NotExist}, remove, remove), 1)
		if r.list("accounts") != "" {
			r.remove("accounts/a")
		}
	}
}
