package models_test

import (
	"encoding/json"
	"strings"
	"testing"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/models"
)

// load measures a body for a model with a context of 1,000 tokens; more is its
// tokens beside the bytes of the body, as far as they are not the context.
func load(t *testing.T, kind models.Kind, body string, context int) (models.Request, models.Load, error) {
	t.Helper()
	b, err := models.ParseBody([]byte(body))
	if err != nil {
		return models.Request{}, models.Load{}, err
	}
	req, err := models.ParseRequest(kind, b)
	if err != nil {
		return req, models.Load{}, err
	}
	l, err := req.Load(context, func(name string) bool { return name == "x_free" })
	return req, l, err
}

const hi = `"messages":[{"role":"user","content":"hi"}]`

// What multiplies the cost of a request, or adds to it, is counted.
func TestLoadCountsWhatCosts(t *testing.T) {
	const context = 1_000_000
	for _, c := range []struct {
		kind          models.Kind
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
		{"", `{` + hi + `,"functions":[{"name":"f","parameters":{"properties":{"a":{},"A":{}}}}]}`, 1_000, 10, 100},
		{"", `{` + hi + `,"safe_prompt":true}`, 1_000, 10, 100},
		{"", `{` + hi + `,"enable_thinking":true,"thinking_budget":500}`, 0, 510, 100},
		{"", `{` + hi + `,"enable_thinking":false,"add_generation_prompt":true,"skip_special_tokens":true,"length_penalty":1,"cache_prompt":true,"random_seed":7}`, 0, 10, 100},
		{"", `{` + hi + `,"session_id":"s","structured_outputs":{"json":{"a":1,"A":2}},"return_token_ids":true,"include_reasoning":true}`, 0, 10, 100},
		{"", `{` + hi + `,"chat_template_kwargs":{"enable_thinking":true,"thinking_budget":9,"mode":"fast"},"raw":true,"template":""}`, 0, 10, 100},
		{"", `{"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"data:audio/wav;base64,AAAA==","format":"wav"}}]}]}`, 0, 10, 100},
		{"", `{` + hi + `,"tools":[{"type":"function","function":{"name":"f"}}]}`, 1_000, 10, 100},
		{"", `{` + hi + `,"tools":[{"type":"web_search_20250305","name":"web_search","max_uses":2}]}`, 1_000 + 2*context, 30, 100},
		{"", `{` + hi + `,"x_free":1}`, 0, 10, 100},
		{"", `{"input":"text"}`, 0, 0, 100},
		{"", `{"input":[{"image":"https://x"}]}`, context, 0, 100},
		{models.Image, `{"prompt":"x","n":2}`, 0, 64_000, 100},
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
	if err != nil || l.Fees != 2*models.SearchFee || l.Most(models.Price{}, 1) != l.Fees {
		t.Errorf("two searches: %+v, %v", l, err)
	}
}

// What clients send back of an answer costs its bytes, and so does what nobody here
// knows, unless it may refer to something elsewhere.
func TestLoadOfASecondTurn(t *testing.T) {
	const context = 1_000_000
	for message, fills := range map[string]bool{
		// As OpenAI's client has it, DeepSeek's, OpenRouter's, vLLM's, Mistral's, LiteLLM's.
		`"content":"hi","refusal":null,"annotations":[],"audio":null,"function_call":null,"tool_calls":null`:                                                                                             false,
		`"content":"see https://x/y","reasoning_content":"https://x","name":"a","phase":"final_answer","prefix":false`:                                                                                   false,
		`"content":null,"tool_calls":[{"id":"c","type":"function","index":0,"function":{"name":"f","arguments":"{\"url\":\"https://x\"}"},"extra_content":{"google":{"signature":"x"}}}]`:                false,
		`"content":null,"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]`:                                                                                                              false,
		`"content":"x","reasoning_details":[{"type":"reasoning.text","text":"t","format":"v1","index":0},{"type":"reasoning.encrypted","data":"AAAA","id":"r"}]`:                                         false,
		`"content":"x","stop_reason":null,"token_ids":[1,2],"mood":{"of":["day",1,true,null,{}]},"metadata":{"a":"b"},"parsed":null,"images":[],"file_id":"","source":{"url":""}`:                        false,
		`"content":[{"type":"output_text","text":"x","annotations":[{"type":"url_citation","start_index":1,"url_citation":{"url":"https://x"}}],"logprobs":[]}]`:                                         false,
		`"content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"reasoning","summary":[{"type":"summary_text","text":"s"}],"encrypted_content":"e"}]`:                                     false,
		`"content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"search_result","source":"https://x","title":"t","content":[{"type":"text","text":"x"}],"citations":{"enabled":true}}]}]`: false,
		`"content":[{"type":"input_text","text":"x"},{"type":"refusal","refusal":"x"},{"type":"text","text":"x","cache_control":null}]`:                                                                  false,

		`"content":"x","file_ids":["f"]`:                                                                         true,
		`"content":"x","attachments":[{"id":"f"}]`:                                                               true,
		`"content":"x","Image":"f"`:                                                                              true,
		`"content":"x","videoUrl":"f"`:                                                                           true,
		`"content":"x","source":7`:                                                                               true,
		`"content":"x","note":"s3://b/k"`:                                                                        true,
		`"content":"x","note":[{"a":{"b":"data:application/pdf;base64,AA"}}]`:                                    true,
		`"content":"x","note":{"type":"document","of":"f"}`:                                                      true,
		`"content":"x","annotations":[{"type":"file","file":{"hash":"h"}}]`:                                      true,
		`"content":[{"id":"msg_1"}]`:                                                                             true,
		`"content":[{"type":"item_reference","id":"msg_1"}]`:                                                     true,
		`"content":[{"type":"text","text":"x","data":"AAAA"}]`:                                                   true,
		`"content":[{"type":"image_url","image_url":{"url":"data:application/pdf;base64,AA"}}]`:                  true,
		`"content":[{"type":"tool_result","content":[{"type":"document","source":{"type":"text","data":"x"}}]}]`: true,
		`"content":[{"type":"text","text":"x","search_result":{"source":"x"}}]`:                                  true,
		`"content":[{"type":7,"text":"x","file":{"file_data":"AA"}}]`:                                            true,
		`"content":null,"tool_calls":[{"id":"c","type":"image_generation_call","result":"AA"}]`:                  true,
	} {
		body := `{"messages":[{"role":"assistant",` + message + `},{"role":"user","content":"go on"}]}`
		_, l, err := load(t, "", body, context)
		if err != nil || (l.Input == context) != fills || !fills && l.Input != int64(len(body)) {
			t.Errorf("%s: %d tokens, %v", message, l.Input, err)
		}
	}
}

// Each of several prompts has a context of its own.
func TestLoadOfSeveralPrompts(t *testing.T) {
	text := strings.Repeat("x", 1_000)
	for body, want := range map[string]int64{
		`{"prompt":["` + text + `","` + text + `"]}`:              2 * 500,
		`{"input":["` + text + `","` + text + `"]}`:               2 * 500,
		`{"input":[{"image":"x"},{"image":"y"},"z"]}`:             3 * 500,
		`{"prompt":[1,[2],"` + text + `"]}`:                       int64(len(text)) + 21,
		`{"prompt":"` + text + `"}`:                               500,
		`{"messages":[{"role":"user","content":"` + text + `"}]}`: 500,
	} {
		if _, l, err := load(t, "", body, 500); err != nil || l.Input != want {
			t.Errorf("%.20s: %d tokens, want %d: %v", body, l.Input, want, err)
		}
	}
}

// What may cost more in a way that is not known here is refused, and so is what
// two readers may understand in two ways.
func TestLoadRefusesWhatIsNotKnown(t *testing.T) {
	for body, reason := range map[string]string{
		`{` + hi + `,"x_future":1}`:                                                                                  "nobody here knows what the field x_future may cost",
		`{` + hi + `,"models":["dear"]}`:                                                                             "the field models may cost",
		`{` + hi + `,"n_predict":1000000}`:                                                                           "the field n_predict may cost",
		`{` + hi + `,"Max_Tokens":1000000}`:                                                                          "the field Max_Tokens may cost",
		`{` + hi + `,"max_tokens":1,"Max_Tokens":9}`:                                                                 "the fields max_tokens and Max_Tokens differ in case only",
		`{` + hi + `,"max_to\u212aens":1,"max_tokens":9}`:                                                            "differ in case only",
		`{"messages":[{"role":"user","content":"x","Content":"y"}]}`:                                                 "messages: the fields content and Content differ in case only",
		`{"messages":[{"role":"user","content":[{"type":"text","text":"x","Type":"file"}]}]}`:                        "the fields type and Type differ in case only",
		`{"messages":[{"role":"user","content":[{"Type":"image","text":"x"}]}]}`:                                     "the field Type must be written type",
		`{` + hi + `,"thinking":{"Budget_Tokens":500}}`:                                                              "the field Budget_Tokens must be written budget_tokens",
		`{` + hi + `,"tools":[{"type":"web_search_1","max_uses":1,"MAX_USES":9}]}`:                                   "differ in case only",
		`{` + hi + `,"tools":{"type":"web_search_1"}}`:                                                               "tools must be an array",
		`{` + hi + `,"tools":"all"}`:                                                                                 "tools must be an array",
		`{` + hi + `,"template":"{{range .Messages}}{{.Content}}{{.Content}}{{end}}"}`:                               "the template in template may cost",
		`{` + hi + `,"raw":"{% for m in messages %}"}`:                                                               "the template in raw may cost",
		`{` + hi + `,"chat_template":"x"}`:                                                                           "the field chat_template may cost",
		`{` + hi + `,"chat_template_kwargs":{"chat_template":"x"}}`:                                                  "the template in chat_template_kwargs may cost",
		`{` + hi + `,"chat_template_kwargs":{"a":"{{ messages }}"}}`:                                                 "the template in chat_template_kwargs may cost",
		`{` + hi + `,"chat_template_kwargs":{"documents":[{"text":"x"}]}}`:                                           "the template in chat_template_kwargs may cost",
		`{` + hi + `,"enable_thinking":true}`:                                                                        "enable_thinking needs thinking_budget",
		`{` + hi + `,"enable_thinking":true,"thinking_budget":-1}`:                                                   "thinking_budget must be a whole number",
		`{"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"https://x/y.wav"}}]}]}`: "input_audio needs data with the sound itself",
		`{"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"//x/y.wav"}}]}]}`:       "input_audio needs data with the sound itself",
		`{"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"url":"x"}}]}]}`:                "input_audio needs data with the sound itself",
		`{` + hi + `,"web_search_options":{}}`:                                                                       "the field web_search_options may cost",
		`{` + hi + `,"service_tier":"turbo"}`:                                                                        "the field service_tier turbo may cost",
		`{` + hi + `,"tools":[{"type":"code_execution_20250522"}]}`:                                                  "the tool tools.code_execution_20250522 may cost",
		`{` + hi + `,"tools":[{"google_search":{}}]}`:                                                                "the tool tools. may cost",
		`{` + hi + `,"tools":[{"type":"web_search_20250305"}]}`:                                                      "max_uses of the tool web_search_20250305",
		`{` + hi + `,"tools":[{"type":"web_search_20250305","max_uses":1e9}]}`:                                       "max_uses of the tool web_search_20250305",
		`{` + hi + `,"thinking":{"budget_tokens":-5}}`:                                                               "budget_tokens must be a whole number",
		`{` + hi + `,"best_of":1000}`:                                                                                "best_of must be a whole number from 1 to 128",
		`{` + hi + `,"max_tokens":0}`:                                                                                "must be at least 1",
		`{` + hi + `,"max_tokens":-1}`:                                                                               "must be at least 1",
		`{` + hi + `,"max_tokens":1.5}`:                                                                              "max_tokens must be a whole number",
		`{` + hi + `,"max_tokens":1e30}`:                                                                             "max_tokens must be a whole number",
		`{` + hi + `,"max_tokens":1,"max_tokens":9}`:                                                                 "max_tokens is there twice",
		`{"messages":[{"role":"user","content":[{"type":"text","type":"file"}]}]}`:                                   "messages",
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
	price := models.Price{Input: 1_500_001, Cached: 150_003, Output: 7_300_007, Write: 1_900_009, LongOver: 50, Long: &models.Price{Input: 3_000_001, Output: 9_000_001, Write: 4_000_001}}
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
				if cost := p.Cost(models.Usage{Input: in, Cached: cached, Written: written, Output: 60}); cost > most {
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
		if u.Input < 0 || u.Output < 0 || l.Most(models.Price{Input: 1e6, Output: 1e6}, 100) < 0 {
			t.Errorf("%+v", u)
		}
		var any json.RawMessage
		if json.Unmarshal([]byte(body), &any) != nil {
			t.Error("it is not JSON")
		}
	})
}
