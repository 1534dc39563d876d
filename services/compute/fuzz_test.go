package compute

import (
	"testing"

	"agent9/conformance/strict"
)

func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		"hello", "", " \n", `{"messages":[{"role":"user","content":"hi"}],"max_cost_microusd":5,"timeout_ms":10}`,
		`{"kind":"embeddings","input":["a","b"],"idempotency_key":"k"}`, `{"prompt":"x","n":3,"model":null}`,
		`{"messages":[]}}`, `{"messages":[]} {}`, `[1]`, `{"a":1,"a":2}`, `{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		sub, ok := strict.Request(t, in, parseSubmission)
		if ok && (sub.hash == "" || sub.timeout < 0 || sub.maxCost != nil && *sub.maxCost < 0 || sub.req.Choices < 1 || sub.req.MaxOutput < 0) {
			t.Fatalf("%q is read as %+v", in, sub)
		}
	})
}

func FuzzPolicy(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"allow_models":["gpt-*"],"block_models":["["]}`, `{"prices":{"x":{"input_microusd":5}},"prefer":"cost"}`,
		`{"fallback":[{"provider":"a"}],"max_concurrent":3}`, `null`, `{}}`, `{} {}`, `{"keep_results":"7d"}`, `[]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if p, ok := strict.Object(t, in, parsePolicy); ok && p.check() != nil {
			t.Fatalf("%q is a policy that does not hold: %+v", in, p)
		}
	})
}
