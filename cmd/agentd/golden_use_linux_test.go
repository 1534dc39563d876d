package main

import (
	"fmt"
	"strings"

	"agent9/fsys"
)

// use goes on with what was frozen, as users do.
func (g *golden) use() {
	g.Helper()
	for _, use := range []func(g *golden, r *tree){
		(*golden).useJobs, (*golden).useSandboxes, (*golden).useConversations,
		(*golden).useMessages, (*golden).useFiles, (*golden).useAgents,
	} {
		use(g, g.r)
	}
	g.money()
}

func (g *golden) useJobs(r *tree) {
	t, at := g.T, "agents/ann/compute/jobs/"
	for key, want := range map[string]string{"cut": "1", "paid": "3", "submitted": "8"} {
		has(t, "the job of the key "+key, r.read(at+key+"/status"), `"job":`+want+`,`)
	}
	equal(t, "the same request again", g.ask("ann", "done and paid", `,"idempotency_key":"paid"`), "3")
	equal(t, "the key of a job that was swept", g.ask("sam", "old 0", `,"idempotency_key":"old0"`), "1")
	has(t, "a new job", r.read("agents/sam/compute/jobs/"+g.ask("sam", "after all", "")+"/result"), "after all")
	r.write(at+"draft/request", `{"provider":"m","model":"m","max_tokens":100,"messages":[{"role":"user","content":"no draft any more"}]}`)
	has(t, "the draft", r.read(at+"draft/result"), "no draft any more")

	waits := g.ask("ann", "waits", goldenDear+`,"idempotency_key":"waits"`)
	r.write(g.approval("ann", "compute", waits), "approve")
	has(t, "what waited", r.read(at+waits+"/result"), `"content":"waits"`)
	id := strings.TrimSpace(r.list("agents/ann/approvals"))
	r.write("agents/ann/approvals/"+id, "deny not now")
	eventually(t, "nothing is held", func() bool {
		return strings.Contains(r.read("agents/ann/budget/usage"), `"held_microusd":0,"holds":0`)
	})
	(&patient{t: t, r: r}).remove(at + "paid")
	again := g.ask("ann", "done and paid", `,"idempotency_key":"paid"`)
	has(t, "a key that was removed", r.read(at+again+"/result"), "done and paid")
}

func (g *golden) useSandboxes(r *tree) {
	t, at := g.T, "agents/box/containers/sessions/"
	id := strings.TrimSpace(r.list("agents/box/approvals"))
	r.write("agents/box/approvals/"+id, "approve")
	asks := strings.Fields(r.list(at))
	n := ""
	for _, s := range asks {
		if strings.Contains(r.read(at+s+"/status"), `"idempotency_key":"asks"`) {
			n = s
		}
	}
	has(t, "what waited", r.read(at+n+"/stdout"), "approved")
	kept := ""
	for _, s := range asks {
		if strings.Contains(r.read(at+s+"/status"), `"workspace":"w2"`) {
			kept = s
		}
	}
	refused(t, "a command in a sandbox that has ended", r.tryWrite(at+kept+"/exec/new", "echo x"), fsys.Busy)
	equal(t, "the file of a kept sandbox", r.read(at+kept+"/files/own"), "mine\n")
	for _, w := range []string{"w2", "w3"} {
		n = r.ask("agents/box/containers/new", `{"workspace":"`+w+`","max_cost_microusd":2000,"commands":["cat own"]}`)
		equal(t, "the workspace "+w, r.read(at+n+"/stdout"), "mine\n")
		r.read(at + n + "/result")
	}
	n = r.ask("agents/dock/containers/new", `{"keep":true,"max_cost_microusd":2000,"commands":["echo up"]}`)
	at = "agents/dock/containers/sessions/" + n + "/"
	g.look(at+"stdout", "up")
	x := at + "exec/" + r.ask(at+"exec/new", "echo in a new box")
	equal(t, "a command", r.read(x+"/stdout"), "in a new box\n")
	r.write(at+"ctl", "stop")
	r.read(at + "result")
	(&patient{t: t, r: r}).remove(strings.TrimSuffix(at, "/"))
}

func (g *golden) useConversations(r *tree) {
	t := g.T
	answer := func(at string, prompt int, want string) {
		t.Helper()
		lines := r.transcript(at+"/transcript", prompt)
		for _, l := range lines {
			if l.Prompt == prompt && l.final() {
				equal(t, "the answer in "+at, l.Outcome+": "+l.Text, "done: "+want)
			}
		}
	}
	r.write("agents/tom/sessions/3/ctl", "resume")
	answer("agents/tom/sessions/3", 1, "waits for resume")
	for _, n := range []string{"1", "2"} {
		r.write("agents/tom/sessions/"+n+"/ctl", "resume")
		var prompt int
		fmt.Sscan(r.ask("agents/tom/sessions/"+n+"/prompt", "one more"), &prompt)
		answer("agents/tom/sessions/"+n, prompt, "one more")
	}
	r.write("agents/tia/approvals/"+strings.TrimSpace(r.list("agents/tia/approvals")), "approve")
	answer("agents/tia/sessions/1", 1, "may I")
	r.write("agents/tim/ctl", "start")
	answer("agents/tim/sessions/1", 2, "after the start")
	r.ask("agents/tek/sessions/1/prompt", "say it again")
	answer("agents/tek/sessions/1", 2, "an answer of a program\n")
}

func (g *golden) useMessages(r *tree) {
	t, at := g.T, "agents/ina/"
	first := strings.TrimSpace(r.read(at + "inbox/head"))
	equal(t, "what is taken", strings.TrimSpace(r.read(at+"inbox/next")), first)
	var m struct{ ID string }
	parse(t, first, &m)
	r.write(at+"inbox/ctl", "untake "+m.ID)
	equal(t, "what was taken back", strings.TrimSpace(r.read(at+"inbox/head")), first)
	r.write(at+"inbox/new", `{"id":"m1","body":"was here before"}`) // and is known
	hasNot(t, "the inbox", " "+r.list(at+"inbox")+" ", " m1 ")
	r.write(at+"deadletter/ctl", "discard m6")
	hasNot(t, "deadletter", " "+r.list(at+"deadletter")+" ", " m6 ")
	mine := g.d.at(g.token)
	mine.write("inbox/new", "by a token")
	refused(t, "a token that may only read", mine.tryWrite("goals/x", "x"), fsys.NotExist)

	r.write("agents/fay/config", `{"program":{"exec":"true"}}`)
	r.write("agents/fay/deadletter/ctl", "replay all")
	r.until("fay", "status", `"inbox":0,"deadletter":0,`)
	r.write("agents/gil/config", `{"program":{"exec":"true"}}`)
	r.until("gil", "status", `"inbox":0,`)
	noted, ticks := r.read("agents/ned/state/log"), r.ticks("ned")
	r.write("agents/ned/ctl", "tick once more")
	r.ended("ned", len(ticks)+1)
	equal(t, "what it noted", r.read("agents/ned/state/log"), noted+"manual\n")
	r.write("agents/ned/ctl", "cancel 2")
}

func (g *golden) useFiles(r *tree) {
	t := g.T
	for _, agent := range []string{"fil", "imp", "clo"} {
		at := "agents/" + agent + "/"
		equal(t, "a large file", r.read(at+"goals/learn/large"), strings.Repeat("a golden line\n", 30_000))
		r.write(at+"goals/small", "written anew")
		r.make(at+"goals", "new", "new")
		pubkey, signature := strings.TrimSpace(r.read(at+"identity/pubkey")), r.ask(at+"identity/sign", "m")
		equal(t, "a signature of "+agent, r.ask("agents/ann/identity/verify", `{"pubkey":"`+pubkey+`","message":"m","signature":"`+signature+`"}`), "true")
	}
	r.write("agents/fil/secrets/github", canary+"-new")
	r.write("ctl", "create pru support PEER=pro")
	equal(t, "a profile's file", r.read("agents/pru/goals/help"), "pru helps pro.\n")
}

func (g *golden) useAgents(r *tree) {
	t := g.T
	g.imports(`{"name":"moved","new_identity":true}`, r.read("bundles/ann.tar"))
	refused(t, "an account that has some below", r.tryRemove("accounts/crew"), fsys.Busy)
	for _, agent := range []string{"ann", "box", "moved", "tim", "gate"} {
		r.write("agents/"+agent+"/ctl", "stop")
		eventually(t, agent+" can be removed", func() bool { return r.tryRemove("agents/"+agent) == nil })
		hasNot(t, "agents", " "+r.list("agents")+" ", " "+agent+" ")
	}
	r.remove("accounts/crew")
	refused(t, "a token of who is gone", second(attach(t, "unix", g.d.sock(), g.token)), fsys.Permission)
}
