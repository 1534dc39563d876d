package main

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"agent9/fsys"
)

const waitingJob = `{"messages": [{"role": "user", "content": "hi"}], "max_cost_microusd": 500}`

// What waits for the operator waits on, however the daemon ends.
func TestApprovals(t *testing.T) {
	d, r, alice := oneAgent(t)
	alice.write("budget/limits", `{"total_microusd": 1000, "approval_threshold_microusd": 100}`)
	job := alice.ask("compute/new", waitingJob)
	equal(t, "approvals", alice.list("approvals"), "1")
	own := d.at(r.ask("ctl", "token alice"))
	has(t, "what the agent sees of it", own.read("approvals/1"), `"id":"1","service":"compute","job":1,`, `"max_microusd":500,"threshold_microusd":100,`, `"by":"operator"`)
	refused(t, "the agent's own approval", own.tryWrite("approvals/1", "approve"), fsys.Permission)
	has(t, "status", alice.read("status"), `"approvals":1`)

	d.kill()
	d.start()
	alice = d.at("/agents/alice")
	has(t, "status after kill -9", alice.read("compute/jobs/"+job+"/status"), `"state":"awaiting-approval"`, `"held_microusd":500`)
	d.signal(syscall.SIGTERM)
	d.ends(limit)
	d.start()
	r, alice = d.root(), d.at("/agents/alice")
	events := r.begin(r.open("events", fsys.Read))
	result := alice.begin(alice.open("compute/jobs/"+job+"/result", fsys.Read))
	result.waits(t)
	alice.write("approvals/1", "approve")
	result.ends(t)
	has(t, "the result", result.text, `"content":"hi"`)
	events.ends(t)
	has(t, "the operator's events", events.text, `"agent":"alice"`, "approval.approved")
	refused(t, "a second decision", alice.tryWrite("approvals/1", "deny"), fsys.NotExist)

	alice.write("budget/limits", `{"total_microusd": 1000, "approval_threshold_microusd": 100, "approval_expires_ms": 300}`)
	job = alice.ask("compute/new", waitingJob)
	d.kill()
	d.start()
	alice = d.at("/agents/alice")
	has(t, "the result of what expired", alice.read("compute/jobs/"+job+"/result"), "no approval was given by")

	alice.write("budget/limits", `{"total_microusd": 1000, "approval_threshold_microusd": 100}`)
	job = alice.ask("compute/new", waitingJob)
	alice.write("ctl", "stop")
	has(t, "a job of a stopped agent", alice.read("compute/jobs/"+job+"/status"), `"state":"cancelled"`)
	has(t, "usage", alice.read("budget/usage"), `"held_microusd":0,"holds":0`)
	if trajectory := alice.tail("logs/trajectory"); strings.Count(trajectory, `"event":"approval.`) != 6 {
		t.Errorf("the approvals' events are not three times two:\n%s", trajectory)
	}
}

// Killed while the operator decides, each decision was made or was not: what
// waits has its approval and its money, and what was denied never runs.
func TestKilledWhileDeciding(t *testing.T) {
	const jobs, before = 40, 12
	m := newMarket(t)
	m.till.shut(false)
	r, alice := m.d.root(), m.d.at("/agents/alice")
	r.write("accounts/team/limits", `{"approval_threshold_microusd":0}`)
	for _, c := range m.clients[:jobs] {
		alice.ask("compute/new", fmt.Sprintf(`{"provider":"m","model":"m","stream":false,"max_cost_microusd":%d,"idempotency_key":"%s","messages":[{"role":"user","content":"%[2]s"}]}`, jobCost, c.key()))
	}
	decide := func(killed bool) {
		var all sync.WaitGroup
		var decided atomic.Int32
		for i, id := range strings.Fields(alice.list("approvals")) {
			all.Go(func() {
				err := alice.tryWrite("approvals/"+id, []string{"approve", "deny"}[i%2])
				if err != nil && !killed {
					t.Errorf("approval %s: %v", id, err)
				}
				if err == nil && decided.Add(1) == before && killed {
					m.d.cmd.Process.Kill()
				}
			})
		}
		all.Wait()
	}
	decide(true)
	m.d.kill()
	m.d.start()
	r, alice = m.d.root(), m.d.at("/agents/alice")
	check := func() (waiting int) {
		_, runs := m.till.came()
		paid := 0
		for _, c := range m.clients[:jobs] {
			status := alice.read("compute/jobs/" + c.key() + "/status")
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
		equal(t, "approvals", len(strings.Fields(alice.list("approvals"))), waiting)
		for _, account := range []string{"agents/alice/budget", "accounts/team"} {
			usage := r.read(account + "/usage")
			equal(t, "the ledger of "+account, replay(t, r.tail(account+"/ledger")), summary(t, usage))
			equal(t, account, summary(t, usage), sums{waiting, waiting * jobCost, paid * jobCost})
		}
		return waiting
	}
	if waiting := check(); waiting > jobs-before {
		t.Errorf("%d wait, of %d of which %d were decided", waiting, jobs, before)
	}
	decide(false)
	for _, c := range m.clients[:jobs] {
		alice.read("compute/jobs/" + c.key() + "/result")
	}
	equal(t, "what waits in the end", check(), 0)
}
