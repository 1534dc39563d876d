package isolation

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"agent9/conformance/daemon"
	"agent9/fsys"
)

// Agents under a team under an organisation.
func TestAccounts(t *testing.T) {
	d, r, alice := daemon.OneAgent(t)
	r.Mkdir("agents", "bob")
	bob := d.At("/agents/bob")
	events := r.Begin(r.Open("events", fsys.Read))
	r.Mkdir("accounts", "org")
	events.Ends(t)
	daemon.Has(t, "events", events.Text, `{"account":"org",`, `"event":"account.created"}`)
	r.Mkdir("accounts", "team")
	daemon.Refused(t, "mkdir again", r.TryMkdir("accounts", "team"), fsys.Exist)
	daemon.Refused(t, "a bad name", r.TryMkdir("accounts", "a b"), fsys.Invalid)
	daemon.Equal(t, "accounts", r.List("accounts"), "org team")
	daemon.Equal(t, "an account", r.List("accounts/team"), "limits usage ledger")

	daemon.Refused(t, "no such parent", alice.TryWrite("budget/limits", `{"parent":"none"}`), fsys.Invalid, "mkdir accounts/none")
	alice.Write("budget/limits", `{"parent":"team"}`)
	bob.Write("budget/limits", `{"parent":"team"}`)
	r.Write("accounts/team/limits", `{"parent":"org"}`)
	daemon.Refused(t, "a cycle", r.TryWrite("accounts/org/limits", `{"parent":"team"}`), fsys.Invalid, "is its own ancestor")
	r.Write("accounts/org/limits", `{"total_microusd":1000,"approval_threshold_microusd":900}`)

	alice.Ask("compute/new", `{"messages":[{"role":"user","content":"x"}],"max_cost_microusd":950}`)
	for _, account := range []string{"org", "team"} {
		daemon.Has(t, account, r.Read("accounts/"+account+"/usage"), `"held_microusd":950,"holds":1`)
		daemon.Has(t, account, r.Tail("accounts/"+account+"/ledger"), `"kind":"hold","hold":"1","account":"alice","max_microusd":950,"what":"compute job 1"`)
	}
	daemon.Refused(t, "what the organisation has no money for", bob.TryWrite("compute/new", `{"messages":[{"role":"user","content":"x"}],"max_cost_microusd":51}`),
		fsys.Exhausted, "$0.00005 is left in total in account org")
	daemon.Has(t, "what bob holds", bob.Read("budget/usage"), `"held_microusd":0,"holds":0`)

	d.Kill()
	d.Start()
	r, alice = d.Root(), d.At("/agents/alice")
	daemon.Equal(t, "accounts after kill -9", r.List("accounts"), "org team")
	daemon.Has(t, "what waits for the organisation's threshold", alice.Read("approvals/1"), `"threshold_microusd":900,"account":"org"`)
	daemon.Has(t, "org", r.Read("accounts/org/usage"), `"held_microusd":950,"holds":1`)

	daemon.Refused(t, "rmdir of org", r.TryRemove("accounts/org"), fsys.Busy, "accounts/team has this account above it")
	daemon.Refused(t, "rmdir of team", r.TryRemove("accounts/team"), fsys.Busy, "agents/alice has this account above it")
	alice.Write("budget/limits", `{}`)
	r.Write("agents/bob/ctl", "stop")
	r.Remove("agents/bob")
	daemon.Refused(t, "rmdir of team, which holds", r.TryRemove("accounts/team"), fsys.Busy, "1 holds of account team are open")
	alice.Write("approvals/1", "deny")
	for _, account := range []string{"org", "team"} {
		daemon.Has(t, account, r.Read("accounts/"+account+"/usage"), `"held_microusd":0,"holds":0`)
	}
	team := r.Open("accounts/team/limits", fsys.Read|fsys.Write)
	r.Remove("accounts/team")
	if _, err := fsys.WriteAt(daemon.Within(t), team, []byte(`{"parent":"org"}`), 0); fsys.CodeOf(err) != fsys.NotExist {
		t.Errorf("writing the limits of what is gone: %v", err)
	}
	r.Remove("accounts/org")
	daemon.Equal(t, "accounts", r.List("accounts"), "")
	r.Mkdir("accounts", "team")
	if ledger := r.Tail("accounts/team/ledger"); strings.Contains(ledger, "hold") {
		t.Errorf("a new account has the ledger of an old one:\n%s", ledger)
	}
	d.Kill()
	d.Start()
	daemon.Equal(t, "accounts after another kill -9", d.Root().List("accounts"), "team")
}

// Whoever shows what is left shows what the agent can really spend now.
func TestLeftIsWhatCanBeSpent(t *testing.T) {
	d, r, alice := daemon.OneAgent(t)
	r.Mkdir("accounts", "team")
	alice.Write("budget/limits", `{"per_day_microusd":9000000,"parent":"team"}`)
	for _, row := range []struct {
		limit, left string
		micros      string
	}{{`{"total_microusd":1000}`, "$0.001", "1000"}, {`{"total_microusd":0}`, "$0.00", "0"}} {
		r.Write("accounts/team/limits", row.limit)
		for _, args := range [][]string{{"list"}, {"status", "alice"}, {"info", "alice"}, {"top", "--once"}, {"budget", "alice"}} {
			out, _ := daemon.Ctl(t, "unix:"+d.Sock(), "", args...)
			if !regexp.MustCompile(`(?m)^(left +|alice.* )` + regexp.QuoteMeta(row.left) + `($| )`).MatchString(out) {
				t.Errorf("with %s above it, agentctl %q does not say that %s is left:\n%s", row.limit, args, row.left, out)
			}
		}
		for _, file := range []string{"status", "budget/usage"} {
			daemon.Has(t, file, alice.Read(file), `"left_microusd":`+row.micros)
		}
	}
	r.Write("accounts/team/limits", `{"total_microusd":1000,"approval_threshold_microusd":1}`)
	alice.Ask("compute/new", `{"messages":[{"role":"user","content":"x"}],"max_cost_microusd":950}`)
	r.Write("accounts/team/limits", `{"total_microusd":100}`)
	for _, args := range [][]string{{"status", "alice"}, {"budget", "alice"}} {
		out, _ := daemon.Ctl(t, "unix:"+d.Sock(), "", args...)
		daemon.Has(t, args[0], out, "-$0.00085: overdrawn")
	}
}

// What an agent still holds when it is removed is not held for ever.
func TestRemovedAgentHoldsNothing(t *testing.T) {
	_, r, alice := daemon.OneAgent(t)
	r.Mkdir("accounts", "team")
	alice.Write("budget/limits", `{"parent":"team","approval_threshold_microusd":10}`)
	alice.Ask("compute/new", `{"messages":[{"role":"user","content":"x"}],"max_cost_microusd":950}`)
	daemon.Has(t, "team", r.Read("accounts/team/usage"), `"held_microusd":950,"holds":1`)
	alice.Write("ctl", "stop")
	r.Remove("agents/alice")
	daemon.Has(t, "team", r.Read("accounts/team/usage"), `"held_microusd":0,"holds":0`)
	r.Remove("accounts/team")
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
	_, r, alice := daemon.OneAgent(t)
	for range 20 {
		mkdir := func() error { return r.TryMkdir("accounts", "a") }
		daemon.Equal(t, "made", atOnce(t, []fsys.Code{fsys.Exist}, mkdir, mkdir, mkdir), 1)
		r.Mkdir("accounts", "b")
		daemon.Equal(t, "parents of each other", atOnce(t, []fsys.Code{fsys.Invalid},
			func() error { return r.TryWrite("accounts/a/limits", `{"parent":"b"}`) },
			func() error { return r.TryWrite("accounts/b/limits", `{"parent":"a"}`) }), 1)
		r.Write("accounts/a/limits", `{}`)
		r.Write("accounts/b/limits", `{}`)
		daemon.Equal(t, "removed or above", atOnce(t, []fsys.Code{fsys.Invalid, fsys.Busy},
			func() error { return alice.TryWrite("budget/limits", `{"parent":"a"}`) },
			func() error { return r.TryRemove("accounts/a") }), 1)
		alice.Write("budget/limits", `{}`)
		remove := func() error { return r.TryRemove("accounts/b") }
		daemon.Equal(t, "removed", atOnce(t, []fsys.Code{fsys.NotExist}, remove, remove), 1)
		if r.List("accounts") != "" {
			r.Remove("accounts/a")
		}
	}
}
