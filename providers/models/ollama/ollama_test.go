package ollama

import (
	"fmt"
	"testing"

	"agent9/conformance"
	"agent9/fsys"
	"agent9/providers/models"
	"agent9/providers/models/httpapi"
)

func TestAPI(t *testing.T) {
	conformance.TestModelAPI(t, conformance.ModelAPI{
		New:  func(c httpapi.Config) (models.Provider, error) { return New(c) },
		Base: BaseURL, Script: script, Real: "OLLAMA",
		Compute: conformance.Compute{
			Model: "tiny", Say: "hello wörld 😀", Want: "hello wörld 😀", Embed: "embed", Slow: "slow",
			Fail: `status 404 {"error":"model 'tiny' not found"}`, FailCode: fsys.NotExist, FailReason: "model 'tiny' not found",
		},
		Models: []models.Model{
			{Name: "tiny:latest", Context: 8192, Kinds: []models.Kind{models.Chat, models.Complete}},
			{Name: "embed:latest", Context: 512, Kinds: []models.Kind{models.Embeddings}},
			{Name: "odd:latest"},
		},
		Sent: []conformance.ModelSent{
			{Body: `{"model":"tiny","messages":[{"role":"developer","content":"s"},{"role":"user","content":"hi"}]}`,
				Want: `{"model":"tiny","options":{},"stream":true,"messages":[{"role":"system","content":"s"},{"role":"user","content":"hi"}]}`},
			{Body: `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAEC"}}]}],"max_tokens":5,"temperature":0.50,"stop":"x","seed":null,"options":{"num_ctx":4096,"temperature":1},"keep_alive":"5m","store":true,"response_format":{"type":"json_object"},"reasoning_effort":"none"}`,
				Want: `{"model":"m","keep_alive":"5m","options":{"temperature":1,"stop":["x"],"num_ctx":4096,"num_predict":5},"stream":true,"format":"json","think":false,"messages":[{"role":"user","content":"hi","images":["AAEC"]}]}`},
			{Body: `{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"7","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}}]},{"role":"tool","tool_call_id":"7","content":"ok"}],"tools":[{"type":"function","function":{"name":"f"}}],"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"object"}}},"think":"high"}`,
				Want: `{"tools":[{"type":"function","function":{"name":"f"}}],"think":"high","options":{},"stream":true,"format":{"type":"object"},"messages":[{"role":"assistant","content":"","tool_calls":[{"id":"7","function":{"name":"f","arguments":{"a":1}}}]},{"role":"tool","content":"ok","tool_name":"f","tool_call_id":"7"}]}`},
			{Body: `{"model":"m","prompt":"Why?","suffix":"!","max_tokens":3}`,
				Want: `{"model":"m","suffix":"!","options":{"num_predict":3},"stream":true,"prompt":"Why?"}`},
			{Body: `{"model":"m","input":["a","b"],"dimensions":2,"encoding_format":"float"}`,
				Want: `{"model":"m","input":["a","b"],"dimensions":2}`},
			{Body: `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x/y.png"}}]}]}`, Reason: "ollama takes pictures as data: URLs only, data:TYPE;base64,TEXT"},
			{Body: `{"messages":[{"role":"user","content":[{"type":"input_audio"}]}]}`, Reason: "ollama takes text and pictures, not input_audio"},
			{Body: `{"messages":[{"role":"assistant","tool_calls":[{"function":{"arguments":"{"}}]}]}`, Reason: "the arguments of the tool call  are not JSON"},
			{Body: `{"messages":[{"role":"user","content":"a"}],"n":2}`, Reason: "ollama gives one answer to a request; leave out n"},
			{Body: `{"messages":[{"role":"user","content":"a"}],"options":7}`, Reason: "options must be an object"},
			{Body: `{"messages":[{"role":"user","content":"a"}],"response_format":{"type":"xml"}}`, Reason: "response_format is text, json_object, or json_schema with a schema"},
			{Body: `{"messages":[{"role":"user","content":"a"}],"reasoning_effort":7}`, Reason: "reasoning_effort must be a string"},
		},
		Answers: []conformance.ModelAnswer{
			{Say: "tools", Finish: "tool_calls", Result: `{"object":"chat.completion","model":"tiny","choices":[{"index":0,"message":{"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[{"id":"call_0","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Tokyo\"}"}},{"id":"call_x","type":"function","function":{"name":"now","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":26,"completion_tokens":282,"total_tokens":308}}`},
			{Body: `{"model":"tiny","prompt":"Why?"}`, Text: "The", Finish: "length", Usage: models.Usage{Input: 26, Output: 259}},
			{Body: `{"model":"embed","input":["a","b"]}`, Usage: models.Usage{Input: 8},
				Result: `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.010071029,-0.0017594862]},{"object":"embedding","index":1,"embedding":[1,2]}],"model":"embed","usage":{"prompt_tokens":8,"total_tokens":8}}`},
		},
		Refusals: []conformance.ModelRefusal{
			conformance.Refused(`status 400 {"error":"\"tiny\" does not support tools"}`, fsys.Invalid, `the server says: "tiny" does not support tools`),
			conformance.Refused(`status 500 {"error":"model runner has unexpectedly stopped"}`, fsys.Unavailable, "the server says: model runner has unexpectedly stopped"),
			conformance.Refused(`raw {"error":"an error was encountered while running"}`, fsys.Unavailable, "the server broke off: an error was encountered while running"),
			conformance.Refused(`raw {"message":{"content":"a"}}`, fsys.Unavailable, "the server ended the answer in the middle"),
			conformance.Refused(`raw <html>`, fsys.Unavailable, "the server's response is not what it should be"),
		},
	})
}

func open(t *testing.T, url string) *Provider {
	t.Helper()
	p, err := New(Config{BaseURL: url})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Ollama does not count a prompt that it has in its cache.
func TestCounts(t *testing.T) {
	p := open(t, conformance.NewModelServer(t, script).URL)
	for fields, want := range map[string]models.Usage{
		`,"prompt_eval_count":26,"eval_count":2`: {Input: 26, Output: 2},
		`,"eval_count":2`:                        {Output: 2, Estimated: true},
		`,"prompt_eval_count":26`:                {Input: 26, Output: 1, Estimated: true},
		``:                                       {Output: 1, Estimated: true},
	} {
		line := fmt.Sprintf(`{"message":{"content":"abc"},"done":true,"done_reason":"length"%s}`, fields)
		req := models.Ask("tiny", "raw "+line)
		if want.Estimated && want.Input != 26 {
			want.Input = models.Estimate(req, 0).Input
		}
		chunks, got, err := conformance.RunModel(t, p, req)
		if err != nil || got != want || chunks[0].Finish != "length" {
			t.Errorf("%s: got %+v, %v, want %+v", fields, got, err, want)
		}
	}
}

// What was told of a model is not asked again.
func TestShownOnce(t *testing.T) {
	s := conformance.NewModelServer(t, script)
	p := open(t, s.URL)
	for range 2 {
		if _, err := p.Models(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.Bodies); n != 4 { // one of three tells nothing, and is asked again
		t.Errorf("asked about models %d times, want 4", n)
	}
}

func TestFree(t *testing.T) {
	p := open(t, "http://x:1/")
	if p.Info().Target != "http://x:1" || !p.Info().Free || models.NewRunner("p", p).Can(models.Speak) {
		t.Errorf("got %+v", p.Info())
	}
}
