package models_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"agent9/conformance"
	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/models"
	"agent9/providers/models/fake"
)

// broken is a fake provider with one mistake.
type broken struct {
	fake.Provider
	models []models.Model
	run    func(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error)
}

func (b *broken) Models(ctx context.Context) ([]models.Model, error) {
	if b.models != nil {
		return b.models, nil
	}
	return b.Provider.Models(ctx)
}

func (b *broken) Run(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
	if b.run != nil {
		return b.run(ctx, req, emit)
	}
	return b.Provider.Run(ctx, req, emit)
}

// Every rule of the suite finds the provider that breaks it.
func TestSuiteFindsWhatIsBroken(t *testing.T) {
	for want, breaks := range map[string]func(b *broken){
		"Models: there is none":   func(b *broken) { b.models = []models.Model{} },
		"Models: one has no name": func(b *broken) { b.models = []models.Model{{}} },
		"Models: \"fake\" is there twice": func(b *broken) {
			b.models = []models.Model{{Name: "fake"}, {Name: "fake"}}
		},
		"which can be asked, is not there": func(b *broken) { b.models = []models.Model{{Name: "x"}} },
		"chat is not among the kinds":      func(b *broken) { b.About = models.Info{Driver: "x"} },
		"the answer is \"\"": func(b *broken) {
			b.run = func(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
				return b.Provider.Run(ctx, req, func(c models.Chunk) error { c.Text = ""; return emit(c) })
			}
		},
		"want tokens in and out": func(b *broken) {
			b.run = func(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
				_, err := b.Provider.Run(ctx, req, emit)
				return models.Usage{}, err
			}
		},
		"the usage cannot be": func(b *broken) {
			b.run = func(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
				_, err := b.Provider.Run(ctx, req, emit)
				return models.Usage{Input: -1}, err
			}
		},
		"no chunk has a finish reason": func(b *broken) {
			b.run = func(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
				return b.Provider.Run(ctx, req, func(c models.Chunk) error { c.Finish = ""; return emit(c) })
			}
		},
		"a chunk has a part of a character": func(b *broken) {
			b.run = func(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
				emit(models.Chunk{Text: "\xe2"})
				return b.Provider.Run(ctx, req, emit)
			}
		},
		"the result is {}": func(b *broken) {
			b.run = func(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
				u, err := b.Provider.Run(ctx, req, emit)
				return u, errors.Join(err, emit(models.Chunk{Result: json.RawMessage("{}")}))
			}
		},
		"a chunk came after the result": func(b *broken) {
			b.run = func(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
				emit(models.Chunk{Result: json.RawMessage("{}")})
				return b.Provider.Run(ctx, req, emit)
			}
		},
		"a run that was stopped (emit failed) is not over": func(b *broken) {
			b.run = func(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
				return b.Provider.Run(ctx, req, func(c models.Chunk) error { emit(c); return nil })
			}
		},
		"a run that was stopped (canceled) is not over": func(b *broken) {
			b.run = func(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
				u, err := b.Provider.Run(ctx, req, emit)
				if ctx.Err() != nil {
					b.Provider.Run(context.WithoutCancel(ctx), models.Ask("", "deaf forever"), emit)
				}
				return u, err
			}
		},
		"a run that was stopped ended with": func(b *broken) {
			b.run = func(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
				u, err := b.Provider.Run(ctx, req, emit)
				if fsys.CodeOf(err) == fsys.Canceled {
					err = errors.New("oops")
				}
				return u, err
			}
		},
		"a run that was stopped in its answer says that it used nothing": func(b *broken) {
			b.run = func(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
				u, err := b.Provider.Run(ctx, req, emit)
				if err != nil {
					u = models.Usage{}
				}
				return u, err
			}
		},
		"cancelled before it began": func(b *broken) {
			b.run = func(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
				if ctx.Err() != nil {
					return models.Usage{}, nil
				}
				return b.Provider.Run(ctx, req, emit)
			}
		},
		"emit failed, and Run returned": func(b *broken) {
			b.run = func(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
				u, err := b.Provider.Run(ctx, req, emit)
				if fsys.CodeOf(err) == fsys.Internal && err != nil {
					err = fsys.Busy
				}
				return u, err
			}
		},
		"emit was called again after it had failed": func(b *broken) {
			b.run = func(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
				u, err := b.Provider.Run(ctx, req, emit)
				if fsys.CodeOf(err) == fsys.Internal && err != nil {
					emit(models.Chunk{Text: "more"})
				}
				return u, err
			}
		},
		"output is kept back until the end": func(b *broken) {
			b.run = func(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
				var kept []models.Chunk
				u, err := b.Provider.Run(ctx, req, func(c models.Chunk) error { kept = append(kept, c); return nil })
				for _, c := range kept {
					emit(c)
				}
				return u, err
			}
		},
		"a slow run was over before it was stopped": func(b *broken) {
			b.run = func(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
				if strings.HasPrefix(req.Last(), "begin") {
					return models.Estimate(req, 0), nil
				}
				return b.Provider.Run(ctx, req, emit)
			}
		},
		"a run that fails ended with": func(b *broken) {
			b.run = func(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
				u, err := b.Provider.Run(ctx, req, emit)
				if fsys.CodeOf(err) == fsys.Busy {
					err = nil
				}
				return u, err
			}
		},
		"the reason of a failure is \"\"": func(b *broken) {
			b.run = func(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
				u, err := b.Provider.Run(ctx, req, emit)
				if fsys.CodeOf(err) == fsys.Busy {
					err = fsys.Busy
				}
				return u, err
			}
		},
	} {
		t.Run(want, func(t *testing.T) {
			b := &broken{}
			breaks(b)
			defer b.Open("forever")
			err := conformance.CheckCompute(t.Context(), conformance.Compute{
				Provider: b, Model: "fake", Say: "hello;world", Want: "hello world ",
				Slow: "begin;wait forever", Fail: "fail busy too many", FailCode: fsys.Busy, FailReason: "too many",
				Bound: 300 * time.Millisecond, Start: 300 * time.Millisecond,
			})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("found: %v\nwant: %s", err, want)
			}
		})
	}
}

func TestNothingRunsUnpaid(t *testing.T) {
	p := &fake.Provider{}
	_, err := models.NewRunner("p", p).Run(t.Context(), nil, models.Ask("", "hi"), nil)
	if fsys.CodeOf(err) != fsys.Permission || p.Runs() != 0 {
		t.Errorf("got %v after %d runs", err, p.Runs())
	}
}

// paid runs req and returns the chunks.
func paid(t *testing.T, p models.Provider, req models.Request) ([]models.Chunk, models.Usage, error) {
	t.Helper()
	var chunks []models.Chunk
	usage, err := models.NewRunner("p", p).Run(t.Context(), new(budget.Hold), req, func(c models.Chunk) error {
		chunks = append(chunks, c)
		return nil
	})
	return chunks, usage, err
}

func TestRunnerComposesTheResult(t *testing.T) {
	chunks, _, err := paid(t, &fake.Provider{}, models.Ask("fake", "use 5 6;hello;call f {}"))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"object":"chat.completion","model":"fake","choices":[{"index":0,"message":{"role":"assistant","content":"hello ","tool_calls":[{"id":"call_0","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":6,"total_tokens":11}}`
	if got := string(chunks[len(chunks)-1].Result); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestRunnerCatchesPanics(t *testing.T) {
	_, usage, err := paid(t, &fake.Provider{}, models.Ask("", "say something;panic"))
	if err == nil || fsys.ReasonOf(err) != "the provider p crashed" || usage.Output < 3 || !usage.Estimated {
		t.Errorf("got %+v, %v", usage, err)
	}
}

func TestRunnerBoundsAnswers(t *testing.T) {
	long := "say " + strings.Repeat("x", 1<<20)
	_, _, err := paid(t, &fake.Provider{}, models.Ask("", strings.Repeat(long+";", 5)))
	if fsys.CodeOf(err) != fsys.TooLarge {
		t.Errorf("got %v", err)
	}
}

func TestRunnerRefusesOtherKinds(t *testing.T) {
	req := models.Ask("", "hi")
	req.Kind = models.Speak
	p := &fake.Provider{}
	if _, _, err := paid(t, p, req); fsys.CodeOf(err) != fsys.Unsupported || p.Runs() != 0 {
		t.Errorf("got %v", err)
	}
}

// Whatever driver says it, usage that cannot be is an estimate, in the end and in
// the chunks; only what failed before anything came may have used nothing.
// Tokens that a server counts beside the completion cost what those of it cost.
func TestThoughtIsOutput(t *testing.T) {
	for text, want := range map[string]models.Usage{
		`{"prompt_tokens":32,"completion_tokens":9,"total_tokens":41}`:                                                            {Input: 32, Output: 9},
		`{"prompt_tokens":32,"completion_tokens":1509,"total_tokens":1541,"completion_tokens_details":{"reasoning_tokens":1500}}`: {Input: 32, Output: 1509},
		`{"prompt_tokens":32,"completion_tokens":9,"total_tokens":1541,"completion_tokens_details":{"reasoning_tokens":1500}}`:    {Input: 32, Output: 1509},
		`{"prompt_tokens":32,"completion_tokens":9,"total_tokens":41,"completion_tokens_details":{"reasoning_tokens":1500}}`:      {Input: 32, Output: 1509},
		`{"prompt_tokens":32,"completion_tokens":9,"total_tokens":1541}`:                                                          {Input: 32, Output: 1509},
		`{"prompt_tokens":32,"completion_tokens":9}`:                                                                              {Input: 32, Output: 9},
		`{"prompt_tokens":32,"completion_tokens":-9,"total_tokens":1541}`:                                                         {Input: 32, Output: -9},
		`{"prompt_tokens":32,"total_tokens":1541}`:                                                                                {Input: 32, Output: -1},
	} {
		var u models.WireUsage
		if err := json.Unmarshal([]byte(text), &u); err != nil || u.Usage(models.Chat) != want {
			t.Errorf("%s: got %+v, %v", text, u.Usage(models.Chat), err)
		}
	}
}

// What servers say of writing to a cache, and of the cost, in the words of OpenRouter,
// OpenAI, Alibaba, LiteLLM and Anthropic.
func TestUsageOfOthers(t *testing.T) {
	const tokens = `"prompt_tokens":100,"completion_tokens":9`
	for text, want := range map[string]models.Usage{
		`"prompt_tokens_details":{"cached_tokens":20,"cache_write_tokens":30}`:                  {Cached: 20, Written: 30},
		`"prompt_tokens_details":{"cached_tokens":0,"cache_creation_input_tokens":30}`:          {Written: 30},
		`"prompt_tokens_details":{"cache_creation_tokens":30},"cache_creation_input_tokens":30`: {Written: 30},
		`"cache_creation_input_tokens":30,"cache_read_input_tokens":0`:                          {Written: 30},
		`"prompt_tokens_details":{"cache_write_tokens":30,"cache_creation_input_tokens":-1}`:    {Written: -1},
		`"prompt_tokens_details":null,"cost":null,"cost_details":null,"is_byok":null`:           {},
		`"cost":0.0042,"is_byok":false,"cost_details":{"upstream_inference_cost":0.0042}`:       {Cost: 4_200},
		`"cost":0.0002,"is_byok":true,"cost_details":{"upstream_inference_cost":0.0042}`:        {Cost: 4_400},
		`"cost":0,"is_byok":true,"cost_details":{"upstream_inference_cost":null}`:               {},
		`"cost":0,"is_byok":true,"cost_details":[]`:                                             {},
		`"cost":0,"is_byok":true,"cost_details":{"upstream_inference_cost":-1}`:                 {Cost: -1},
		`"cost":1e300,"is_byok":true,"cost_details":{"upstream_inference_cost":1e300}`:          {Cost: budget.Most},
		`"cost":"0.5"`:              {Cost: 500_000},
		`"cost":3.3e-7`:             {Cost: 1},
		`"cost":-0.5`:               {Cost: -1},
		`"cost":"NaN"`:              {Cost: -1},
		`"cost":{"total_cost":0.5}`: {Cost: -1},
		`"cost":1e300`:              {Cost: budget.Most},
	} {
		want.Input, want.Output = 100, 9
		var u models.WireUsage
		if err := json.Unmarshal([]byte(`{`+tokens+`,`+text+`}`), &u); err != nil || u.Usage(models.Chat) != want {
			t.Errorf("%s: got %+v, %v", text, u.Usage(models.Chat), err)
		}
	}
}

func TestUsageIsJudgedForAllDrivers(t *testing.T) {
	text := strings.Repeat("word ", 800)
	embed, _ := models.ParseBody([]byte(`{"input":"x"}`))
	image, _ := models.ParseBody([]byte(`{"prompt":"x"}`))
	embeddings, _ := models.ParseRequest("", embed)
	picture, _ := models.ParseRequest(models.Image, image)
	for name, c := range map[string]struct {
		req    models.Request
		say    string
		usage  models.Usage
		fails  error
		counts bool
	}{
		"right":                  {models.Ask("", "x"), text, models.Usage{Input: 1, Output: 1500}, nil, true},
		"right, and it failed":   {models.Ask("", "x"), text, models.Usage{Input: 1, Output: 1500}, fsys.Unavailable, true},
		"nothing":                {models.Ask("", "x"), text, models.Usage{}, nil, false},
		"nothing, and it failed": {models.Ask("", "x"), text, models.Usage{}, fsys.Unavailable, false},
		"nothing for nothing":    {models.Ask("", "x"), "", models.Usage{}, nil, false},
		"never arrived":          {models.Ask("", "x"), "", models.Usage{}, fsys.Unavailable, true},
		"too little":             {models.Ask("", "x"), text, models.Usage{Input: 1, Output: 1}, nil, false},
		"less than nothing":      {models.Ask("", "x"), text, models.Usage{Input: 1, Output: -1500}, nil, false},
		"a cost below nothing":   {models.Ask("", "x"), text, models.Usage{Input: 1, Output: 1500, Cost: -1}, nil, false},
		"a fee below nothing":    {models.Ask("", "x"), text, models.Usage{Input: 1, Output: 1500, Fees: -1, Estimated: true}, nil, false},
		"a cost, and no tokens":  {models.Ask("", "x"), text, models.Usage{Cost: 1}, nil, false},
		"more cached":            {models.Ask("", "x"), text, models.Usage{Input: 1, Cached: 2, Output: 1500}, nil, false},
		"more written":           {models.Ask("", "x"), text, models.Usage{Input: 2, Cached: 1, Written: 2, Output: 1500}, nil, false},
		"more than a context":    {models.Ask("", "x"), text, models.Usage{Input: 1 << 40, Output: 1500}, nil, false},
		"a longer answer":        {models.Ask("", "x"), text, models.Usage{Input: 1, Output: 1 << 62}, nil, false},
		"vectors":                {embeddings, "", models.Usage{Input: 1}, nil, true},
		"vectors of nothing":     {embeddings, "", models.Usage{Output: 1}, nil, false},
		"a picture":              {picture, "", models.Usage{Input: 1, Output: 1}, nil, true},
		"a picture of nothing":   {picture, "", models.Usage{Input: 1}, nil, false},
	} {
		b := &broken{run: func(_ context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
			if c.say != "" {
				emit(models.Chunk{Text: c.say})
			}
			if c.fails == nil {
				emit(models.Chunk{Usage: &c.usage, Result: []byte("{}")})
			}
			return c.usage, c.fails
		}}
		b.About = models.Info{Driver: "b", Kinds: models.Kinds}
		chunks, got, err := paid(t, b, c.req)
		if !errors.Is(err, c.fails) || c.counts != (got == c.usage) || c.counts == got.Estimated {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
		if c.fails == nil && c.say != "" && *chunks[len(chunks)-1].Usage != got {
			t.Errorf("%s: the chunks say %+v", name, chunks[len(chunks)-1].Usage)
		}
	}
}

func TestCatalogIsRemembered(t *testing.T) {
	p := &fake.Provider{}
	r := models.NewRunner("p", p)
	if c := r.Catalog(t.Context()); !c.Known || c.Err != nil || len(c.Models) != 1 {
		t.Fatalf("got %+v", c)
	}
	p.Down = errors.New("gone")
	if c := r.Catalog(t.Context()); !c.Known || c.Err != nil {
		t.Errorf("was asked again at once: %+v", c)
	}
	r = models.NewRunner("p", p)
	if c := r.Catalog(t.Context()); c.Known || c.Err == nil {
		t.Errorf("got %+v", c)
	}
}

func TestParseRequest(t *testing.T) {
	for body, want := range map[string]string{
		`{}`:                             "a request needs messages, a prompt or an input",
		`{"messages":[]}`:                "a chat needs at least one message",
		`{"messages":{}}`:                "messages must be an array of objects with a role and content",
		`{"messages":[{"content":"x"}]}`: "every message needs a role",
		`{"messages":[{"role":"user","content":7}]}`: "messages must be an array of objects with a role and content",
		`{"model":7,"prompt":""}`:                    "model must be a string",
		`{"prompt":"","max_tokens":"7"}`:             "max_tokens must be a whole number",
		`{"prompt":"","max_tokens":-7}`:              "max_tokens and max_completion_tokens must be at least 1",
		`{"prompt":"","n":0}`:                        "n must be from 1 to 128",
		`{"prompt":"","stream":1}`:                   "stream must be true or false",
		`{"prompt":null}`:                            "a request of kind complete needs prompt",
		`{"prompt":"","prompt":""}`:                  "the field prompt is there twice",
		`{"prompt":""} {}`:                           "there is data after the JSON object",
		`[]`:                                         "a request is a JSON object",
	} {
		b, err := models.ParseBody([]byte(body))
		if err == nil {
			_, err = models.ParseRequest("", b)
		}
		if fsys.CodeOf(err) != fsys.Invalid || fsys.ReasonOf(err) != want {
			t.Errorf("%s: got %v, want %q", body, err, want)
		}
	}
	b, err := models.ParseBody([]byte(`{"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url"},{"type":"text","text":"b"}]},{"role":"assistant","content":null,"tool_calls":[]}],"max_completion_tokens":9}`))
	if err != nil {
		t.Fatal(err)
	}
	req, err := models.ParseRequest("", b)
	if err != nil || req.Kind != models.Chat || req.Last() != "a\nb" || req.MaxOutput != 9 || len(req.Messages) != 3 {
		t.Errorf("got %+v, %v", req, err)
	}
}

func TestBodyIsKept(t *testing.T) {
	const text = `{"b":1.0,"a":"\u003c","c":{"x":[ 1 ]}}`
	b, err := models.ParseBody([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(b.Set("d", "<").Delete("a").Bytes()); got != `{"b":1.0,"c":{"x":[ 1 ]},"d":"<"}` {
		t.Errorf("got %s", got)
	}
	if got := string(b.Bytes()); got != text {
		t.Errorf("Set changed its receiver: %s", got)
	}
}

func TestFindModel(t *testing.T) {
	c := models.Catalog{Models: []models.Model{{Name: "llama:latest"}, {Name: "llama:7b"}, {Name: "org/x"}}}
	for name, want := range map[string]string{"llama": "llama:latest", "llama:7b": "llama:7b", "org/x:free": "org/x", "llam": ""} {
		if m, ok := c.Find(name); m.Name != want || ok != (want != "") {
			t.Errorf("%s: got %q, %v", name, m.Name, ok)
		}
	}
	c.Models = append(c.Models, models.Model{Name: "*"})
	if m, ok := c.Find("y"); !ok || m.Name != "y" {
		t.Errorf("got %+v, %v", m, ok)
	}
	for _, g := range []struct {
		glob, name string
		want       bool
	}{{"*", "a/b:c", true}, {"gpt-4*", "gpt-4o", true}, {"gpt-4*", "gpt-3", false}, {"org/*", "org/a/b", true}, {"a?c", "abc", true}, {"a[", "a[", false}} {
		if models.Match(g.glob, g.name) != g.want {
			t.Errorf("Match(%q, %q) is not %v", g.glob, g.name, g.want)
		}
	}
}
