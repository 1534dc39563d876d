package main

import (
	"strings"
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
	has(t, "the result of what expired", alice.read("compute/jobs/"+job+"/result"), "the approval was not given by")

	alice.write("budget/limits", `{"total_microusd": 1000, "approval_threshold_microusd": 100}`)
	job = alice.ask("compute/new", waitingJob)
	alice.write("ctl", "stop")
	has(t, "a job of a stopped agent", alice.read("compute/jobs/"+job+"/status"), `"state":"cancelled"`)
	has(t, "usage", alice.read("budget/usage"), `"held_microusd":0,"holds":0`)
	if trajectory := alice.tail("logs/trajectory"); strings.Count(trajectory, `"event":"approval.`) != 6 {
		t.Errorf("the approvals' events are not three times two:\n%s", trajectory)
	}
}
