package money

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"agent9/conformance/daemon"
	"agent9/fsys"
)

// What waits for the operator waits on, however the daemon ends.
func TestApprovals(t *testing.T) {
	d, r, alice := daemon.OneAgent(t)
	alice.Write("budget/limits", `{"total_microusd": 1000, "approval_threshold_microusd": 100}`)
	job := alice.Ask("compute/new", daemon.WaitingJob)
	daemon.Equal(t, "approvals", alice.List("approvals"), "1")
	own := d.At(r.Ask("ctl", "token alice"))
	daemon.Has(t, "what the agent sees of it", own.Read("approvals/1"), `"id":"1","service":"compute","job":1,`, `"max_microusd":500,"threshold_microusd":100,`, `"by":"operator"`)
	daemon.Refused(t, "the agent's own approval", own.TryWrite("approvals/1", "approve"), fsys.Permission)
	daemon.Has(t, "status", alice.Read("status"), `"approvals":1`)

	d.Kill()
	d.Start()
	alice = d.At("/agents/alice")
	daemon.Has(t, "status after kill -9", alice.Read("compute/jobs/"+job+"/status"), `"state":"awaiting-approval"`, `"held_microusd":500`)
	d.Signal(syscall.SIGTERM)
	d.Ends(daemon.Limit)
	d.Start()
	r, alice = d.Root(), d.At("/agents/alice")
	events := r.Begin(r.Open("events", fsys.Read))
	result := alice.Begin(alice.Open("compute/jobs/"+job+"/result", fsys.Read))
	result.Waits(t)
	alice.Write("approvals/1", "approve")
	result.Ends(t)
	daemon.Has(t, "the result", result.Text, `"content":"hi"`)
	events.Ends(t)
	daemon.Has(t, "the operator's events", events.Text, `"agent":"alice"`, "approval.approved")
	daemon.Refused(t, "a second decision", alice.TryWrite("approvals/1", "deny"), fsys.NotExist)

	alice.Write("budget/limits", `{"total_microusd": 1000, "approval_threshold_microusd": 100, "approval_expires_ms": 300}`)
	job = alice.Ask("compute/new", daemon.WaitingJob)
	d.Kill()
	d.Start()
	alice = d.At("/agents/alice")
	daemon.Has(t, "the result of what expired", alice.Read("compute/jobs/"+job+"/result"), "no approval was given by")

	alice.Write("budget/limits", `{"total_microusd": 1000, "approval_threshold_microusd": 100}`)
	job = alice.Ask("compute/new", daemon.WaitingJob)
	alice.Write("ctl", "stop")
	daemon.Has(t, "a job of a stopped agent", alice.Read("compute/jobs/"+job+"/status"), `"state":"cancelled"`)
	daemon.Has(t, "usage", alice.Read("budget/usage"), `"held_microusd":0,"holds":0`)
	if trajectory := alice.Tail("logs/trajectory"); strings.Count(trajectory, `"event":"approval.`) != 6 {
		t.Errorf("the approvals' events are not three times two:\n%s", trajectory)
	}
}

// Killed while the operator decides, each decision was made or was not: what
// waits has its approval and its money, and what was denied never runs.
func TestKilledWhileDeciding(t *testing.T) {
	const jobs, before = 40, 12
	m := newMarket(t)
	m.till.Shut(false)
	r, alice := m.d.Root(), m.d.At("/agents/alice")
	r.Write("accounts/team/limits", `{"approval_threshold_microusd":0}`)
	for _, c := range m.clients[:jobs] {
		alice.Ask("compute/new", fmt.Sprintf(`{"provider":"m","model":"m","stream":false,"max_cost_microusd":%d,"idempotency_key":"%s","messages":[{"role":"user","content":"%[2]s"}]}`, daemon.JobCost, c.key()))
	}
	decide := func(killed bool) {
		var all sync.WaitGroup
		var decided atomic.Int32
		for i, id := range strings.Fields(alice.List("approvals")) {
			all.Go(func() {
				err := alice.TryWrite("approvals/"+id, []string{"approve", "deny"}[i%2])
				if err != nil && !killed {
					t.Errorf("approval %s: %v", id, err)
				}
				if err == nil && decided.Add(1) == before && killed {
					m.d.Cmd.Process.Kill()
				}
			})
		}
		all.Wait()
	}
	decide(true)
	m.d.Kill()
	m.d.Start()
	r, alice = m.d.Root(), m.d.At("/agents/alice")
	check := func() (waiting int) {
		_, runs := m.till.Came()
		paid := 0
		for _, c := range m.clients[:jobs] {
			status := alice.Read("compute/jobs/" + c.key() + "/status")
			n := runs[c.key()]
			switch {
			case strings.Contains(status, `"state":"awaiting-approval"`) && n == 0:
				waiting++
			case strings.Contains(status, "denied by operator") && n == 0:
			case strings.Contains(status, `"interrupted"`) && strings.Contains(status, `"cost_microusd":0`) && n == 0:
			case strings.Contains(status, `"interrupted"`) && n <= 1, strings.Contains(status, `"state":"done"`) && n == 1:
				paid++
			default:
				t.Errorf("%s ran %d times and is %s", c.key(), n, status)
			}
		}
		daemon.Equal(t, "approvals", len(strings.Fields(alice.List("approvals"))), waiting)
		for _, account := range []string{"agents/alice/budget", "accounts/team"} {
			usage := r.Read(account + "/usage")
			daemon.Equal(t, "the ledger of "+account, daemon.Replay(t, r.Tail(account+"/ledger")), daemon.Summary(t, usage))
			daemon.Equal(t, account, daemon.Summary(t, usage), daemon.Sums{Holds: waiting, Held: waiting * daemon.JobCost, Spent: paid * daemon.JobCost})
		}
		return waiting
	}
	if waiting := check(); waiting > jobs-before {
		t.Errorf("%d wait, of %d of which %d were decided", waiting, jobs, before)
	}
	decide(false)
	for _, c := range m.clients[:jobs] {
		alice.Read("compute/jobs/" + c.key() + "/result")
	}
	daemon.Equal(t, "what waits in the end", check(), 0)
}
