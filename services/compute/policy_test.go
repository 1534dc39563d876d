package compute_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/fsys/fstest"
	"agent9/providers/models"
	"agent9/providers/models/fake"
	"agent9/services/compute"
	"agent9/store/mem"
)

func TestPolicyIsChecked(t *testing.T) {
	d := newDesk(t)
	for doc, reason := range map[string]string{
		`{"colour":"red"}`:                       `policy: unknown field "colour"`,
		`{"max_concurrent":0}`:                   "policy: max_concurrent is from 1 to 10000, not 0",
		`{"max_queued":-1}`:                      "policy: max_queued is from 0",
		`{"default_max_tokens":0}`:               "policy: default_max_tokens is from 1",
		`{"default_max_cost_microusd":5}`:        `policy: unknown field "default_max_cost_microusd"`,
		`{"allow_fields":["["]}`:                 `policy: "[" is not a pattern for names`,
		`{"default_timeout_ms":0}`:               "policy: default_timeout_ms is from 1",
		`{"block_models":["["]}`:                 `policy: "[" is not a pattern for names`,
		`{"allow_models":[""]}`:                  `policy: "" is not a pattern for names`,
		`{"prices":{"x":{"input_microusd":-5}}}`: "policy: the price of x is from 0",
		`{"prices":{"x":{"input":5}}}`:           `policy: unknown field "input"`,
		`{"default_provider":"none"}`:            "policy: default_provider: there is no provider none; there are: main",
		`{"max_concurrent":2.5}`:                 "policy: max_concurrent: a whole number is expected, not 2.5",
		`{"prefer":"luck"}`:                      `policy: prefer is cost, latency or quality, not "luck"`,
		`{"fallback":[{}]}`:                      "policy: a fallback needs a provider, a model, or both",
		`{"fallback":[{"provider":"none"}]}`:     "policy: fallback: there is no provider none; there are: main",
		`{"idempotency_ttl":"soon"}`:             `policy: "soon" is not a time such as 90m, 24h or 30d`,
		`{"keep_results":"-1h"}`:                 `policy: "-1h" is not a time such as 90m, 24h or 30d`,
		`{"keep_results":"99999999d"}`:           `policy: "99999999d" is not a time such as 90m, 24h or 30d`,
		`{"keep_results":7}`:                     `policy: keep_results: a time such as "90m", "24h" or "30d" is expected, not a number`,
		`{"keep_bytes":-1}`:                      "policy: keep_bytes is from 0 to",
		`{"max_attempts":0}`:                     "policy: max_attempts is from 1 to 32, not 0",
		`{"prices":{"*":{}}}`:                    "policy: the price of * needs input_microusd and output_microusd",
		`{"default_price":{"input_microusd":1}}`: "policy: the price of default_price needs input_microusd and output_microusd",
		`{"prices":{"x":{"input_microusd":1,"output_microusd":1,"long":{"input_microusd":1}}}}`: "policy: the price of x needs input_microusd",
		`{"default_price":{"input_microusd":-1}}`:                                               "policy: default_price is from 0",
		`[]`: "policy: an object is expected, not an array",
	} {
		err := fsys.WriteFile(d.ctx, d.svc.Policy(), "", []byte(doc))
		if fsys.CodeOf(err) != fsys.Invalid || !strings.HasPrefix(fsys.ReasonOf(err), reason) {
			t.Errorf("%s: got %v, want %s", doc, err, reason)
		}
	}
	for in, want := range map[string]string{"90m": "1h30m0s", "48h": "2d", "7h": "7h", "0s": "0s", "30d": "30d", "0d": "0s"} {
		d.policy(`{"keep_results":"` + in + `"}`)
		if got := d.shown(); !strings.Contains(got, `"keep_results":"`+want+`"`) {
			t.Errorf("%s: %s", in, got)
		}
	}
	d.policy(`{"default_model":"fake","max_concurrent":3}`)
	var p compute.Policy
	d.must(json.Unmarshal([]byte(d.shown()), &p))
	if p.DefaultModel != "fake" || p.MaxConcurrent != 3 || p.MaxQueued == 0 {
		t.Errorf("got %+v", p)
	}
	d.stop()
	d.open() // it is durable
	if got := d.shown(); !strings.Contains(got, `"max_concurrent":3`) {
		t.Error(got)
	}
}

func chat(names ...string) *fake.Provider {
	f := &fake.Provider{}
	for _, name := range names {
		f.List = append(f.List, models.Model{Name: name, Context: 1, Price: &models.Price{Input: 1e6, Output: 1e6}})
	}
	return f
}

func TestWhoIsAsked(t *testing.T) {
	vectors := chat("vec")
	vectors.List[0].Kinds = []models.Kind{models.Embeddings}
	vectors.About = models.Info{Driver: "x", Kinds: []models.Kind{models.Chat, models.Embeddings}}
	down := &fake.Provider{Down: fsys.E(fsys.Unavailable, "gone"), List: []models.Model{}}
	d := newDeskOn(t, mem.New(), &fake.Provider{},
		models.NewRunner("b", chat("small", "large:latest", "org/x")),
		models.NewRunner("any", chat("mine", "*")),
		models.NewRunner("vectors", vectors))
	const priced = `{"default_price":{"input_microusd":1,"output_microusd":0}`
	for _, c := range []struct {
		policy, request string
		want            string // provider and model, or the refusal
	}{
		{`{}`, say("x"), "main fake"},
		{`{"default_provider":"b"}`, say("x"), "b small"},
		{`{"default_model":"large"}`, say("x"), "b large"},
		{`{"default_model":"large"}`, say("x", `"provider":"any"`), "any large"},
		{`{"default_model":"large"}`, say("x", `"provider":"vectors"`), "vectors "},
		{`{}`, say("x", `"model":"vec"`, `"provider":"vectors"`), "invalid: the model vec cannot do work of kind chat"},
		{`{"fallback":[{"model":"vec"}]}`, say("x", `"model":"small"`), "b small"},
		{`{}`, say("x", `"model":"org/x:free"`), "b org/x:free"},
		{`{}`, say("x", `"model":"mine"`), "any mine"},
		{`{}`, say("x", `"model":"whatever"`), "any whatever"},
		{`{"block_models":["what*"]}`, say("x", `"model":"whatever"`), "forbidden: the policy does not allow the model whatever"},
		{`{"allow_models":["org/*"]}`, say("x", `"model":"org/x"`), "b org/x"},
		{`{"allow_models":["l*"],"default_provider":"b"}`, say("x"), "b large:latest"},
		{`{"allow_models":["*"],"block_models":["small"]}`, say("x", `"model":"small"`), "forbidden: the policy does not allow the model small"},
		{`{"block_providers":["main"]}`, say("x"), "b small"},
		{`{"block_providers":["main"]}`, say("x", `"provider":"main"`), "forbidden: the policy does not allow the provider main"},
		{`{"allow_providers":["a*"]}`, say("x"), "any mine"},
		{`{"block_providers":["*"]}`, say("x"), "forbidden: the policy allows no provider"},
		{`{"block_providers":["any"]}`, say("x", `"model":"nope"`), "invalid: no provider here has the model nope; there are: fake, small, large:latest, org/x, vec"},
	} {
		d.policy(strings.Replace(strings.Replace(c.policy, "{", priced+",", 1), ",}", "}", 1))
		reply, err := fsys.Converse(d.ctx, d.svc.Root(), "new", []byte(c.request))
		if err != nil {
			if got := fsys.CodeOf(err).String() + ": " + fsys.ReasonOf(err); got != c.want {
				t.Errorf("%s %s: got %s, want %s", c.policy, c.request, got, c.want)
			}
			continue
		}
		s := d.status(strings.TrimSpace(string(reply)))
		if got := s.Provider + " " + s.Model; got != c.want {
			t.Errorf("%s %s: got %s, want %s", c.policy, c.request, got, c.want)
		}
	}
	// Who cannot tell what it has may have it.
	d = newDeskOn(t, mem.New(), &fake.Provider{}, models.NewRunner("down", down))
	d.policy(priced + "}")
	if s := d.status(d.ask(say("x", `"model":"new"`))); s.Provider != "down" || s.Model != "new" {
		t.Errorf("got %+v", s)
	}
}

// A server that is gone does not hold up who looks at the tree.
func TestProvidersFiles(t *testing.T) {
	down := &fake.Provider{Down: fsys.E(fsys.Unavailable, "gone")}
	d := newDeskOn(t, mem.New(), &fake.Provider{}, models.NewRunner("down", down))
	begin := time.Now()
	d.must(fstest.CheckTree(d.ctx, d.svc.Root(), "providers/down/models"))
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("looking at the tree took %v", took)
	}
	for path, want := range map[string]string{
		"providers/main/info":   `{"id":"main","driver":"fake","kinds":["chat","complete"],"free":false}` + "\n",
		"providers/main/models": `{"name":"fake","context":1,"price":{"input_microusd":10000000,"cached_input_microusd":1000000,"output_microusd":10000000}}` + "\n",
		"providers/down/models": "",
	} {
		if got := d.read(path); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	if got := d.read("providers/down/health"); !strings.HasPrefix(got, `{"ok":false,"state":"failing",`) || !strings.HasSuffix(got, `"error":{"code":"provider","reason":"gone"}}`+"\n") {
		t.Errorf("got %s", got)
	}
	if got := d.read("providers/main/health"); !strings.HasPrefix(got, `{"ok":true,"state":"ok","checked":"20`) {
		t.Errorf("got %s", got)
	}
}
