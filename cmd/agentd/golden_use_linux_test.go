package main

import (
	"fmt"
	"strings"

	"agent9/conformance/daemon"
	"agent9/fsys"
)

// use goes on with what was frozen, as users do.
func (g *golden) use() {
	g.Helper()
	for _, use := range []func(g *golden, r *daemon.Tree){
		(*golden).useJobs, (*golden).useSandboxes, (*golden).useConversations,
		(*golden).useMessages, (*golden).useFiles, (*golden).useAgents,
	} {
		use(g, g.r)
	}
	g.money()
}

func (g *golden) useJobs(r *daemon.Tree) {
	t, at := g.T, "agents/ann/compute/jobs/"
	for key, want := range map[string]string{"cut": "1", "paid": "3", "submitted": "8"} {
		daemon.Has(t, "the job of the key "+key, r.Read(at+key+"/status"), `"job":`+want+`,`)
	}
	daemon.Equal(t, "the same request again", g.ask("ann", "done and paid", `,"idempotency_key":"paid"`), "3")
	daemon.Equal(t, "the key of a job that was swept", g.ask("sam", "old 0", `,"idempotency_key":"old0"`), "1")
	daemon.Has(t, "a new job", r.Read("agents/sam/compute/jobs/"+g.ask("sam", "after all", "")+"/result"), "after all")
	r.Write(at+"draft/request", `{"provider":"m","model":"m","max_tokens":100,"messages":[{"role":"user","content":"no draft any more"}]}`)
	daemon.Has(t, "the draft", r.Read(at+"draft/result"), "no draft any more")

	waits := g.ask("ann", "waits", goldenDear+`,"idempotency_key":"waits"`)
	r.Write(g.approval("ann", "compute", waits), "approve")
	daemon.Has(t, "what waited", r.Read(at+waits+"/result"), `"content":"waits"`)
	id := strings.TrimSpace(r.List("agents/ann/approvals"))
	r.Write("agents/ann/approvals/"+id, "deny not now")
	daemon.Eventually(t, "nothing is held", func() bool {
		return strings.Contains(r.Read("agents/ann/budget/usage"), `"held_microusd":0,"holds":0`)
	})
	(&patient{t: t, r: r}).remove(at + "paid")
	again := g.ask("ann", "done and paid", `,"idempotency_key":"paid"`)
	daemon.Has(t, "a key that was removed", r.Read(at+again+"/result"), "done and paid")
}

func (g *golden) useSandboxes(r *daemon.Tree) {
	t, at := g.T, "agents/box/containers/sessions/"
	id := strings.TrimSpace(r.List("agents/box/approvals"))
	r.Write("agents/box/approvals/"+id, "approve")
	asks := strings.Fields(r.List(at))
	n := ""
	for _, s := range asks {
		if strings.Contains(r.Read(at+s+"/status"), `"idempotency_key":"asks"`) {
			n = s
		}
	}
	daemon.Has(t, "what waited", r.Read(at+n+"/stdout"), "approved")
	kept := ""
	for _, s := range asks {
		if strings.Contains(r.Read(at+s+"/status"), `"workspace":"w2"`) {
			kept = s
		}
	}
	daemon.Refused(t, "a command in a sandbox that has ended", r.TryWrite(at+kept+"/exec/new", "echo x"), fsys.Busy)
	daemon.Equal(t, "the file of a kept sandbox", r.Read(at+kept+"/files/own"), "mine\n")
	for _, w := range []string{"w2", "w3"} {
		n = r.Ask("agents/box/containers/new", `{"workspace":"`+w+`","max_cost_microusd":2000,"commands":["cat own"]}`)
		daemon.Equal(t, "the workspace "+w, r.Read(at+n+"/stdout"), "mine\n")
		r.Read(at + n + "/result")
	}
	n = r.Ask("agents/dock/containers/new", `{"keep":true,"max_cost_microusd":2000,"commands":["echo up"]}`)
	at = "agents/dock/containers/sessions/" + n + "/"
	g.look(at+"stdout", "up")
	x := at + "exec/" + r.Ask(at+"exec/new", "echo in a new box")
	daemon.Equal(t, "a command", r.Read(x+"/stdout"), "in a new box\n")
	r.Write(at+"ctl", "stop")
	r.Read(at + "result")
	(&patient{t: t, r: r}).remove(strings.TrimSuffix(at, "/"))
}

func (g *golden) useConversations(r *daemon.Tree) {
	t := g.T
	answer := func(at string, prompt int, want string) {
		t.Helper()
		lines := r.Transcript(at+"/transcript", prompt)
		for _, l := range lines {
			if l.Prompt == prompt && l.Final() {
				daemon.Equal(t, "the answer in "+at, l.Outcome+": "+l.Text, "done: "+want)
			}
		}
	}
	r.Write("agents/tom/sessions/3/ctl", "resume")
	answer("agents/tom/sessions/3", 1, "waits for resume")
	for _, n := range []string{"1", "2"} {
		r.Write("agents/tom/sessions/"+n+"/ctl", "resume")
		var prompt int
		fmt.Sscan(r.Ask("agents/tom/sessions/"+n+"/prompt", "one more"), &prompt)
		answer("agents/tom/sessions/"+n, prompt, "one more")
	}
	r.Write("agents/tia/approvals/"+strings.TrimSpace(r.List("agents/tia/approvals")), "approve")
	answer("agents/tia/sessions/1", 1, "may I")
	r.Write("agents/tim/ctl", "start")
	answer("agents/tim/sessions/1", 2, "after the start")
	r.Ask("agents/tek/sessions/1/prompt", "say it again")
	answer("agents/tek/sessions/1", 2, "an answer of a program\n")
}

func (g *golden) useMessages(r *daemon.Tree) {
	t, at := g.T, "agents/ina/"
	first := strings.TrimSpace(r.Read(at + "inbox/head"))
	daemon.Equal(t, "what is taken", strings.TrimSpace(r.Read(at+"inbox/next")), first)
	var m struct{ ID string }
	daemon.Parse(t, first, &m)
	r.Write(at+"inbox/ctl", "untake "+m.ID)
	daemon.Equal(t, "what was taken back", strings.TrimSpace(r.Read(at+"inbox/head")), first)
	r.Write(at+"inbox/new", `{"id":"m1","body":"was here before"}`) // and is known
	daemon.HasNot(t, "the inbox", " "+r.List(at+"inbox")+" ", " m1 ")
	r.Write(at+"deadletter/ctl", "discard m6")
	daemon.HasNot(t, "deadletter", " "+r.List(at+"deadletter")+" ", " m6 ")
	mine := g.d.At(g.token)
	mine.Write("inbox/new", "by a token")
	daemon.Refused(t, "a token that may only read", mine.TryWrite("goals/x", "x"), fsys.NotExist)

	r.Write("agents/fay/config", `{"program":{"exec":"true"}}`)
	r.Write("agents/fay/deadletter/ctl", "replay all")
	r.Until("fay", "status", `"inbox":0,"deadletter":0,`)
	r.Write("agents/gil/config", `{"program":{"exec":"true"}}`)
	r.Until("gil", "status", `"inbox":0,`)
	noted, ticks := r.Read("agents/ned/state/log"), r.Ticks("ned")
	r.Write("agents/ned/ctl", "tick once more")
	r.Ended("ned", len(ticks)+1)
	daemon.Equal(t, "what it noted", r.Read("agents/ned/state/log"), noted+"manual\n")
	r.Write("agents/ned/ctl", "cancel 2")
}

func (g *golden) useFiles(r *daemon.Tree) {
	t := g.T
	for _, agent := range []string{"fil", "imp", "clo"} {
		at := "agents/" + agent + "/"
		daemon.Equal(t, "a large file", r.Read(at+"goals/learn/large"), strings.Repeat("a golden line\n", 30_000))
		r.Write(at+"goals/small", "written anew")
		r.Make(at+"goals", "new", "new")
		pubkey, signature := strings.TrimSpace(r.Read(at+"identity/pubkey")), r.Ask(at+"identity/sign", "m")
		daemon.Equal(t, "a signature of "+agent, r.Ask("agents/ann/identity/verify", `{"pubkey":"`+pubkey+`","message":"m","signature":"`+signature+`"}`), "true")
	}
	r.Write("agents/fil/secrets/github", daemon.Canary+"-new")
	r.Write("ctl", "create pru support PEER=pro")
	daemon.Equal(t, "a profile's file", r.Read("agents/pru/goals/help"), "pru helps pro.\n")
}

func (g *golden) useAgents(r *daemon.Tree) {
	t := g.T
	g.imports(`{"name":"moved","new_identity":true}`, r.Read("bundles/ann.tar"))
	daemon.Refused(t, "an account that has some below", r.TryRemove("accounts/crew"), fsys.Busy)
	for _, agent := range []string{"ann", "box", "moved", "tim", "gate"} {
		r.Write("agents/"+agent+"/ctl", "stop")
		daemon.Eventually(t, agent+" can be removed", func() bool { return r.TryRemove("agents/"+agent) == nil })
		daemon.HasNot(t, "agents", " "+r.List("agents")+" ", " "+agent+" ")
	}
	r.Remove("accounts/crew")
	daemon.Refused(t, "a token of who is gone", daemon.Second(daemon.Attach(t, "unix", g.d.Sock(), g.token)), fsys.Permission)
}
