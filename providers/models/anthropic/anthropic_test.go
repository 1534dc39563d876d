package anthropic

import (
	"os"
	"strings"
	"testing"
	"time"

	"agent9/conformance"
	"agent9/fsys"
	"agent9/providers/models"
)

const secret = "sk-ant-secret-0123456789"

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
		Model:      "claude-sonnet-4-5-20250929",
		Say:        "hello wörld 😀",
		Want:       "hello wörld 😀",
		Slow:       "slow",
		Fail:       `status 429 {"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your rate limit"},"request_id":"req_1"}`,
		FailCode:   fsys.Busy,
		FailReason: "exceed your rate limit",
	})
}

// The real API, when there is a key: the model's words are its own.
func TestConformanceReal(t *testing.T) {
	key := os.Getenv("AGENT9_TEST_ANTHROPIC_KEY")
	if key == "" {
		t.Skip("AGENT9_TEST_ANTHROPIC_KEY is not set")
	}
	p, err := New(Config{BaseURL: os.Getenv("AGENT9_TEST_ANTHROPIC_URL"), Key: key})
	if err != nil {
		t.Fatal(err)
	}
	conformance.TestCompute(t, conformance.Compute{
		Provider: p,
		Model:    os.Getenv("AGENT9_TEST_ANTHROPIC_MODEL"),
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
	req, err := models.ParseRequest(models.Chat, b)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func TestUsage(t *testing.T) {
	p := provider(t, newServer(t).URL)
	_, got, err := run(t, p, models.Ask("m", "hi"))
	if want := (models.Usage{Input: 128, Cached: 100, Written: 3, Output: 15}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	// The prompt is known from the beginning, the answer only at the end.
	_, got, err = run(t, p, models.Ask("m", "cut"))
	if want := (models.Usage{Input: 128, Cached: 100, Written: 3, Output: 2, Estimated: true}); err == nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

// An answer that was served in a dearer way than was asked for costs that.
func TestServedDearer(t *testing.T) {
	p := provider(t, newServer(t).URL)
	for _, c := range []struct {
		asked, way string
		want       int64
	}{
		{`"x":1`, `\"inference_geo\":\"us\"`, 110}, {`"inference_geo":"us"`, `\"inference_geo\":\"us\"`, 0}, {`"x":1`, `\"inference_geo\":\"us\",\"speed\":\"fast\"`, 660},
		{`"speed":"fast"`, `\"inference_geo\":\"us\",\"speed\":\"fast\"`, 110}, {`"x":1`, `\"inference_geo\":null,\"service_tier\":\"priority\"`, 0},
	} {
		_, usage, err := run(t, p, parse(t, `{`+c.asked+`,"messages":[{"role":"user","content":"served `+c.way+`"}]}`))
		if err != nil || usage.Percent != c.want || usage.Estimated {
			t.Errorf("%s, and %s: got %+v, %v, want %d %%", c.asked, c.way, usage, err, c.want)
		}
	}
}

func TestToolCalls(t *testing.T) {
	req := models.Ask("m", "tools")
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
	const want = `{"id":"msg_1nZdL29xx5MUA1yADyHTEsnR8uuvGzszyy","object":"chat.completion","model":"claude-sonnet-4-5-20250929","choices":[{"index":0,"message":{"role":"assistant","content":null,"reasoning_content":"Let me look.",` +
		`"tool_calls":[{"id":"toolu_01T1x1fJ34qAmk2tNTrN7Up6","type":"function","function":{"name":"get_weather","arguments":"{\"location\": \"Rome\"}"}},{"id":"toolu_2","type":"function","function":{"name":"now","arguments":"{}"}}],` +
		`"thinking_blocks":[{"type":"thinking","thinking":"Let me look.","signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3h"},{"type":"redacted_thinking","data":"EmwKAhgB"}]},"finish_reason":"tool_calls"}],` +
		`"usage":{"prompt_tokens":128,"completion_tokens":15,"total_tokens":143,"prompt_tokens_details":{"cached_tokens":100}}}`
	if got := string(a.Result(usage)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestFinish(t *testing.T) {
	p := provider(t, newServer(t).URL)
	for reason, want := range map[string]string{"stop_sequence": "stop", "max_tokens": "length", "refusal": "content_filter", "model_context_window_exceeded": "length", "pause_turn": "pause_turn"} {
		if chunks, _, err := run(t, p, models.Ask("m", "stop "+reason)); err != nil || chunks[0].Finish != want {
			t.Errorf("%s: got %+v, %v, want %s", reason, chunks, err, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	p := provider(t, newServer(t).URL)
	for _, c := range []struct {
		say    string
		code   fsys.Code
		reason string
		free   bool
	}{
		{`status 401 {"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key ` + secret + `"}}`, fsys.Unavailable, "the key was refused; see TEST_API_KEY", true},
		{`status 400 {"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: ` + secret + `"}}`, fsys.Invalid, "the server says: max_tokens: [secret]", true},
		{`status 404 {"type":"error","error":{"type":"not_found_error","message":"model: claude-x"}}`, fsys.NotExist, "the server says: model: claude-x", true},
		{`status 413 {"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`, fsys.TooLarge, "the server says: Request exceeds the maximum size", true},
		{`status 529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, fsys.Unavailable, "the server says: Overloaded", true},
		{"break overloaded_error", fsys.Unavailable, "the server broke off: No more", false},
		{"break rate_limit_error", fsys.Busy, "the server broke off: No more", false},
		{"cut", fsys.Unavailable, "the server ended the answer in the middle", false},
	} {
		_, usage, err := run(t, p, models.Ask("m", c.say))
		if err == nil || fsys.CodeOf(err) != c.code || fsys.ReasonOf(err) != c.reason {
			t.Errorf("%s: got %v %q, want %v %q", c.say, fsys.CodeOf(err), fsys.ReasonOf(err), c.code, c.reason)
			continue
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the key is in %v", c.say, err)
		}
		if c.free != (usage == models.Usage{}) || c.free != (models.RetryAfter(err) == 9*time.Second) {
			t.Errorf("%s: the usage is %+v, and to wait %v", c.say, usage, models.RetryAfter(err))
		}
	}
}

func TestModelsHavePrices(t *testing.T) {
	all, err := provider(t, newServer(t).URL).Models(t.Context())
	if err != nil || all[0].Context != 200_000 || all[0].Price == nil || all[0].Price.Output != 15_000_000 {
		t.Errorf("got %+v, %v", all, err)
	}
}

func TestConfig(t *testing.T) {
	for url, want := range map[string]string{"": BaseURL, "https://api.anthropic.com/v1": BaseURL, "http://x/proxy/": "http://x/proxy"} {
		if p, err := New(Config{BaseURL: url}); err != nil || p.Info().Target != want || p.Info().Free {
			t.Errorf("%q: got %v, want %s", url, err, want)
		}
	}
	if _, err := New(Config{BaseURL: "x"}); fsys.CodeOf(err) != fsys.Invalid {
		t.Errorf("got %v", err)
	}
}
