package ollama

import (
	"fmt"
	"os"
	"reflect"
	"testing"
	"time"

	"agent9/conformance"
	"agent9/fsys"
	"agent9/providers/models"
)

func provider(t *testing.T, url string) *Provider {
	t.Helper()
	p, err := New(Config{BaseURL: url})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestConformance(t *testing.T) {
	conformance.TestCompute(t, conformance.Compute{
		Provider:   provider(t, newServer(t).URL),
		Model:      "tiny",
		Say:        "hello wörld 😀",
		Want:       "hello wörld 😀",
		Embed:      "embed",
		Slow:       "slow",
		Fail:       `status 404 {"error":"model 'tiny' not found"}`,
		FailCode:   fsys.NotExist,
		FailReason: "model 'tiny' not found",
	})
}

// A real server, when its address is given: the model's words are its own.
func TestConformanceReal(t *testing.T) {
	url := os.Getenv("AGENT9_TEST_OLLAMA_URL")
	if url == "" {
		t.Skip("AGENT9_TEST_OLLAMA_URL is not set to the URL of a server")
	}
	conformance.TestCompute(t, conformance.Compute{
		Provider: provider(t, url),
		Model:    os.Getenv("AGENT9_TEST_OLLAMA_MODEL"),
		Embed:    os.Getenv("AGENT9_TEST_OLLAMA_EMBED"),
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

func TestTranslate(t *testing.T) {
	s := newServer(t)
	p := provider(t, s.URL)
	for body, want := range map[string]string{
		`{"model":"tiny","messages":[{"role":"developer","content":"s"},{"role":"user","content":"hi"}]}`: `{"model":"tiny","options":{},"stream":true,"messages":[{"role":"system","content":"s"},{"role":"user","content":"hi"}]}`,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAEC"}}]}],"max_tokens":5,"temperature":0.50,"stop":"x","seed":null,"options":{"num_ctx":4096,"temperature":1},"keep_alive":"5m","store":true,"response_format":{"type":"json_object"},"reasoning_effort":"none"}`: `{"model":"m","keep_alive":"5m","options":{"temperature":1,"stop":["x"],"num_ctx":4096,"num_predict":5},"stream":true,"format":"json","think":false,"messages":[{"role":"user","content":"hi","images":["AAEC"]}]}`,
		`{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"7","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}}]},{"role":"tool","tool_call_id":"7","content":"ok"}],"tools":[{"type":"function","function":{"name":"f"}}],"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"object"}}},"think":"high"}`:     `{"tools":[{"type":"function","function":{"name":"f"}}],"think":"high","options":{},"stream":true,"format":{"type":"object"},"messages":[{"role":"assistant","content":"","tool_calls":[{"id":"7","function":{"name":"f","arguments":{"a":1}}}]},{"role":"tool","content":"ok","tool_name":"f","tool_call_id":"7"}]}`,
		`{"model":"m","prompt":"Why?","suffix":"!","max_tokens":3}`:                `{"model":"m","suffix":"!","options":{"num_predict":3},"stream":true,"prompt":"Why?"}`,
		`{"model":"m","input":["a","b"],"dimensions":2,"encoding_format":"float"}`: `{"model":"m","input":["a","b"],"dimensions":2}`,
	} {
		if _, _, err := run(t, p, parse(t, body)); err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		if sent := <-s.bodies; sent != want {
			t.Errorf("%s:\nsent %s\nwant %s", body, sent, want)
		}
	}
}

func TestWhatCannotBeTranslated(t *testing.T) {
	p := provider(t, "http://127.0.0.1:1")
	for _, body := range []string{
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x/y.png"}}]}]}`,
		`{"messages":[{"role":"user","content":[{"type":"input_audio"}]}]}`,
		`{"messages":[{"role":"assistant","tool_calls":[{"function":{"arguments":"{"}}]}]}`,
		`{"messages":[{"role":"user","content":"a"}],"n":2}`,
		`{"messages":[{"role":"user","content":"a"}],"options":7}`,
		`{"messages":[{"role":"user","content":"a"}],"response_format":{"type":"xml"}}`,
		`{"messages":[{"role":"user","content":"a"}],"reasoning_effort":7}`,
	} {
		if _, usage, err := run(t, p, parse(t, body)); fsys.CodeOf(err) != fsys.Invalid || usage != (models.Usage{}) {
			t.Errorf("%s: got %v", body, err)
		}
	}
}

func TestToolCalls(t *testing.T) {
	req := models.Ask("tiny", "tools")
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
	const want = `{"object":"chat.completion","model":"tiny","choices":[{"index":0,"message":{"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[{"id":"call_0","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Tokyo\"}"}},{"id":"call_x","type":"function","function":{"name":"now","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":26,"completion_tokens":282,"total_tokens":308}}`
	if got := string(a.Result(usage)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Ollama does not count a prompt that it has in its cache.
func TestCounts(t *testing.T) {
	p := provider(t, newServer(t).URL)
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
		chunks, got, err := run(t, p, req)
		if err != nil || got != want || chunks[0].Finish != "length" {
			t.Errorf("%s: got %+v, %v, want %+v", fields, got, err, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	p := provider(t, newServer(t).URL)
	for say, want := range map[string]string{
		`status 400 {"error":"\"tiny\" does not support tools"}`:       `the server says: "tiny" does not support tools`,
		`status 500 {"error":"model runner has unexpectedly stopped"}`: "the server says: model runner has unexpectedly stopped",
		`raw {"error":"an error was encountered while running"}`:       "the server broke off: an error was encountered while running",
		`raw {"message":{"content":"a"}}`:                              "the server ended the answer in the middle",
		`raw <html>`:                                                   "the server's response is not what it should be",
	} {
		if _, _, err := run(t, p, models.Ask("", say)); err == nil || fsys.ReasonOf(err) != want {
			t.Errorf("%s: got %v, want %s", say, err, want)
		}
	}
}

func TestOtherKinds(t *testing.T) {
	p := provider(t, newServer(t).URL)
	chunks, usage, err := run(t, p, parse(t, `{"model":"tiny","prompt":"Why?"}`))
	if err != nil || chunks[0].Text != "The" || chunks[1].Finish != "length" || usage != (models.Usage{Input: 26, Output: 259}) {
		t.Errorf("completion: got %+v, %+v, %v", chunks, usage, err)
	}
	chunks, usage, err = run(t, p, parse(t, `{"model":"embed","input":["a","b"]}`))
	const want = `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.010071029,-0.0017594862]},{"object":"embedding","index":1,"embedding":[1,2]}],"model":"embed","usage":{"prompt_tokens":8,"total_tokens":8}}`
	if err != nil || string(chunks[0].Result) != want || usage != (models.Usage{Input: 8}) {
		t.Errorf("embeddings: got %+v, %+v, %v", chunks, usage, err)
	}
	if models.NewRunner("p", p).Can(models.Speak) {
		t.Error("it says that it speaks")
	}
}

func TestModels(t *testing.T) {
	s := newServer(t)
	p := provider(t, s.URL)
	want := []models.Model{
		{Name: "tiny:latest", Context: 8192, Kinds: []models.Kind{models.Chat, models.Complete}},
		{Name: "embed:latest", Context: 512, Kinds: []models.Kind{models.Embeddings}},
		{Name: "odd:latest"},
	}
	for range 2 {
		if got, err := p.Models(t.Context()); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	if n := len(s.bodies); n != 4 { // what was told is not asked again
		t.Errorf("asked about models %d times, want 4", n)
	}
}

func TestConfig(t *testing.T) {
	for url, want := range map[string]string{"": BaseURL, "http://x:1/": "http://x:1"} {
		if p, err := New(Config{BaseURL: url}); err != nil || p.Info().Target != want || !p.Info().Free {
			t.Errorf("%q: got %v", url, err)
		}
	}
	if _, err := New(Config{BaseURL: "localhost:11434"}); fsys.CodeOf(err) != fsys.Invalid {
		t.Errorf("got %v", err)
	}
}
