package compute_test

import (
	"encoding/json"
	"strings"
	"testing"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/compute"
)

// load measures a body for a model with a context of 1,000 tokens; more is its
// tokens beside the bytes of the body, as far as they are not the context.
func load(t *testing.T, kind compute.Kind, body string, context int) (compute.Request, compute.Load, error) {
	t.Helper()
	b, err := compute.ParseBody([]byte(body))
	if err != nil {
		return compute.Request{}, compute.Load{}, err
	}
	req, err := compute.ParseRequest(kind, b)
	if err != nil {
		return req, compute.Load{}, err
	}
	l, err := req.Load(context, func(name string) bool { return name == "x_free" })
	return req, l, err
}

const hi = `"messages":[{"role":"user","content":"hi"}]`

// What multiplies the cost of a request, or adds to it, is counted.
func TestLoadCountsWhatCosts(t *testing.T) {
	const context = 1_000_000
	for _, c := range []struct {
		kind          compute.Kind
		body          string
		input, output int64 // besides the bytes; with ten tokens for an answer
		percent       int64
	}{
		{"", `{` + hi + `}`, 0, 10, 100},
		{"", `{` + hi + `,"n":3}`, 0, 30, 100},
		{"", `{"prompt":"x","best_of":5}`, 0, 50, 100},
		{"", `{"prompt":"x","best_of":5,"n":7}`, 0, 70, 100},
		{"", `{"prompt":["x","y","z"],"n":2}`, 0, 60, 100},
		{"", `{"prompt":[[1,2],[3]]}`, 0, 20, 100},
		{"", `{"prompt":[1,2,3]}`, 0, 10, 100},
		{"", `{` + hi + `,"service_tier":"priority"}`, 0, 10, 250},
		{"", `{` + hi + `,"service_tier":"flex"}`, 0, 10, 100},
		{"", `{` + hi + `,"inference_geo":"us","speed":"fast"}`, 0, 10, 660},
		{"", `{` + hi + `,"prediction":{"type":"content","content":"abc"}}`, 0, 10 + int64(len(`{"type":"content","content":"abc"}`)), 100},
		{"", `{` + hi + `,"thinking":{"type":"enabled","budget_tokens":500}}`, 0, 510, 100},
		{"", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x/y"}}]}]}`, 50_000, 10, 100},
		{"", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA","detail":"low"}}]}]}`, 3_000 - int64(len("data:image/png;base64,AAAA")), 10, 100},
		{"", `{"messages":[{"role":"user","content":[{"type":"text","text":"x","file_id":"big"}]}]}`, context, 10, 100},
		{"", `{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"url","url":"https://x"}}]}]}`, context, 10, 100},
		{"", `{"messages":[{"role":"assistant","audio":{"id":"a"}},{"role":"user","content":"x"}]}`, context, 10, 100},
		{"", `{` + hi + `,"tools":[{"type":"function","function":{"name":"f"}}]}`, 1_000, 10, 100},
		{"", `{` + hi + `,"tools":[{"type":"web_search_20250305","name":"web_search","max_uses":2}]}`, 1_000 + 2*context, 30, 100},
		{"", `{` + hi + `,"x_free":1}`, 0, 10, 100},
		{"", `{"input":"text"}`, 0, 0, 100},
		{"", `{"input":[{"image":"https://x"}]}`, context, 0, 100},
		{compute.Image, `{"prompt":"x","n":2}`, 0, 64_000, 100},
	} {
		_, l, err := load(t, c.kind, c.body, context)
		if err != nil {
			t.Errorf("%s: %v", c.body, err)
			continue
		}
		want := c.input + int64(len(c.body))
		if c.input == context {
			want = context
		}
		if u := l.Usage(10); u.Input != want || u.Output != c.output || l.Percent != c.percent {
			t.Errorf("%s: got %d and %d tokens at %d %%, want %d, %d, %d", c.body, u.Input, u.Output, l.Percent, want, c.output, c.percent)
		}
	}
	_, l, err := load(t, "", `{`+hi+`,"tools":[{"type":"web_search_20250305","name":"web_search","max_uses":2}]}`, 100)
	if err != nil || l.Fees != 2*compute.SearchFee || l.Most(compute.Price{}, 1) != l.Fees {
		t.Errorf("two searches: %+v, %v", l, err)
	}
}

// What may cost more in a way that is not known here is refused, and so is what
// two readers may understand in two ways.
func TestLoadRefusesWhatIsNotKnown(t *testing.T) {
	for body, reason := range map[string]string{
		`{` + hi + `,"x_future":1}`:                                                "nobody here knows what the field x_future may cost",
		`{` + hi + `,"models":["dear"]}`:                                           "the field models may cost",
		`{` + hi + `,"n_predict":1000000}`:                                         "the field n_predict may cost",
		`{` + hi + `,"Max_Tokens":1000000}`:                                        "the field Max_Tokens may cost",
		`{` + hi + `,"web_search_options":{}}`:                                     "the field web_search_options may cost",
		`{` + hi + `,"service_tier":"turbo"}`:                                      "the field service_tier turbo may cost",
		`{` + hi + `,"tools":[{"type":"code_execution_20250522"}]}`:                "the tool tools.code_execution_20250522 may cost",
		`{` + hi + `,"tools":[{"google_search":{}}]}`:                              "the tool tools. may cost",
		`{` + hi + `,"tools":[{"type":"web_search_20250305"}]}`:                    "max_uses of the tool web_search_20250305",
		`{` + hi + `,"tools":[{"type":"web_search_20250305","max_uses":1e9}]}`:     "max_uses of the tool web_search_20250305",
		`{` + hi + `,"thinking":{"budget_tokens":-5}}`:                             "budget_tokens must be a whole number",
		`{` + hi + `,"best_of":1000}`:                                              "best_of must be a whole number from 1 to 128",
		`{` + hi + `,"max_tokens":0}`:                                              "must be at least 1",
		`{` + hi + `,"max_tokens":-1}`:                                             "must be at least 1",
		`{` + hi + `,"max_tokens":1.5}`:                                            "max_tokens must be a whole number",
		`{` + hi + `,"max_tokens":1e30}`:                                           "max_tokens must be a whole number",
		`{` + hi + `,"max_tokens":1,"max_tokens":9}`:                               "max_tokens is there twice",
		`{"messages":[{"role":"user","content":[{"type":"text","type":"file"}]}]}`: "messages",
	} {
		_, _, err := load(t, "", body, 0)
		if fsys.CodeOf(err) != fsys.Invalid || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: got %v, want %s", body, err, reason)
		}
	}
}

// The most is never less than what any usage within the load comes to, however
// the input was cached.
func TestMostIsTheMost(t *testing.T) {
	price := compute.Price{Input: 1_500_001, Cached: 150_003, Output: 7_300_007, Write: 1_900_009, LongOver: 50, Long: &compute.Price{Input: 3_000_001, Output: 9_000_001, Write: 4_000_001}}
	_, l, err := load(t, "", `{`+hi+`,"n":3,"service_tier":"priority","messages":[{"role":"user","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral","ttl":"1h"}}]}]}`, 0)
	if err == nil {
		t.Fatal("a field twice")
	}
	_, l, err = load(t, "", `{"messages":[{"role":"user","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral","ttl":"1h"}}]}],"n":3,"service_tier":"priority"}`, 0)
	if err != nil || !l.LongCache {
		t.Fatal(l, err)
	}
	p := l.Price(price)
	if p.Write < 2*price.Input*5/2 {
		t.Errorf("a token in the cache for an hour costs %d", p.Write)
	}
	most := l.Most(p, 20)
	for in := range l.Input + 1 {
		for _, cached := range []int64{0, in / 3, in} {
			for _, written := range []int64{0, in / 2, in} {
				if cost := p.Cost(compute.Usage{Input: in, Cached: cached, Written: written, Output: 60}); cost > most {
					t.Fatalf("%d tokens, %d cached, %d written cost %d, and the most is %d", in, cached, written, cost, most)
				}
			}
		}
	}
	_, l, _ = load(t, "", `{`+hi+`,"max_tokens":9223372036854775807,"n":128}`, 0)
	if most := l.Most(price, 9223372036854775807); most < 128*(1<<40)*7 || most > budget.Most {
		t.Errorf("as many tokens as there are cost %d", most)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(`{` + hi + `,"tools":[{}],"thinking":{"budget_tokens":9e99},"best_of":null,"system":{"a":[1]},"prediction":1}`)
	f.Fuzz(func(t *testing.T, body string) {
		_, l, err := load(t, "", body, 0)
		if err != nil {
			return
		}
		u := l.Usage(100)
		if u.Input < 0 || u.Output < 0 || l.Most(compute.Price{Input: 1e6, Output: 1e6}, 100) < 0 {
			t.Errorf("%+v", u)
		}
		var any json.RawMessage
		if json.Unmarshal([]byte(body), &any) != nil {
			t.Error("it is not JSON")
		}
	})
}
