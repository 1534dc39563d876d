package openai

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	"agent9/conformance"
)

const (
	begin  = `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1694268190,"model":"gpt-test-0613","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"usage":null}`
	stop   = `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1694268190,"model":"gpt-test-0613","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null}`
	used   = `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1694268190,"model":"gpt-test-0613","choices":[],"usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29,"prompt_tokens_details":{"cached_tokens":4,"audio_tokens":0}}}`
	vector = `{
  "object": "list",
  "data": [{"object": "embedding", "index": 0, "embedding": [-0.0069, 0.0024]}],
  "model": "text-embedding-3-small",
  "usage": {"prompt_tokens": 5, "total_tokens": 5}
}`
	// wholeText is a response in one piece, served as TIER.
	wholeText = `whole {
 "id": "chatcmpl-2", "object": "chat.completion", "created": 1741569952, "model": "gpt-test-0613",
 "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello <you>", "refusal": null, "annotations": []},
              "logprobs": {"content": []}, "finish_reason": "stop"}],
 "usage": {"prompt_tokens": 19, "completion_tokens": 10, "total_tokens": 29}, "service_tier": "TIER"}`
	// png is what a picture begins with.
	png = "\x89PNG\x0d\x0a\x1a\x0a\x00"
)

// script answers in the shapes that were recorded of OpenAI's API.
var script = conformance.ModelScript{
	Chat:  []string{"POST /v1/chat/completions"},
	Frame: "data: %s\n\n", Type: "text/event-stream; charset=utf-8",
	Begin: []string{begin}, End: []string{stop, used, "[DONE]"},
	Say: func(text string) string {
		b, _ := json.Marshal(text)
		return `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1694268190,"model":"gpt-test-0613","service_tier":"default","system_fingerprint":"fp_44709d6fcb","choices":[{"index":0,"delta":{"content":` + string(b) + `},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"x1"}`
	},
	Named: map[string][]string{
		"tools": {begin,
			`{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_DdmO9pD3xa9XTPNJ32zg2hcA","type":"function","function":{"name":"get_weather","arguments":""}}]},"finish_reason":null}]}`,
			`{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\""}}]},"finish_reason":null}]}`,
			`{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"at\":1}"}}]},"finish_reason":null}]}`,
			`{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_2","type":"function","function":{"name":"other","arguments":"{}"}}]},"finish_reason":null}]}`,
			`{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`, used, `[DONE]`},
	},
	Other: map[string]func(http.ResponseWriter, *http.Request, string){
		"GET /v1/models":        conformance.Whole("application/json", `{"object":"list","data":[{"id":"gpt-test","object":"model","created":1686935002,"owned_by":"system"}]}`),
		"POST /v1/embeddings":   conformance.Whole("application/json", vector),
		"POST /v1/audio/speech": conformance.Whole("audio/mpeg", "ID3\x00\xff\n"),
		"POST /v1/completions": conformance.Whole("text/event-stream", "data: "+strings.Join([]string{
			`{"id":"cmpl-1","object":"text_completion","created":1,"choices":[{"text":"\n\nThis","index":0,"logprobs":null,"finish_reason":null}],"model":"gpt-3.5-turbo-instruct","usage":null}`,
			`{"id":"cmpl-1","object":"text_completion","created":1,"choices":[{"text":" is","index":0,"logprobs":null,"finish_reason":"stop"}],"model":"gpt-3.5-turbo-instruct","usage":null}`,
			`{"id":"cmpl-1","object":"text_completion","created":1,"choices":[],"model":"gpt-3.5-turbo-instruct","usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`,
			"[DONE]"}, "\n\ndata: ")+"\n\n"),
		"POST /v1/images/generations": func(w http.ResponseWriter, r *http.Request, body string) {
			picture := `{"b64_json":"` + base64.StdEncoding.EncodeToString([]byte(png)) + `"}`
			if strings.Contains(body, `"n":2`) {
				picture += "," + picture
			}
			conformance.Whole("application/json", `{"created": 1713833628, "data": [`+picture+`], "usage": {"total_tokens": 100, "input_tokens": 50, "output_tokens": 50, "input_tokens_details": {"text_tokens": 10, "image_tokens": 40}}}`)(w, r, body)
		},
		"POST /v1/audio/transcriptions": func(w http.ResponseWriter, r *http.Request, body string) {
			if r.FormValue("response_format") == "srt" {
				conformance.Whole("text/plain; charset=utf-8", "1\n00:00:00,000 --> 00:00:01,000\nHello\n")(w, r, body)
				return
			}
			conformance.Whole("application/json", `{"text": "Hello", "usage": {"type": "tokens", "input_tokens": 14, "input_token_details": {"text_tokens": 0, "audio_tokens": 14}, "output_tokens": 45, "total_tokens": 59}}`)(w, r, body)
		},
	},
}
