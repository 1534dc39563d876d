package openai

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"agent9/conformance"
	"agent9/fsys"
	"agent9/providers/models"
)

const secret = "sk-secret-0123456789"

func provider(t *testing.T, url string) *Provider {
	t.Helper()
	p, err := New(Config{BaseURL: url, Key: secret, KeyName: "TEST_API_KEY"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestConformance(t *testing.T) {
	conformance.TestCompute(t, conformance.Compute{
		Provider:   provider(t, newServer(t).URL),
		Model:      "gpt-test",
		Say:        "hello wörld 😀",
		Want:       "hello wörld 😀",
		Embed:      "text-embedding-3-small",
		Slow:       "slow",
		Fail:       `status 429 {"error":{"message":"Rate limit reached for gpt-test","type":"requests","code":"rate_limit_exceeded"}}`,
		FailCode:   fsys.Busy,
		FailReason: "Rate limit reached",
	})
}

// A real server, when its address is given: the model's words are its own.
func TestConformanceReal(t *testing.T) {
	url := os.Getenv("AGENT9_TEST_OPENAI_URL")
	if url == "" {
		t.Skip("AGENT9_TEST_OPENAI_URL is not set to the URL of a server")
	}
	p, err := New(Config{BaseURL: url, Key: os.Getenv("AGENT9_TEST_OPENAI_KEY")})
	if err != nil {
		t.Fatal(err)
	}
	conformance.TestCompute(t, conformance.Compute{
		Provider: p,
		Model:    os.Getenv("AGENT9_TEST_OPENAI_MODEL"),
		Embed:    os.Getenv("AGENT9_TEST_OPENAI_EMBED"),
		Say:      "Say something short.",
		Slow:     "Write a very long story, of many thousands of words.",
		Bound:    30 * time.Second,
	})
}

func run(t *testing.T, p *Provider, req models.Request) ([]models.Chunk, models.Usage, error) {
	t.Helper()
	var chunks []models.Chunk
	usage, err := p.Run(t.Context(), req, func(c models.Chunk) error { chunks = append(chunks, c); return nil })
	return chunks, usage, err
}

func parse(t *testing.T, body string) models.Request {
	t.Helper()
	b, err := models.ParseBody([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	req, err := models.ParseRequest("", b)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func TestBodyGoesOutAsItIs(t *testing.T) {
	s := newServer(t)
	const body = `{"x_future":{"b":1.50,"a":[1e3]},"model":"gpt-test","messages":[{"role":"user","content":[{"type":"text","text":"whole"},{"type":"image_url","image_url":{"url":"data:,<&>"}}]}],"seed":12345678901234567890`
	if _, _, err := run(t, provider(t, s.URL), parse(t, body+`}`)); err != nil {
		t.Fatal(err)
	}
	if got, want := <-s.bodies, body+`,"stream":true,"stream_options":{"include_usage":true}}`; got != want {
		t.Errorf("sent %s\nwant %s", got, want)
	}
}

// However a client asks for a stream, its usage is asked for.
func TestUsageIsAskedFor(t *testing.T) {
	for options, want := range map[string]string{
		"null": `{"include_usage":true}`, "{}": `{"include_usage":true}`, `{"include_usage":false}`: `{"include_usage":true}`,
		`{"include_obfuscation":false}`: `{"include_obfuscation":false,"include_usage":true}`,
	} {
		s := newServer(t)
		req := parse(t, `{"model":"gpt-test","messages":[{"role":"user","content":"hi"}],"stream_options":`+options+`}`)
		if _, _, err := run(t, provider(t, s.URL), req); err != nil {
			t.Fatal(err)
		}
		if got := <-s.bodies; !strings.Contains(got, `"stream_options":`+want) {
			t.Errorf("%s: the body is %s", options, got)
		}
	}
}

// An answer that is an error, and says what it used, is billed like another.
func TestAnErrorThatUsedSomething(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"error":{"message":"no"},"usage":{"prompt_tokens":40,"completion_tokens":60,"total_tokens":100}}`)
	}))
	t.Cleanup(server.Close)
	_, got, err := run(t, provider(t, server.URL), models.Ask("gpt-test", "hi"))
	if want := (models.Usage{Input: 40, Output: 60}); fsys.CodeOf(err) != fsys.Unavailable || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestUsage(t *testing.T) {
	_, got, err := run(t, provider(t, newServer(t).URL), models.Ask("gpt-test", "hi"))
	if want := (models.Usage{Input: 19, Cached: 4, Output: 10}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

// What was written to the cache, and what the server says that it charges, as
// OpenRouter has it, in a stream and whole.
func TestStatedUsage(t *testing.T) {
	const usage = `"usage":{"prompt_tokens":19,"completion_tokens":10,"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":15},"cost":0.00042,"is_byok":false,"cost_details":{"upstream_inference_cost":null}}`
	for kind, body := range map[string]string{
		"text/event-stream": `data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}` + "\n\n" + `data: {"choices":[],` + usage + "}\n\ndata: [DONE]\n\n",
		"application/json":  `{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],` + usage + `}`,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			io.WriteString(w, body)
		}))
		t.Cleanup(server.Close)
		_, got, err := run(t, provider(t, server.URL), models.Ask("m", "hi"))
		if want := (models.Usage{Input: 19, Cached: 4, Written: 15, Output: 10, Cost: 420}); err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", kind, got, err, want)
		}
	}
}

func TestToolCalls(t *testing.T) {
	req := models.Ask("gpt-test", "tools")
	chunks, usage, err := run(t, provider(t, newServer(t).URL), req)
	if err != nil {
		t.Fatal(err)
	}
	a := models.NewAnswer(req)
	for _, c := range chunks {
		if err := a.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	var got struct {
		Choices []struct {
			Message struct {
				Content   *string
				ToolCalls json.RawMessage `json:"tool_calls"`
			}
			FinishReason string `json:"finish_reason"`
		}
	}
	if err := json.Unmarshal(a.Result(usage), &got); err != nil {
		t.Fatal(err)
	}
	const want = `[{"id":"call_DdmO9pD3xa9XTPNJ32zg2hcA","type":"function","function":{"name":"get_weather","arguments":"{\"at\":1}"}},{"id":"call_2","type":"function","function":{"name":"other","arguments":"{}"}}]`
	if c := got.Choices[0]; string(c.Message.ToolCalls) != want || c.FinishReason != "tool_calls" || c.Message.Content != nil {
		t.Errorf("got %s, finish %q", c.Message.ToolCalls, c.FinishReason)
	}
}

// What came whole is kept whole, also what nobody here knows.
func TestWholeResponse(t *testing.T) {
	s := newServer(t)
	for _, body := range []string{
		`{"stream":false,"messages":[{"role":"user","content":"whole"}]}`,
		`{"logprobs":true,"messages":[{"role":"user","content":"whole"}]}`,
		`{"messages":[{"role":"user","content":"whole"}]}`, // a server that does not stream
	} {
		chunks, usage, err := run(t, provider(t, s.URL), parse(t, body))
		if err != nil {
			t.Fatal(err)
		}
		last := chunks[len(chunks)-1]
		if chunks[0].Text != "Hello <you>" || usage.Output != 10 || !strings.Contains(string(last.Result), `"service_tier":"default"`) {
			t.Errorf("%s: got %+v", body, chunks)
		}
		if strings.Contains(string(last.Result), "\n") || !strings.Contains(string(last.Result), "Hello <you>") {
			t.Errorf("the result is not one line as it came: %s", last.Result)
		}
	}
	if sent := <-s.bodies; strings.Contains(sent, `"stream":true`) {
		t.Errorf("a request that does not want a stream was sent as %s", sent)
	}
}

// An answer that says that it was served in a dearer way than was asked for costs
// that; one that says a cheaper one costs what was held for.
func TestServedDearer(t *testing.T) {
	p := provider(t, newServer(t).URL)
	const stream = `raw data: {\"service_tier\":\"WAY\",\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n`
	for _, say := range []string{stream, "whole WAY"} {
		for _, c := range []struct {
			asked, way string
			want       int64
		}{
			{`"x"`, "priority", 250}, {`null`, "priority", 250}, {`"auto"`, "priority", 250}, {`"flex"`, "priority", 250},
			{`"priority"`, "priority", 0}, {`"priority"`, "default", 0}, {`"auto"`, "default", 0}, {`"auto"`, "unheard of", 0},
		} {
			body := `{"service_tier":` + c.asked + `,"messages":[{"role":"user","content":"` + strings.ReplaceAll(say, "WAY", c.way) + `"}]}`
			if _, usage, err := run(t, p, parse(t, body)); err != nil || usage.Percent != c.want || usage.Estimated {
				t.Errorf("%s: got %+v, %v, want %d %%", body, usage, err, c.want)
			}
		}
	}
}

func TestOtherKinds(t *testing.T) {
	p := provider(t, newServer(t).URL)
	chunks, usage, err := run(t, p, parse(t, `{"model":"m","prompt":"Say this"}`))
	if err != nil || chunks[0].Text+chunks[1].Text != "\n\nThis is" || usage.Output != 2 {
		t.Errorf("completion: got %+v, %+v, %v", chunks, usage, err)
	}
	chunks, usage, err = run(t, p, parse(t, `{"model":"m","input":"text"}`))
	if err != nil || len(chunks) != 1 || usage.Input != 5 || !strings.Contains(string(chunks[0].Result), "[-0.0069,0.0024]") {
		t.Errorf("embeddings: got %+v, %+v, %v", chunks, usage, err)
	}
}

func TestTolerance(t *testing.T) {
	p := provider(t, newServer(t).URL)
	for name, c := range map[string]struct{ stream, want string }{
		"comments, CRLF, names": {": ping\r\n\r\nevent: x\r\nid: 1\r\ndata:{\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\r\n\r\ndata: [DONE]\r\n\r\n", "a"},
		"no DONE, no last line": {"data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"a\"},\"finish_reason\":\"stop\"}]}", "a"},
		"nulls":                 {"data: {\"choices\":[{\"delta\":{\"content\":null,\"tool_calls\":null}}],\"usage\":null,\"error\":null}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"choices\":null}\n\ndata: [DONE]\n\n", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			chunks, _, err := run(t, p, models.Ask("", "raw "+c.stream))
			text := ""
			for _, c := range chunks {
				text += c.Text
			}
			if err != nil || text != c.want {
				t.Errorf("got %q, %v", text, err)
			}
		})
	}
	if chunks, _, err := run(t, p, models.Ask("", "picky")); err != nil || chunks[0].Text != "fine" {
		t.Errorf("a server without stream_options: got %+v, %v", chunks, err)
	}
	reasoning := `raw data: {"choices":[{"delta":{"reasoning_content":"hm"}}]}` + "\n\n" + `data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}` + "\n\n"
	if chunks, _, err := run(t, p, models.Ask("", reasoning)); err != nil || chunks[0].Reasoning != "hm" || chunks[0].Text != "" {
		t.Errorf("reasoning: got %+v, %v", chunks, err)
	}
}

func TestRefusals(t *testing.T) {
	p := provider(t, newServer(t).URL)
	for _, c := range []struct {
		say    string
		code   fsys.Code
		reason string
	}{
		{`status 401 {"error":{"message":"Incorrect API key provided: ` + secret + `"}}`, fsys.Unavailable, "the key was refused; see TEST_API_KEY"},
		{`status 400 {"error":{"message":"Invalid value ` + secret + `","type":"invalid_request_error"}}`, fsys.Invalid, "the server says: Invalid value [secret]"},
		{`status 404 {"error":{"message":"model \"x\" not found, try pulling it first"}}`, fsys.NotExist, `the server says: model "x" not found, try pulling it first`},
		{`status 404 {"error":"model 'x' not found"}`, fsys.NotExist, "the server says: model 'x' not found"},
		{`status 422 {"detail":[{"loc":["body"],"msg":"field required"}]}`, fsys.Invalid, "the server says: Unprocessable Entity"},
		{`status 413 too much`, fsys.TooLarge, "the server says: too much"},
		{`status 500 {"error":{"message":"The server had an error"}}`, fsys.Unavailable, "the server says: The server had an error"},
		{`status 502 <html><body>Bad Gateway</body></html>`, fsys.Unavailable, "the server says: Bad Gateway"},
		{`status 503`, fsys.Unavailable, "the server says: Service Unavailable"},
		{`status 504`, fsys.Timeout, "the server says: Gateway Timeout"},
		{`raw data: {"error":{"message":"overloaded"}}` + "\n\n", fsys.Unavailable, "the server broke off: overloaded"},
		{"raw data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n", fsys.Unavailable, "the server ended the answer in the middle"},
		{"raw data: nonsense\n\n", fsys.Unavailable, "the server streams something that is not an answer"},
		{"cut", fsys.Unavailable, p.Info().Target + ": the server ended the connection in the middle"},
	} {
		_, usage, err := run(t, p, models.Ask("", c.say))
		if err == nil || fsys.CodeOf(err) != c.code || fsys.ReasonOf(err) != c.reason {
			t.Errorf("%s: got %v %q, want %v %q", c.say, fsys.CodeOf(err), fsys.ReasonOf(err), c.code, c.reason)
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the key is in %v", c.say, err)
		}
		if refused := strings.HasPrefix(c.say, "status") && c.code != fsys.Timeout; refused != (usage == models.Usage{}) {
			t.Errorf("%s: the usage is %+v", c.say, usage)
		}
	}
}

func TestNobodyThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	p := provider(t, "http://"+address)
	_, usage, err := run(t, p, models.Ask("", "hi"))
	if fsys.CodeOf(err) != fsys.Unavailable || !strings.Contains(fsys.ReasonOf(err), "connection refused") || usage != (models.Usage{}) {
		t.Errorf("got %v, %+v", err, usage)
	}
	if _, err := p.Models(t.Context()); fsys.CodeOf(err) != fsys.Unavailable {
		t.Errorf("Models: got %v", err)
	}
}

// A request that a server has taken and does not answer has cost its prompt.
func TestSilentServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	usage, err := provider(t, newServer(t).URL).Run(ctx, models.Ask("", "silent"), func(models.Chunk) error { return nil })
	if fsys.CodeOf(err) != fsys.Timeout || usage.Input == 0 || !usage.Estimated {
		t.Errorf("got %+v, %v", usage, err)
	}
}

func TestModels(t *testing.T) {
	for list, want := range map[string][]models.Model{
		`{"object":"list","data":null}`:                                        {{Name: "*"}},
		`{"data":[{"id":"/models/x.gguf","owned_by":"llamacpp"}]}`:             {{Name: "/models/x.gguf"}, {Name: "*"}},
		`{"data":[{"id":"a","max_model_len":4096},{"id":"a"},{"id":"embed"}]}`: {{Name: "a", Context: 4096}, {Name: "embed", Kinds: []models.Kind{models.Embeddings}}},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(list)) }))
		got, err := provider(t, s.URL).Models(t.Context())
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v, want %+v", list, got, err, want)
		}
		s.Close()
	}
}

func TestConfig(t *testing.T) {
	for _, url := range []string{"", "localhost:1", "ftp://x", "http://", "http://u:p@x", "http://x/?key=1"} {
		if _, err := New(Config{BaseURL: url}); fsys.CodeOf(err) != fsys.Invalid {
			t.Errorf("%q: got %v", url, err)
		}
	}
	// Another provider's key in the environment is not sent.
	t.Setenv("OPENAI_API_KEY", secret)
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
	got := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r.URL.Path + " " + r.Header.Get("Authorization")
		w.Write([]byte(`{"data":[]}`))
	}))
	defer s.Close()
	p, err := New(Config{BaseURL: s.URL, Free: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Models(t.Context()); err != nil {
		t.Fatal(err)
	}
	if path := <-got; path != "/v1/models " || !p.Info().Free {
		t.Errorf("asked %q; free: %v", path, p.Info().Free)
	}
}
