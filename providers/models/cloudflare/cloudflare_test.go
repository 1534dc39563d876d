package cloudflare

import (
	"testing"

	"agent9/conformance"
	"agent9/fsys"
	"agent9/providers/models"
	"agent9/providers/models/httpapi"
)

func TestAPI(t *testing.T) {
	const both = `"message":{"role":"assistant","content":"Hello","tool_calls":[{"id":"call_0","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},"finish_reason":"tool_calls"}]`
	const need = "cloudflare needs a model, such as @cf/meta/llama-3.1-8b-instruct"
	text := []models.Kind{models.Chat, models.Complete}
	conformance.TestModelAPI(t, conformance.ModelAPI{
		New:  func(c httpapi.Config) (models.Provider, error) { return New(c) },
		Base: BaseURL + "/accounts/acc1/ai", Account: "acc1", Script: script, Real: "CLOUDFLARE", RealModel: llama,
		Compute: conformance.Compute{
			Model: llama, Say: "hello wörld 😀", Want: "hello wörld 😀", Embed: "@cf/baai/bge-base-en-v1.5", Slow: "slow",
			Fail:     `status 429 {"result":null,"success":false,"errors":[{"code":3036,"message":"You have used up your daily free allocation"}],"messages":[]}`,
			FailCode: fsys.Busy, FailReason: "daily free allocation",
		},
		Models: []models.Model{
			{Name: llama, Context: 24000, Kinds: text, Price: &models.Price{Input: 293_000, Cached: 293_000, Output: 2_253_000}},
			{Name: "@cf/new/model", Kinds: text, Price: &models.Price{Input: 17_124, Cached: 17_124, Output: 2_000_000}},
			{Name: "@cf/black-forest-labs/flux-1-schnell", Kinds: []models.Kind{models.Image}},
		},
		Sent: []conformance.ModelSent{
			{Kind: "chat", Body: `{"model":"` + llama + `","messages":[{"role":"user","content":"hi"}],"max_completion_tokens":5,"stream_options":{},"seed":1}`, Want: `{"messages":[{"role":"user","content":"hi"}],"seed":1,"max_tokens":5,"stream":true}`},
			{Kind: "complete", Body: `{"model":"` + llama + `","prompt":"hi"}`, Want: `{"prompt":"hi","stream":true}`},
			{Kind: "embeddings", Body: `{"model":"@cf/baai/bge-base-en-v1.5","input":["a"]}`, Want: `{"text":["a"]}`},
			{Kind: "image", Body: `{"model":"@cf/black-forest-labs/flux-1-schnell","prompt":"cat","steps":4,"n":1,"size":"auto"}`, Want: `{"prompt":"cat","steps":4}`},
			{Kind: "image", Body: `{"model":"@cf/stabilityai/sdxl","prompt":"cat","size":"512x256"}`, Want: `{"prompt":"cat","width":512,"height":256}`},
			{Body: `{"messages":[{"role":"user","content":"hi"}]}`, Reason: need},
			{Body: `{"model":"../../../user","messages":[{"role":"user","content":"hi"}]}`, Reason: need},
			{Body: `{"model":"a?b","messages":[{"role":"user","content":"hi"}]}`, Reason: need},
			{Body: `{"model":"a/../b","messages":[{"role":"user","content":"hi"}]}`, Reason: need},
			{Body: `{"model":"m","messages":[{"role":"user","content":"a"}],"n":2}`, Reason: "cloudflare gives one answer to a request; leave out n"},
			{Kind: "image", Body: `{"model":"m","prompt":"a","n":2}`, Reason: "cloudflare gives one picture to a request; leave out n"},
			{Kind: "image", Body: `{"model":"m","prompt":"a","size":"big"}`, Reason: "size must be a string such as 1024x768"},
		},
		// Both forms of answers, in pieces and whole, say the same.
		Answers: []conformance.ModelAnswer{
			{Name: "own", Say: `events {"response":"Hel"}` + "\n" + `{"response":"lo","tool_calls":[{"name":"f","arguments":{"a":1}}]}` + "\n" + usage + "\n[DONE]", Text: "Hello", Finish: "tool_calls", Result: both, Usage: models.Usage{Input: 12, Output: 9}},
			{Name: "OpenAI's", Say: `events {"choices":[{"index":0,"delta":{"role":"assistant","content":"Hel"}}]}` + "\n" + `{"choices":[{"index":0,"delta":{"content":"lo","tool_calls":[{"index":0,"id":"call_0","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]}}]}` + "\n" +
				`{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n" + `{"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":9,"total_tokens":21}}` + "\n[DONE]", Text: "Hello", Finish: "tool_calls", Result: both, Usage: models.Usage{Input: 12, Output: 9}},
			{Name: "own, whole", Say: `whole {"result":{"response":"Hello","tool_calls":[{"name":"f","arguments":{"a":1}}],"usage":{"prompt_tokens":12,"completion_tokens":9}},"success":true,"errors":[]}`, Text: "Hello", Finish: "tool_calls", Result: both, Usage: models.Usage{Input: 12, Output: 9}},
			{Name: "OpenAI's, whole", Say: `whole {"result":{"choices":[{"index":0,"message":{"role":"assistant","content":"Hello","tool_calls":[{"id":"call_0","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":12,"completion_tokens":9}},"success":true}`, Text: "Hello", Finish: "tool_calls", Result: both, Usage: models.Usage{Input: 12, Output: 9}},
			{Name: "JSON asked for", Say: `whole {"result":{"response":{"a": 1}},"success":true}`, Text: `{"a": 1}`, Finish: "stop"},
			{Kind: "embeddings", Body: `{"model":"@cf/baai/bge-base-en-v1.5","input":["a"]}`, Result: `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.01,-0.02]}],"model":"@cf/baai/bge-base-en-v1.5","usage":{"prompt_tokens":2,"total_tokens":2}}`, Type: ""},
			{Kind: "image", Body: `{"model":"@cf/black-forest-labs/flux-1-schnell","prompt":"cat","steps":4,"n":1,"size":"auto"}`, Result: png, Type: "image/png"},
			{Kind: "image", Body: `{"model":"@cf/stabilityai/sdxl","prompt":"cat","size":"512x256"}`, Result: png, Type: "image/png"},
		},
		Refusals: []conformance.ModelRefusal{
			conformance.Refused(`status 400 {"success":false,"errors":[{"code":5007,"message":"No such model @cf/x or task"}]}`, fsys.NotExist, "the server says: No such model @cf/x or task"),
			conformance.Refused(`status 401 {"success":false,"errors":[{"code":10000,"message":"Authentication error k-secret-0123456789"}]}`, fsys.Unavailable, "the key was refused; see TEST_API_KEY"),
			conformance.Refused(`status 408 {"success":false,"errors":[{"code":3007,"message":"Request timeout"}]}`, fsys.Timeout, "the server says: Request timeout"),
			conformance.Refused(`status 400 {"errors":[{"code":5006,"message":"Error: required properties k-secret-0123456789"}]}`, fsys.Invalid, "the server says: Error: required properties [secret]"),
			conformance.Refused(`events {"response":"a"}`+"\n"+`{"errors":[{"code":3040,"message":"out of capacity"}]}`, fsys.Unavailable, "the server broke off: out of capacity"),
			conformance.Refused(`events {"response":"a"}`, fsys.Unavailable, "the server ended the answer in the middle"),
			conformance.Refused(`whole {"success":false,"errors":[{"message":"no"}]}`, fsys.Unavailable, "the server broke off: no"),
		},
	})
}

func TestConfig(t *testing.T) {
	p, err := New(Config{Account: "023e"})
	if err != nil || p.Info().Target != BaseURL+"/accounts/023e/ai" || p.Info().Free {
		t.Errorf("got %+v, %v", p, err)
	}
	for _, c := range []Config{{}, {Account: "a/b"}, {Account: "a", BaseURL: "x"}} {
		if _, err := New(c); fsys.CodeOf(err) != fsys.Invalid {
			t.Errorf("%+v: got %v", c, err)
		}
	}
}
