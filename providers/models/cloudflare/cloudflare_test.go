package cloudflare

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"agent9/conformance"
	"agent9/fsys"
	"agent9/providers/models"
)

const secret = "cf-secret-0123456789"

func provider(t *testing.T, url string) *Provider {
	t.Helper()
	p, err := New(Config{Account: "acc1", BaseURL: url, Key: secret, KeyName: "TEST_TOKEN"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestConformance(t *testing.T) {
	conformance.TestCompute(t, conformance.Compute{
		Provider:   provider(t, newServer(t).URL),
		Model:      llama,
		Say:        "hello wörld 😀",
		Want:       "hello wörld 😀",
		Embed:      "@cf/baai/bge-base-en-v1.5",
		Slow:       "slow",
		Fail:       `status 429 {"result":null,"success":false,"errors":[{"code":3036,"message":"You have used up your daily free allocation"}],"messages":[]}`,
		FailCode:   fsys.Busy,
		FailReason: "daily free allocation",
	})
}

// The real API, when there is an account and a token.
func TestConformanceReal(t *testing.T) {
	account := os.Getenv("AGENT9_TEST_CLOUDFLARE_ACCOUNT")
	if account == "" {
		t.Skip("AGENT9_TEST_CLOUDFLARE_ACCOUNT is not set")
	}
	p, err := New(Config{Account: account, BaseURL: os.Getenv("AGENT9_TEST_CLOUDFLARE_URL"), Key: os.Getenv("AGENT9_TEST_CLOUDFLARE_KEY")})
	if err != nil {
		t.Fatal(err)
	}
	conformance.TestCompute(t, conformance.Compute{
		Provider: p,
		Model:    llama,
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

func parse(t *testing.T, kind models.Kind, body string) models.Request {
	t.Helper()
	b, err := models.ParseBody([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	req, err := models.ParseRequest(kind, b)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// Both forms of answers, in pieces and whole, say the same.
func TestForms(t *testing.T) {
	p := provider(t, newServer(t).URL)
	for name, say := range map[string]string{
		"own": `stream {"response":"Hel"}` + "\n" + `{"response":"lo","tool_calls":[{"name":"f","arguments":{"a":1}}]}` + "\n" + usage + "\n[DONE]",
		"OpenAI's": `stream {"choices":[{"index":0,"delta":{"role":"assistant","content":"Hel"}}]}` + "\n" + `{"choices":[{"index":0,"delta":{"content":"lo","tool_calls":[{"index":0,"id":"call_0","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]}}]}` + "\n" +
			`{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n" + `{"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":9,"total_tokens":21}}` + "\n[DONE]",
		"own, whole":      `whole {"result":{"response":"Hello","tool_calls":[{"name":"f","arguments":{"a":1}}],"usage":{"prompt_tokens":12,"completion_tokens":9}},"success":true,"errors":[]}`,
		"OpenAI's, whole": `whole {"result":{"choices":[{"index":0,"message":{"role":"assistant","content":"Hello","tool_calls":[{"id":"call_0","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":12,"completion_tokens":9}},"success":true}`,
	} {
		req := models.Ask(llama, say)
		chunks, used, err := run(t, p, req)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		a := models.NewAnswer(req)
		for _, c := range chunks {
			if err := a.Add(c); err != nil {
				t.Fatal(err)
			}
		}
		const want = `"message":{"role":"assistant","content":"Hello","tool_calls":[{"id":"call_0","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},"finish_reason":"tool_calls"}]`
		if got := string(a.Result(used)); !strings.Contains(got, want) || used != (models.Usage{Input: 12, Output: 9}) {
			t.Errorf("%s: got %s, %+v", name, got, used)
		}
	}
}

func TestJSONMode(t *testing.T) {
	chunks, _, err := run(t, provider(t, newServer(t).URL), models.Ask(llama, `whole {"result":{"response":{"a": 1}},"success":true}`))
	if err != nil || chunks[0].Text != `{"a": 1}` || chunks[1].Finish != "stop" {
		t.Errorf("got %+v, %v", chunks, err)
	}
}

func TestKinds(t *testing.T) {
	s := newServer(t)
	p := provider(t, s.URL)
	for _, c := range []struct {
		kind                   models.Kind
		body, sent, result, as string
	}{
		{models.Chat, `{"model":"` + llama + `","messages":[{"role":"user","content":"hi"}],"max_completion_tokens":5,"stream_options":{},"seed":1}`,
			`{"messages":[{"role":"user","content":"hi"}],"seed":1,"max_tokens":5,"stream":true}`, "", ""},
		{models.Complete, `{"model":"` + llama + `","prompt":"hi"}`, `{"prompt":"hi","stream":true}`, "", ""},
		{models.Embeddings, `{"model":"@cf/baai/bge-base-en-v1.5","input":["a"]}`, `{"text":["a"]}`,
			`{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.01,-0.02]}],"model":"@cf/baai/bge-base-en-v1.5","usage":{"prompt_tokens":2,"total_tokens":2}}`, ""},
		{models.Image, `{"model":"@cf/black-forest-labs/flux-1-schnell","prompt":"cat","steps":4,"n":1,"size":"auto"}`, `{"prompt":"cat","steps":4}`, png, "image/png"},
		{models.Image, `{"model":"@cf/stabilityai/sdxl","prompt":"cat","size":"512x256"}`, `{"prompt":"cat","width":512,"height":256}`, png, "image/png"},
	} {
		chunks, _, err := run(t, p, parse(t, c.kind, c.body))
		if err != nil {
			t.Errorf("%s: %v", c.body, err)
			continue
		}
		last := chunks[len(chunks)-1]
		if sent := <-s.bodies; sent != c.sent || string(last.Result) != c.result || last.Type != c.as {
			t.Errorf("%s:\nsent %s, got %q of type %q", c.body, sent, last.Result, last.Type)
		}
	}
}

func TestRefusals(t *testing.T) {
	p := provider(t, newServer(t).URL)
	for _, c := range []struct {
		say    string
		code   fsys.Code
		reason string
	}{
		{`status 400 {"success":false,"errors":[{"code":5007,"message":"No such model @cf/x or task"}]}`, fsys.NotExist, "the server says: No such model @cf/x or task"},
		{`status 401 {"success":false,"errors":[{"code":10000,"message":"Authentication error ` + secret + `"}]}`, fsys.Unavailable, "the key was refused; see TEST_TOKEN"},
		{`status 408 {"success":false,"errors":[{"code":3007,"message":"Request timeout"}]}`, fsys.Timeout, "the server says: Request timeout"},
		{`status 400 {"errors":[{"code":5006,"message":"Error: required properties ` + secret + `"}]}`, fsys.Invalid, "the server says: Error: required properties [secret]"},
		{`stream {"response":"a"}` + "\n" + `{"errors":[{"code":3040,"message":"out of capacity"}]}`, fsys.Unavailable, "the server broke off: out of capacity"},
		{`stream {"response":"a"}`, fsys.Unavailable, "the server ended the answer in the middle"},
		{`whole {"success":false,"errors":[{"message":"no"}]}`, fsys.Unavailable, "the server broke off: no"},
	} {
		if _, _, err := run(t, p, models.Ask(llama, c.say)); err == nil || fsys.CodeOf(err) != c.code || fsys.ReasonOf(err) != c.reason {
			t.Errorf("%s: got %v %q", c.say, fsys.CodeOf(err), fsys.ReasonOf(err))
		}
	}
	for _, req := range []models.Request{
		models.Ask("", "hi"), models.Ask("../../../user", "hi"), models.Ask("a?b", "hi"), models.Ask("a/../b", "hi"),
		parse(t, models.Chat, `{"model":"m","messages":[{"role":"user","content":"a"}],"n":2}`),
		parse(t, models.Image, `{"model":"m","prompt":"a","n":2}`),
		parse(t, models.Image, `{"model":"m","prompt":"a","size":"big"}`),
	} {
		if _, used, err := run(t, p, req); fsys.CodeOf(err) != fsys.Invalid || used != (models.Usage{}) {
			t.Errorf("%s: got %v", req.Body.Bytes(), err)
		}
	}
}

func TestModels(t *testing.T) {
	got, err := provider(t, newServer(t).URL).Models(t.Context())
	text := []models.Kind{models.Chat, models.Complete}
	want := []models.Model{
		{Name: llama, Context: 24000, Kinds: text, Price: &models.Price{Input: 293_000, Cached: 293_000, Output: 2_253_000}},
		{Name: "@cf/new/model", Kinds: text, Price: &models.Price{Input: 17_124, Cached: 17_124, Output: 2_000_000}},
		{Name: "@cf/black-forest-labs/flux-1-schnell", Kinds: []models.Kind{models.Image}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
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
