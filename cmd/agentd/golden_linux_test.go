package main

import (
	"agent9/conformance/daemon"
	"fmt"
	"os"
	"strings"
	"testing"
)

// Data directories that an agentd of today has left are opened by every later
// one, which makes of them what today's does, to the byte: what there is of
// agents with jobs, sandboxes, conversations, ticks and approvals in every state
// that outlives a daemon. One directory was left by kill -9, one by an end in
// order.
//
// To freeze them again, with the daemon as it is (two minutes):
//
//	AGENT9_GOLDEN=write go test -count=1 -run TestGolden ./cmd/agentd
//
// To take what is made of them now as what is wanted, after a look at the
// difference:
//
//	AGENT9_GOLDEN=text go test -count=1 -run TestGolden ./cmd/agentd
func TestGolden(t *testing.T) {
	for name, end := range map[string]func(g *golden){
		"killed": func(g *golden) { g.d.Kill() },
		"ended":  func(g *golden) { g.d.Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			if os.Getenv(goldenVar) == "write" {
				freeze(t, name, end)
			}
			g := newGolden(t)
			frozen := g.thaw(name)
			// What is text is made before anything can change it.
			got := map[string]string{}
			status, out := g.d.Offline(nil, "fsck", g.d.Data())
			got["= fsck of what is frozen"] = section(fmt.Sprintf("status %d\n%s", status, strings.ReplaceAll(out, g.d.Data(), "DATA")))
			got["= keys of what is frozen"] = section(g.parts())

			g.begin()
			g.settle()
			for at, text := range g.view(frozen) {
				got[at] = text
			}
			got["= money"] = section(g.money())
			g.d.Stop()
			g.d.Clean(g.d.Data())
			got["= keys"] = section(g.parts())
			g.same(name+".txt", got)

			g.begin()
			g.use()
			g.d.Stop()
			g.d.Clean(g.d.Data())
		})
	}
}

func section(text string) string {
	return "\n\t" + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n\t") + "\n"
}

// same compares what is made of a directory with what it is to be.
func (g *golden) same(file string, got map[string]string) {
	g.Helper()
	if os.Getenv(goldenVar) != "" {
		if err := os.WriteFile(goldenFile(file), []byte(written(got)), 0o644); err != nil {
			g.Fatal(err)
		}
		return
	}
	b, err := os.ReadFile(goldenFile(file))
	if err != nil {
		g.Fatal(err)
	}
	if d := differences(got, parsed(string(b))); d != "" {
		g.Errorf("%s differs from what the daemon makes of it now (-: lacks, +: is new). If that is wanted: %s=text go test -run TestGolden ./cmd/agentd\n%s", goldenFile(file), goldenVar, d)
	}
}

// money is what each account holds and has spent.
func (g *golden) money() (text string) {
	g.Helper()
	for _, dir := range []string{"agents", "accounts"} {
		for name := range strings.FieldsSeq(g.r.List(dir)) {
			at := dir + "/" + name + "/"
			if dir == "agents" {
				at += "budget/"
			}
			is := daemon.Summary(g.T, g.r.Read(at+"usage"))
			daemon.Equal(g.T, "the ledger of "+name, daemon.Replay(g.T, g.r.Tail(at+"ledger")), is)
			text += fmt.Sprintf("%s/%s: %d holds, %d held, %d spent\n", dir, name, is.Holds, is.Held, is.Spent)
		}
	}
	return text
}

// settle waits until the daemon has done what it does by itself.
func (g *golden) settle() {
	g.Helper()
	g.r.Until("fay", "status", `"deadletter":2`)
	g.r.Until("gate", "status", `"inbox":0,`)
	g.r.UntilThat("ned", func() (string, bool) {
		s := g.r.Read("agents/ned/ctl")
		return s, !strings.Contains(s, "soon")
	}, "its alarm has rung")
	g.r.Until("idle", "sessions/1/status", `"state":"ended"`)
	for _, one := range []struct {
		agent, n string
		prompts  []int
	}{
		{"cat", "1", []int{1}}, {"tom", "7", []int{1, 2}},
	} {
		g.r.Transcript("agents/"+one.agent+"/sessions/"+one.n+"/transcript", one.prompts...)
	}
	for agent := range strings.FieldsSeq(g.r.List("agents")) {
		daemon.Eventually(g.T, agent+" rests", func() bool { return g.rests(agent) })
	}
}

// rests reports whether nothing of an agent goes on, but for what waits for the
// operator.
func (g *golden) rests(agent string) bool {
	at := "agents/" + agent + "/"
	status := g.r.Read(at + "status")
	if strings.Contains(status, `"running":"`) {
		return false
	}
	for _, dir := range []string{"compute/jobs/", "containers/sessions/", "sessions/"} {
		for n := range strings.FieldsSeq(g.r.List(at + dir)) {
			s, err := g.r.TryRead(at + dir + n + "/status")
			if err != nil {
				continue // new, or a draft
			}
			waits := strings.Contains(status, `"approvals":1`)
			for _, state := range []string{"queued", "provisioning", "cloning", "running"} {
				if strings.Contains(s, `"state":"`+state+`"`) && !(waits && dir == "sessions/") {
					return false
				}
			}
		}
	}
	return true
}
