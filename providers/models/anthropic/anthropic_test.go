package anthropic

import (
	"testing"

	"agent9/conformance"
	"agent9/fsys"
	"agent9/providers/models"
	"agent9/providers/models/httpapi"
)

func TestAPI(t *testing.T) {
	conformance.TestModelAPI(t, conformance.ModelAPI{
		New:  func(c httpapi.Config) (models.Provider, error) { return New(c) },
		Base: BaseURL, Script: script, Real: "ANTHROPIC",
		Compute: conformance.Compute{
			Model: "claude-sonnet-4-5-20250929", Say: "hello wörld 😀", Want: "hello wörld 😀", Slow: "slow",
			Fail:     `status 429 {"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your rate limit"},"request_id":"req_1"}`,
			FailCode: fsys.Busy, FailReason: "exceed your rate limit",
		},
		Models: []models.Model{{Name: "claude-sonnet-4-5-20250929", Context: 200_000, Kinds: []models.Kind{models.Chat}, Price: models.PriceOf("claude-sonnet-4-5")}},
		Sent: []conformance.ModelSent{
			{Name: "a text",
				Body: `{"model":"m","messages":[{"role":"user","content":"hi"}]}`,
				Want: `{"model":"m","max_tokens":8192,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"stream":true}`},
			{Name: "system, and turns of one role",
				Body: `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"a"},{"role":"user","content":[{"type":"text","text":"b","cache_control":{"type":"ephemeral"}},{"type":"text","text":""}]},{"role":"developer","content":"t"},{"role":"assistant","content":""}]}`,
				Want: `{"max_tokens":8192,"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b","cache_control":{"type":"ephemeral"}}]}],"stream":true,"system":[{"type":"text","text":"s"},{"type":"text","text":"t"}]}`},
			{Name: "tools and their results",
				Body: `{"messages":[{"role":"user","content":"a"},
			  {"role":"assistant","content":null,"thinking_blocks":[{"type":"thinking","thinking":"h","signature":"s"}],"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"x\": 1}"}},{"id":"2","type":"function","function":{"name":"g","arguments":""}}]},
			  {"role":"tool","tool_call_id":"1","content":"one"},{"role":"tool","tool_call_id":"2","content":""},{"role":"user","content":"go on"}],
			  "tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{"x":{"type":"number"}}},"strict":true}},{"type":"function","function":{"name":"g"}},{"type":"web_search_20250305","name":"web_search"}],
			  "tool_choice":"required","parallel_tool_calls":false}`,
				Want: `{"tools":[{"name":"f","description":"d","input_schema":{"type":"object","properties":{"x":{"type":"number"}}},"strict":true},{"name":"g","input_schema":{"type":"object"}},{"type":"web_search_20250305","name":"web_search"}],"max_tokens":8192,` +
					`"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","content":[{"type":"thinking","thinking":"h","signature":"s"},{"type":"tool_use","id":"1","name":"f","input":{"x":1}},{"type":"tool_use","id":"2","name":"g","input":{}}]},` +
					`{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"one"}]},{"type":"tool_result","tool_use_id":"2"},{"type":"text","text":"go on"}]}],"stream":true,"tool_choice":{"type":"any","disable_parallel_tool_use":true}}`},
			{Name: "pictures and files",
				Body: `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAEC"}},{"type":"image_url","image_url":{"url":"https://x/y.png"}},{"type":"file","file":{"file_data":"data:application/pdf;base64,AAEC"}},{"type":"document","source":{"type":"text","data":"x"}}]}]}`,
				Want: `{"max_tokens":8192,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAEC"}},{"type":"image","source":{"type":"url","url":"https://x/y.png"}},{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"AAEC"}},{"type":"document","source":{"type":"text","data":"x"}}]}],"stream":true}`},
			{Name: "fields",
				Body: `{"messages":[{"role":"user","content":"a"}],"max_completion_tokens":7,"temperature":0.50,"top_k":3,"stop":"x","user":"u","seed":1,"logit_bias":{},"stream":false,"stream_options":{},"n":1,"service_tier":"flex","thinking":{"type":"adaptive"},"reasoning_effort":"high","response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}},"x_future":[1]}`,
				Want: `{"temperature":0.50,"top_k":3,"stop_sequences":["x"],"metadata":{"user_id":"u"},"thinking":{"type":"adaptive"},"x_future":[1],"max_tokens":7,"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],"stream":true,"output_config":{"effort":"high","format":{"type":"json_schema","schema":{"type":"object"}}}}`},
			{Name: "no thinking, one tool",
				Body: `{"messages":[{"role":"user","content":"a"}],"reasoning_effort":"none","stop":["x","y"],"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"function","function":{"name":"f"}},"response_format":{"type":"text"},"metadata":{"run":"7"},"n":null}`,
				Want: `{"thinking":{"type":"disabled"},"stop_sequences":["x","y"],"tools":[{"name":"f","input_schema":{"type":"object"}}],"max_tokens":8192,"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],"stream":true,"tool_choice":{"type":"tool","name":"f"}}`},
			{Body: `{"messages":[{"role":"user","content":"a"}],"n":2}`, Reason: "this API gives one answer to a request; leave out n"},
			{Body: `{"messages":[{"role":"user","content":"a"}],"modalities":["audio"]}`, Reason: "this API answers with text only; leave out modalities"},
			{Body: `{"messages":[{"role":"user","content":"a"}],"response_format":{"type":"json_object"}}`, Reason: "this API gives JSON only by a schema; use the response_format json_schema"},
			{Body: `{"messages":[{"role":"user","content":"a"}],"response_format":{"type":"json_schema"}}`, Reason: "response_format needs json_schema with a schema"},
			{Body: `{"messages":[{"role":"user","content":"a"}],"tool_choice":"perhaps"}`, Reason: "tool_choice must be auto, none, required or a function"},
			{Body: `{"messages":[{"role":"user","content":"a"}],"stop":7}`, Reason: "stop must be a string or an array of strings"},
			{Body: `{"messages":[{"role":"user","content":"a"}],"tools":{}}`, Reason: "tools must be an array of objects"},
			{Body: `{"messages":[{"role":"function","content":"x"}]}`, Reason: "the role of a message is system, developer, user, assistant or tool, not function"},
			{Body: `{"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{}}]}]}`, Reason: "this API does not listen to sound"},
			{Body: `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png,x"}}]}]}`, Reason: "a data: URL is data:TYPE;base64,TEXT"},
			{Body: `{"messages":[{"role":"assistant","tool_calls":[{"id":"7","function":{"name":"f","arguments":"{"}}]}]}`, Reason: "the arguments of the tool call 7 are not JSON"},
			{Body: `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"file:///etc/hostname"}}]}]}`, Reason: "a data: URL is data:TYPE;base64,TEXT"},
		},
		Answers: []conformance.ModelAnswer{
			{Say: "hi", Text: "hi", Usage: models.Usage{Input: 128, Cached: 100, Written: 3, Output: 15}},
			{Say: "tools", Finish: "tool_calls", Result: `{"id":"msg_1nZdL29xx5MUA1yADyHTEsnR8uuvGzszyy","object":"chat.completion","model":"claude-sonnet-4-5-20250929","choices":[{"index":0,"message":{"role":"assistant","content":null,"reasoning_content":"Let me look.",` +
				`"tool_calls":[{"id":"toolu_01T1x1fJ34qAmk2tNTrN7Up6","type":"function","function":{"name":"get_weather","arguments":"{\"location\": \"Rome\"}"}},{"id":"toolu_2","type":"function","function":{"name":"now","arguments":"{}"}}],` +
				`"thinking_blocks":[{"type":"thinking","thinking":"Let me look.","signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3h"},{"type":"redacted_thinking","data":"EmwKAhgB"}]},"finish_reason":"tool_calls"}],` +
				`"usage":{"prompt_tokens":128,"completion_tokens":15,"total_tokens":143,"prompt_tokens_details":{"cached_tokens":100}}}`},
			{Say: "stop stop_sequence", Finish: "stop"},
			{Say: "stop max_tokens", Finish: "length"},
			{Say: "stop refusal", Finish: "content_filter"},
			{Say: "stop model_context_window_exceeded", Finish: "length"},
			{Say: "stop pause_turn", Finish: "pause_turn"},
		},
		Refusals: []conformance.ModelRefusal{
			conformance.Refused(`status 401 {"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key k-secret-0123456789"}}`, fsys.Unavailable, "the key was refused; see TEST_API_KEY"),
			conformance.Refused(`status 400 {"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: k-secret-0123456789"}}`, fsys.Invalid, "the server says: max_tokens: [secret]"),
			conformance.Refused(`status 404 {"type":"error","error":{"type":"not_found_error","message":"model: claude-x"}}`, fsys.NotExist, "the server says: model: claude-x"),
			conformance.Refused(`status 413 {"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`, fsys.TooLarge, "the server says: Request exceeds the maximum size"),
			conformance.Refused(`status 529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, fsys.Unavailable, "the server says: Overloaded"),
			conformance.Refused("break overloaded_error", fsys.Unavailable, "the server broke off: No more"),
			conformance.Refused("break rate_limit_error", fsys.Busy, "the server broke off: No more"),
			conformance.Refused("cut", fsys.Unavailable, "the server ended the answer in the middle"),
		},
	})
}

func TestUsageOfWhatWasCut(t *testing.T) {
	p, err := New(Config{BaseURL: conformance.NewModelServer(t, script).URL})
	if err != nil {
		t.Fatal(err)
	}
	// The prompt is known from the beginning, the answer only at the end.
	_, got, err := conformance.RunModel(t, p, models.Ask("m", "cut"))
	if want := (models.Usage{Input: 128, Cached: 100, Written: 3, Output: 2, Estimated: true}); err == nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

// An answer that was served in a dearer way than was asked for costs that.
func TestServedDearer(t *testing.T) {
	p, err := New(Config{BaseURL: conformance.NewModelServer(t, script).URL})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		asked, way string
		want       int64
	}{
		{`"x":1`, `\"inference_geo\":\"us\"`, 110}, {`"inference_geo":"us"`, `\"inference_geo\":\"us\"`, 0}, {`"x":1`, `\"inference_geo\":\"us\",\"speed\":\"fast\"`, 660},
		{`"speed":"fast"`, `\"inference_geo\":\"us\",\"speed\":\"fast\"`, 110}, {`"x":1`, `\"inference_geo\":null,\"service_tier\":\"priority\"`, 0},
	} {
		_, usage, err := conformance.RunModel(t, p, conformance.ParseModelRequest(t, "", `{`+c.asked+`,"messages":[{"role":"user","content":"served `+c.way+`"}]}`))
		if err != nil || usage.Percent != c.want || usage.Estimated {
			t.Errorf("%s, and %s: got %+v, %v, want %d %%", c.asked, c.way, usage, err, c.want)
		}
	}
}

func TestConfig(t *testing.T) {
	for url, want := range map[string]string{"": BaseURL, "https://api.anthropic.com/v1": BaseURL, "http://x/proxy/": "http://x/proxy"} {
		if p, err := New(Config{BaseURL: url}); err != nil || p.Info().Target != want || p.Info().Free {
			t.Errorf("%q: got %v, want %s", url, err, want)
		}
	}
}
