package data

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"agent9/conformance/daemon"
	"agent9/fsys"
	"agent9/services/bundle"
	"agent9/store"
)

// forged is the bundle b with other records of a part: what change does to each key
// and value, and more.
func forged(t *testing.T, b []byte, part string, change func(key, value string) string, more ...store.Pair) []byte {
	t.Helper()
	in, err := bundle.Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	c := bundle.Contents{Agent9: in.Agent9, Name: in.Name, Pubkey: in.Pubkey}
	for _, p := range in.Parts() {
		records := map[string][]byte{}
		for pair, err := range in.Records(p) {
			if err != nil {
				t.Fatal(err)
			}
			if p == part && change != nil {
				pair.Value = []byte(change(pair.Key, string(pair.Value)))
			}
			records[pair.Key] = pair.Value
		}
		if p == part {
			for _, pair := range more {
				records[pair.Key] = pair.Value
			}
		}
		c.Parts = append(c.Parts, bundle.Part{Name: p, Records: func(yield func(store.Pair, error) bool) {
			for _, key := range slices.Sorted(maps.Keys(records)) {
				if !yield(store.Pair{Key: key, Value: records[key]}, nil) {
					return
				}
			}
		}})
	}
	var out bytes.Buffer
	if err := bundle.Write(&out, c); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// A bundle that somebody made brings nothing in that an agent cannot have: it is
// refused, and leaves nothing, or what is wrong is put right.
func TestImportHostile(t *testing.T) {
	daemon.HelperFor(t)
	d := daemon.Start(t, "--unsafe-host-containers", "--compute", "quick=exec:cat >/dev/null; echo hi")
	r := d.Root()
	r.Mkdir("agents", "src")
	r.Ask("agents/src/compute/new", `{"provider":"quick","messages":[{"role":"user","content":"x"}],"max_cost_microusd":70}`)
	r.Read("agents/src/compute/jobs/1/result")
	r.Ask("agents/src/containers/new", `{"keep":true,"commands":["true"]}`)
	r.Read("agents/src/containers/sessions/1/exec/" + r.Ask("agents/src/containers/sessions/1/exec/new", "true") + "/result")
	r.Write("agents/src/containers/sessions/1/ctl", "stop")
	r.Read("agents/src/containers/sessions/1/result")
	r.Ask("agents/src/sessions/new", "talk")
	r.Write("agents/src/inbox/new", `{"id":"m1","body":"text"}`)
	r.Write("agents/src/budget/limits", `{"total_microusd":1000000}`)
	b := d.MustCtl(nil, "export", "src")
	d.MustCtl(b, "import", "--new-identity", "--as", "whole")

	in := func(prefix, was, is string) func(key, value string) string {
		return func(key, value string) string {
			if strings.HasPrefix(key, prefix) {
				if !strings.Contains(value, was) {
					t.Errorf("%s has no %s: %s", key, was, value)
				}
				return strings.Replace(value, was, is, 1)
			}
			return value
		}
	}
	for _, c := range []struct {
		name, part string
		change     func(key, value string) string
		more       []store.Pair
		says       string // empty: it is put right
		then       func(at string)
	}{
		{"a job that gives money back", "compute", in("rec/", `"cost":0`, `"cost":-500`), nil, "less than no money", nil},
		{"a job in no state", "compute", in("rec/", `"state":"done"`, `"state":"god"`), nil, "in no state that there is", nil},
		{"a ledger that gives money back", "budget", in("ledger/b/", `"cost_microusd":0`, `"cost_microusd":-9`), nil, "ledger", nil},
		{"a hold below zero", "budget", nil, []store.Pair{{Key: "hold/77", Value: []byte(`{"max":-1000,"what":"x","since":"2026-01-01T00:00:00Z"}`)}}, "an amount of money", nil},
		{"a talk that answers what nobody asked", "sessions", in("rec/", `"prompts":0`, `"prompts":0,"running":7`), nil, "which is not there", nil},
		{"a message in no queue", "inbox", in("i/", `"queue":"q/"`, `"queue":"z/"`), nil, "is in no queue", nil},
		{"books below zero", "budget", func(key, value string) string {
			if key == "totals" {
				return `{"held":-5,"holds":-1,"spent":-1000}`
			}
			return value
		}, nil, "", func(at string) {
			daemon.Has(t, at, r.Read(at+"budget/usage"), `"held_microusd":0,"holds":0`, `"total":{"spent_microusd":0,`)
		}},
		{"a queue without its jobs", "compute", nil, []store.Pair{{Key: "open/0000000000000044"}, {Key: "list/0000000000000045", Value: []byte("ghost")}}, "", func(at string) {
			daemon.Equal(t, at, r.List(at+"compute/jobs"), "1")
		}},
		{"a message that is nowhere", "inbox", nil, []store.Pair{{Key: "q/00000000000zz", Value: []byte("../../x")}, {Key: "counts", Value: []byte(`{"waiting":-5}`)}}, "", func(at string) {
			daemon.Equal(t, at, r.List(at+"inbox"), "new next head taken ctl m1")
			daemon.Has(t, at, r.Read(at+"status"), `"inbox":1,`)
		}},
		{"an exec that runs for ever", "containers", in("exec/0000000000000001/rec/", `"state":"done"`, `"state":"running"`), nil, "", func(at string) {
			daemon.Has(t, at, r.Read(at+"containers/sessions/1/exec/1/status"), `"state":"stopped"`)
		}},
		{"a job with the token of another", "compute", in("rec/", `"state":"done"`, `"token":"0123456789abcdef","state":"done"`), nil, "", func(at string) {
			if b := d.MustCtl(nil, "export", strings.Split(at, "/")[1]); bytes.Contains(b, []byte("0123456789abcdef")) {
				t.Error("the token is there")
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := forged(t, b, c.part, c.change, c.more...)
			if c.says != "" {
				d.SaysNo(bad, c.says, "import", "--new-identity", "--as", "bad")
				daemon.Refused(t, "the agent", daemon.Second(r.TryRead("agents/bad/status")), fsys.NotExist)
				return
			}
			name := "agent" + strings.ReplaceAll(c.name, " ", "-")
			d.MustCtl(bad, "import", "--new-identity", "--as", name)
			c.then("agents/" + name + "/")
		})
	}
	d.Stop()
	d.Clean(d.Data())
}
