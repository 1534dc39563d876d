package anthropic

import (
	"testing"

	"agent9/fsys"
	"agent9/providers/models"
)

func TestTranslate(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"a text": {
			`{"model":"m","messages":[{"role":"user","content":"hi"}]}`,
			`{"model":"m","max_tokens":8192,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"stream":true}`},
		"system, and turns of one role": {
			`{"messages":[{"role":"system","content":"s"},{"role":"user","content":"a"},{"role":"user","content":[{"type":"text","text":"b","cache_control":{"type":"ephemeral"}},{"type":"text","text":""}]},{"role":"developer","content":"t"},{"role":"assistant","content":""}]}`,
			`{"max_tokens":8192,"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b","cache_control":{"type":"ephemeral"}}]}],"stream":true,"system":[{"type":"text","text":"s"},{"type":"text","text":"t"}]}`},
		"tools and their results": {
			`{"messages":[{"role":"user","content":"a"},
			  {"role":"assistant","content":null,"thinking_blocks":[{"type":"thinking","thinking":"h","signature":"s"}],"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"x\": 1}"}},{"id":"2","type":"function","function":{"name":"g","arguments":""}}]},
			  {"role":"tool","tool_call_id":"1","content":"one"},{"role":"tool","tool_call_id":"2","content":""},{"role":"user","content":"go on"}],
			  "tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{"x":{"type":"number"}}},"strict":true}},{"type":"function","function":{"name":"g"}},{"type":"web_search_20250305","name":"web_search"}],
			  "tool_choice":"required","parallel_tool_calls":false}`,
			`{"tools":[{"name":"f","description":"d","input_schema":{"type":"object","properties":{"x":{"type":"number"}}},"strict":true},{"name":"g","input_schema":{"type":"object"}},{"type":"web_search_20250305","name":"web_search"}],"max_tokens":8192,` +
				`"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","content":[{"type":"thinking","thinking":"h","signature":"s"},{"type":"tool_use","id":"1","name":"f","input":{"x":1}},{"type":"tool_use","id":"2","name":"g","input":{}}]},` +
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"one"}]},{"type":"tool_result","tool_use_id":"2"},{"type":"text","text":"go on"}]}],"stream":true,"tool_choice":{"type":"any","disable_parallel_tool_use":true}}`},
		"pictures and files": {
			`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAEC"}},{"type":"image_url","image_url":{"url":"https://x/y.png"}},{"type":"file","file":{"file_data":"data:application/pdf;base64,AAEC"}},{"type":"document","source":{"type":"text","data":"x"}}]}]}`,
			`{"max_tokens":8192,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAEC"}},{"type":"image","source":{"type":"url","url":"https://x/y.png"}},{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"AAEC"}},{"type":"document","source":{"type":"text","data":"x"}}]}],"stream":true}`},
		"fields": {
			`{"messages":[{"role":"user","content":"a"}],"max_completion_tokens":7,"temperature":0.50,"top_k":3,"stop":"x","user":"u","seed":1,"logit_bias":{},"stream":false,"stream_options":{},"n":1,"service_tier":"flex","thinking":{"type":"adaptive"},"reasoning_effort":"high","response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}},"x_future":[1]}`,
			`{"temperature":0.50,"top_k":3,"stop_sequences":["x"],"metadata":{"user_id":"u"},"thinking":{"type":"adaptive"},"x_future":[1],"max_tokens":7,"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],"stream":true,"output_config":{"effort":"high","format":{"type":"json_schema","schema":{"type":"object"}}}}`},
		"no thinking, one tool": {
			`{"messages":[{"role":"user","content":"a"}],"reasoning_effort":"none","stop":["x","y"],"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"function","function":{"name":"f"}},"response_format":{"type":"text"},"metadata":{"run":"7"},"n":null}`,
			`{"thinking":{"type":"disabled"},"stop_sequences":["x","y"],"tools":[{"name":"f","input_schema":{"type":"object"}}],"max_tokens":8192,"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],"stream":true,"tool_choice":{"type":"tool","name":"f"}}`},
	} {
		got, err := translate(parse(t, c.body))
		if err != nil || string(got.Bytes()) != c.want {
			t.Errorf("%s:\ngot  %s, %v\nwant %s", name, got.Bytes(), err, c.want)
		}
	}
}

func TestWhatCannotBeTranslated(t *testing.T) {
	s := newServer(t)
	p := provider(t, s.URL)
	for fields, want := range map[string]string{
		`"n":2`:                  "this API gives one answer to a request; leave out n",
		`"modalities":["audio"]`: "this API answers with text only; leave out modalities",
		`"response_format":{"type":"json_object"}`: "this API gives JSON only by a schema; use the response_format json_schema",
		`"response_format":{"type":"json_schema"}`: "response_format needs json_schema with a schema",
		`"tool_choice":"perhaps"`:                  "tool_choice must be auto, none, required or a function",
		`"stop":7`:                                 "stop must be a string or an array of strings",
		`"tools":{}`:                               "tools must be an array of objects",
	} {
		_, usage, err := run(t, p, parse(t, `{"messages":[{"role":"user","content":"a"}],`+fields+`}`))
		if fsys.CodeOf(err) != fsys.Invalid || fsys.ReasonOf(err) != want || usage != (models.Usage{}) {
			t.Errorf("%s: got %v, want %s", fields, err, want)
		}
	}
	for message, want := range map[string]string{
		`{"role":"function","content":"x"}`:                                                           "the role of a message is system, developer, user, assistant or tool, not function",
		`{"role":"user","content":[{"type":"input_audio","input_audio":{}}]}`:                         "this API does not listen to sound",
		`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png,x"}}]}`:     "a data: URL is data:TYPE;base64,TEXT",
		`{"role":"assistant","tool_calls":[{"id":"7","function":{"name":"f","arguments":"{"}}]}`:      "the arguments of the tool call 7 are not JSON",
		`{"role":"user","content":[{"type":"image_url","image_url":{"url":"file:///etc/hostname"}}]}`: "a data: URL is data:TYPE;base64,TEXT",
	} {
		if _, _, err := run(t, p, parse(t, `{"messages":[`+message+`]}`)); fsys.CodeOf(err) != fsys.Invalid || fsys.ReasonOf(err) != want {
			t.Errorf("%s: got %v, want %s", message, err, want)
		}
	}
	if len(s.bodies) > 0 {
		t.Error("the server was asked")
	}
}
