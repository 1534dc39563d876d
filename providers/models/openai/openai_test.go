package openai

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"agent9/conformance"
	"agent9/fsys"
	"agent9/providers/models"
	"agent9/providers/models/httpapi"
)

func TestAPI(t *testing.T) {
	const (
		hi     = `{"model":"gpt-test","messages":[{"role":"user","content":"hi"}]`
		future = `{"x_future":{"b":1.50,"a":[1e3]},"model":"gpt-test","messages":[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image_url","image_url":{"url":"data:,<&>"}}]}],"seed":12345678901234567890`
		stated = `"usage":{"prompt_tokens":19,"completion_tokens":10,"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":15},"cost":0.00042,"is_byok":false,"cost_details":{"upstream_inference_cost":null}}`
		ended  = `{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`
		result = `{"id":"chatcmpl-2","object":"chat.completion","created":1741569952,"model":"gpt-test-0613","choices":[{"index":0,"message":{"role":"assistant","content":"Hello <you>","refusal":null,"annotations":[]},"logprobs":{"content":[]},"finish_reason":"stop"}],"usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29},"service_tier":"default"}`
	)
	whole := func(fields string) string {
		return `{` + fields + `"messages":[{"role":"user","content":` + fmt.Sprintf("%q", strings.Replace(wholeText, "TIER", "default", 1)) + `}]}`
	}
	conformance.TestModelAPI(t, conformance.ModelAPI{
		New:    func(c httpapi.Config) (models.Provider, error) { return New(c) },
		Script: script, Real: "OPENAI",
		Compute: conformance.Compute{
			Model: "gpt-test", Say: "hello wörld 😀", Want: "hello wörld 😀", Embed: "text-embedding-3-small", Slow: "slow",
			Fail:     `status 429 {"error":{"message":"Rate limit reached for gpt-test","type":"requests","code":"rate_limit_exceeded"}}`,
			FailCode: fsys.Busy, FailReason: "Rate limit reached",
		},
		Models: []models.Model{{Name: "gpt-test"}},
		Sent: []conformance.ModelSent{
			{Name: "as it is", Body: future + `}`, Want: future + `,"stream":true,"stream_options":{"include_usage":true}}`},
			// However a client asks for a stream, its usage is asked for.
			{Body: hi + `,"stream_options":null}`, Want: hi + `,"stream_options":{"include_usage":true},"stream":true}`},
			{Body: hi + `,"stream_options":{}}`, Want: hi + `,"stream_options":{"include_usage":true},"stream":true}`},
			{Body: hi + `,"stream_options":{"include_usage":false}}`, Want: hi + `,"stream_options":{"include_usage":true},"stream":true}`},
			{Body: hi + `,"stream_options":{"include_obfuscation":false}}`, Want: hi + `,"stream_options":{"include_obfuscation":false,"include_usage":true},"stream":true}`},
			{Body: whole(`"stream":false,`), Want: whole(`"stream":false,`)},
			{Kind: "speak", Body: `{"model":"tts-1","input":"Hello!","voice":"alloy"}`, Want: `{"model":"tts-1","input":"Hello!","voice":"alloy"}`},
			{Kind: "image", Body: `{"model":"dall-e-3","prompt":"a cat"}`, Want: `{"model":"dall-e-3","prompt":"a cat","response_format":"b64_json"}`},
			{Kind: "image", Body: `{"model":"gpt-image-1","prompt":"a cat","n":2,"stream":true}`, Want: `{"model":"gpt-image-1","prompt":"a cat","n":2}`},
		},
		Answers: []conformance.ModelAnswer{
			{Say: "hi", Text: "hi", Usage: models.Usage{Input: 19, Cached: 4, Output: 10}},
			{Say: "tools", Finish: "tool_calls", Result: `"content":null,"tool_calls":[{"id":"call_DdmO9pD3xa9XTPNJ32zg2hcA","type":"function","function":{"name":"get_weather","arguments":"{\"at\":1}"}},{"id":"call_2","type":"function","function":{"name":"other","arguments":"{}"}}]`},
			// What came whole is kept whole, on one line, also what nobody here knows.
			{Body: whole(`"stream":false,`), Text: "Hello <you>", Result: result, Usage: models.Usage{Input: 19, Output: 10}},
			{Body: whole(`"logprobs":true,`), Text: "Hello <you>", Result: result, Usage: models.Usage{Input: 19, Output: 10}},
			{Name: "a server that does not stream", Body: whole(""), Text: "Hello <you>", Result: result, Usage: models.Usage{Input: 19, Output: 10}},
			// What OpenRouter says of the cache and of the cost, in a stream and whole.
			{Say: "events " + ended + "\n" + `{"choices":[],` + stated + "}\n[DONE]", Text: "a", Usage: models.Usage{Input: 19, Cached: 4, Written: 15, Output: 10, Cost: 420}},
			{Say: `whole {"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],` + stated + "}", Text: "a", Usage: models.Usage{Input: 19, Cached: 4, Written: 15, Output: 10, Cost: 420}},
			{Body: `{"model":"m","prompt":"Say this"}`, Text: "\n\nThis is", Usage: models.Usage{Input: 1, Output: 2}},
			{Body: `{"model":"m","input":"text"}`, Result: "[-0.0069,0.0024]", Usage: models.Usage{Input: 5}},
			{Name: "comments, CRLF, names", Say: "raw : ping\r\n\r\nevent: x\r\nid: 1\r\ndata:" + ended + "\r\n\r\ndata: [DONE]\r\n\r\n", Text: "a"},
			{Name: "no DONE, no last line", Say: `raw data: {"choices":[{"delta":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}`, Text: "a"},
			{Name: "nulls", Say: `events {"choices":[{"delta":{"content":null,"tool_calls":null}}],"usage":null,"error":null}` + "\n" + `{"choices":[{"delta":{"content":"a"}}]}` + "\n" + `{"choices":null}` + "\n[DONE]", Text: "a"},
			{Name: "reasoning", Say: `events {"choices":[{"delta":{"reasoning_content":"hm"}}]}` + "\n" + ended, Text: "a", Result: `"reasoning_content":"hm"`},
			{Kind: "image", Body: `{"model":"dall-e-3","prompt":"a cat"}`, Result: png, Type: "image/png", Usage: models.Usage{Input: 50, Output: 50}},
			{Kind: "image", Body: `{"model":"gpt-image-1","prompt":"a cat","n":2,"stream":true}`, Result: `{"created":1713833628,"data":[{`, Usage: models.Usage{Input: 50, Output: 50}},
			{Kind: "speak", Body: `{"model":"tts-1","input":"Hello!","voice":"alloy"}`, Result: "ID3\x00\xff\n", Type: "audio/mpeg", Usage: models.Usage{Input: 2, Estimated: true}},
		},
		Refusals: []conformance.ModelRefusal{
			conformance.Refused(`status 401 {"error":{"message":"Incorrect API key provided: k-secret-0123456789"}}`, fsys.Unavailable, "the key was refused; see TEST_API_KEY"),
			conformance.Refused(`status 400 {"error":{"message":"Invalid value k-secret-0123456789","type":"invalid_request_error"}}`, fsys.Invalid, "the server says: Invalid value [secret]"),
			conformance.Refused(`status 404 {"error":{"message":"model \"x\" not found, try pulling it first"}}`, fsys.NotExist, `the server says: model "x" not found, try pulling it first`),
			conformance.Refused(`status 404 {"error":"model 'x' not found"}`, fsys.NotExist, "the server says: model 'x' not found"),
			conformance.Refused(`status 422 {"detail":[{"loc":["body"],"msg":"field required"}]}`, fsys.Invalid, "the server says: Unprocessable Entity"),
			conformance.Refused(`status 413 too much`, fsys.TooLarge, "the server says: too much"),
			conformance.Refused(`status 500 {"error":{"message":"The server had an error"}}`, fsys.Unavailable, "the server says: The server had an error"),
			conformance.Refused(`status 502 <html><body>Bad Gateway</body></html>`, fsys.Unavailable, "the server says: Bad Gateway"),
			conformance.Refused(`status 503`, fsys.Unavailable, "the server says: Service Unavailable"),
			conformance.Refused(`status 504`, fsys.Timeout, "the server says: Gateway Timeout"),
			conformance.Refused(`raw data: {"error":{"message":"overloaded"}}`+"\n\n", fsys.Unavailable, "the server broke off: overloaded"),
			conformance.Refused("raw data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n", fsys.Unavailable, "the server ended the answer in the middle"),
			conformance.Refused("raw data: nonsense\n\n", fsys.Unavailable, "the server streams something that is not an answer"),
			conformance.Refused("abort", fsys.Unavailable, "TARGET: the server ended the connection in the middle"),
		},
	})
}

// bare is a provider of a server that answers all requests so.
func bare(t *testing.T, answer http.HandlerFunc) *Provider {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	p, err := New(Config{BaseURL: s.URL, Free: true})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// An answer that is an error, and says what it used, is billed like another.
func TestAnErrorThatUsedSomething(t *testing.T) {
	p := bare(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"error":{"message":"no"},"usage":{"prompt_tokens":40,"completion_tokens":60,"total_tokens":100}}`)
	})
	_, got, err := conformance.RunModel(t, p, models.Ask("gpt-test", "hi"))
	if want := (models.Usage{Input: 40, Output: 60}); fsys.CodeOf(err) != fsys.Unavailable || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

// A server that does not know stream_options is asked without.
func TestPickyServer(t *testing.T) {
	p := bare(t, func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), "stream_options") {
			w.WriteHeader(400)
			io.WriteString(w, `{"error":{"message":"Extra inputs are not permitted: stream_options","type":"invalid_request_error"}}`)
			return
		}
		io.WriteString(w, "data: "+script.Say("fine")+"\n\ndata: "+stop+"\n\ndata: [DONE]\n\n")
	})
	if chunks, _, err := conformance.RunModel(t, p, models.Ask("", "hi")); err != nil || chunks[0].Text != "fine" {
		t.Errorf("got %+v, %v", chunks, err)
	}
}

// An answer that says that it was served in a dearer way than was asked for costs
// that; one that says a cheaper one costs what was held for.
func TestServedDearer(t *testing.T) {
	p, err := New(Config{BaseURL: conformance.NewModelServer(t, script).URL})
	if err != nil {
		t.Fatal(err)
	}
	const stream = `events {"service_tier":"TIER","choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}` + "\n" + `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}` + "\n[DONE]"
	for _, say := range []string{stream, wholeText} {
		for _, c := range []struct {
			asked, way string
			want       int64
		}{
			{`"x"`, "priority", 250}, {`null`, "priority", 250}, {`"auto"`, "priority", 250}, {`"flex"`, "priority", 250},
			{`"priority"`, "priority", 0}, {`"priority"`, "default", 0}, {`"auto"`, "default", 0}, {`"auto"`, "unheard of", 0},
		} {
			body := fmt.Sprintf(`{"service_tier":%s,"messages":[{"role":"user","content":%q}]}`, c.asked, strings.ReplaceAll(say, "TIER", c.way))
			if _, usage, err := conformance.RunModel(t, p, conformance.ParseModelRequest(t, "", body)); err != nil || usage.Percent != c.want || usage.Estimated {
				t.Errorf("%s: got %+v, %v, want %d %%", body, usage, err, c.want)
			}
		}
	}
}

func TestModels(t *testing.T) {
	for list, want := range map[string][]models.Model{
		`{"object":"list","data":null}`:                                        {{Name: "*"}},
		`{"data":[{"id":"/models/x.gguf","owned_by":"llamacpp"}]}`:             {{Name: "/models/x.gguf"}, {Name: "*"}},
		`{"data":[{"id":"a","max_model_len":4096},{"id":"a"},{"id":"embed"}]}`: {{Name: "a", Context: 4096}, {Name: "embed", Kinds: []models.Kind{models.Embeddings}}},
	} {
		got, err := bare(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, list) }).Models(t.Context())
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v, want %+v", list, got, err, want)
		}
	}
}

// Another provider's key in the environment is not sent.
func TestEnvironment(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "k-secret")
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
	got := make(chan string, 1)
	p := bare(t, func(w http.ResponseWriter, r *http.Request) {
		got <- r.URL.Path + " " + r.Header.Get("Authorization")
		io.WriteString(w, `{"data":[]}`)
	})
	if _, err := p.Models(t.Context()); err != nil {
		t.Fatal(err)
	}
	if path := <-got; path != "/v1/models " || !p.Info().Free {
		t.Errorf("asked %q; free: %v", path, p.Info().Free)
	}
}
