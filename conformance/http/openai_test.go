package http

import (
	"agent9/conformance/daemon"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// newModels returns a server with OpenAI's API, as far as these tests use it.
// gone gets a value for every answer whose reader has gone.
func newModels(t testing.TB) (url string, gone <-chan struct{}) {
	left := make(chan struct{}, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var req struct {
			Model    string
			Stream   bool
			Tools    []json.RawMessage
			Logprobs bool
			Messages []struct{ Content string }
		}
		json.Unmarshal(body, &req)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/models"):
			io.WriteString(w, `{"object":"list","data":[{"id":"gpt-test","object":"model"},{"id":"text-embedding-test","object":"model"}]}`)
		case strings.HasSuffix(r.URL.Path, "/embeddings"):
			io.WriteString(w, `{"object":"list","model":"text-embedding-test","data":[{"object":"embedding","index":0,"embedding":[0.5,-0.25]}],"usage":{"prompt_tokens":2,"total_tokens":2}}`)
		case strings.Contains(string(body), "fail please"):
			w.WriteHeader(400)
			io.WriteString(w, `{"error":{"message":"the model does not like this","type":"invalid_request_error","code":"bad"}}`)
		case len(req.Tools) > 0 && !req.Stream:
			io.WriteString(w, `{"id":"c1","object":"chat.completion","created":7,"model":"gpt-test","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Oslo\"}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":5,"completion_tokens":3,"total_tokens":8}}`)
		case !req.Stream && strings.HasSuffix(r.URL.Path, "/chat/completions"):
			io.WriteString(w, `{"id":"c1","object":"chat.completion","created":7,"model":"gpt-test","system_fingerprint":"fp","choices":[{"index":0,"message":{"role":"assistant","content":"hello wörld"},"logprobs":{"content":[{"token":"hello","logprob":-0.5,"bytes":null,"top_logprobs":[]}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}`)
		case !req.Stream:
			io.WriteString(w, `{"id":"c1","object":"text_completion","created":7,"model":"gpt-test","choices":[{"index":0,"text":"hello wörld","finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}`)
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			say := func(choice string) {
				fmt.Fprintf(w, `data: {"id":"c1","object":"chat.completion.chunk","created":7,"model":"gpt-test","choices":[%s]}`+"\n\n", choice)
				w.(http.Flusher).Flush()
			}
			if len(req.Tools) > 0 {
				say(`{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"weather","arguments":""}}]}}`)
				say(`{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"city\":"}}]}}`)
				say(`{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"Oslo\"}"}}]}}`)
				say(`{"index":0,"delta":{},"finish_reason":"tool_calls"}`)
			} else {
				say(`{"index":0,"delta":{"role":"assistant","content":"hello "}}`)
				if strings.Contains(string(body), "for ever") {
					<-r.Context().Done()
					left <- struct{}{}
					return
				}
				say(`{"index":0,"delta":{"content":"wörld"}}`)
				say(`{"index":0,"delta":{},"finish_reason":"stop"}`)
			}
			io.WriteString(w, `data: {"id":"c1","object":"chat.completion.chunk","model":"gpt-test","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}`+"\n\ndata: [DONE]\n\n")
		}
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1", left
}

// startOpenAI returns the base URL and key of alice's endpoint.
func startOpenAI(t *testing.T) (base, key string, operator *http.Client, gone <-chan struct{}) {
	models, gone := newModels(t)
	t.Setenv("M_API_KEY", "sk-test") // so that its work costs money
	_, url, operator := daemon.StartWeb(t, "--compute", "m=openai:"+models)
	daemon.Create(t, operator, "alice")
	policy := `{"default_provider":"m","default_price":{"input_microusd":1000000,"output_microusd":1000000},"default_max_tokens":1000}`
	if status, text := daemon.Ask(t, operator, "", "PUT", "http://localhost/agents/alice/compute/policy", policy); status != 204 {
		t.Fatalf("%d %s", status, text)
	}
	return url + "/agents/alice/v1", daemon.TokenFor(t, operator, "alice"), operator, gone
}

// TestOpenAIClient is OpenAI's own client for Go, unchanged but for base URL
// and key.
func TestOpenAIClient(t *testing.T) {
	base, key, operator, gone := startOpenAI(t)
	ctx, cancel := context.WithTimeout(t.Context(), daemon.Limit)
	defer cancel()
	client := openai.NewClient(option.WithBaseURL(base), option.WithAPIKey(key))
	say := func(text string) openai.ChatCompletionNewParams {
		return openai.ChatCompletionNewParams{Model: "gpt-test", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}}
	}
	withTool := say("the weather in Oslo?")
	withTool.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
		Name: "weather", Parameters: openai.FunctionParameters{"type": "object"},
	})}

	t.Run("models", func(t *testing.T) {
		page, err := client.Models.List(ctx)
		if err != nil || len(page.Data) < 2 || page.Data[len(page.Data)-1].Object != "model" {
			t.Errorf("%+v, %v", page, err)
		}
		if m, err := client.Models.Get(ctx, "gpt-test"); err != nil || m.ID != "gpt-test" || m.OwnedBy != "m" {
			t.Errorf("%+v, %v", m, err)
		}
	})
	t.Run("whole", func(t *testing.T) {
		var res *http.Response
		got, err := client.Chat.Completions.New(ctx, say("hi"), option.WithResponseInto(&res))
		//lint:ignore SA1019 clients that are not new still read it
		if err != nil || got.Choices[0].Message.Content != "hello wörld" || got.Usage.TotalTokens != 7 || got.SystemFingerprint != "fp" || len(got.Choices[0].Logprobs.Content) != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		job := res.Header.Get("X-Agent9-Job")
		if _, text := daemon.Ask(t, operator, "", "GET", "http://localhost/agents/alice/compute/jobs/"+job+"/status", ""); !strings.Contains(text, `"cost_microusd":7`) {
			t.Errorf("job %s: %s", job, text)
		}
	})
	t.Run("stream", func(t *testing.T) {
		params := say("hi")
		params.StreamOptions.IncludeUsage = openai.Bool(true)
		stream := client.Chat.Completions.NewStreaming(ctx, params)
		var all openai.ChatCompletionAccumulator
		for stream.Next() {
			if !all.AddChunk(stream.Current()) {
				t.Errorf("the chunk %s does not fit", stream.Current().RawJSON())
			}
		}
		if err := stream.Err(); err != nil || all.Choices[0].Message.Content != "hello wörld" || all.Choices[0].FinishReason != "stop" || all.Usage.TotalTokens != 7 || all.Choices[0].Message.Role != "assistant" {
			t.Errorf("%+v, %v", all.ChatCompletion, err)
		}
	})
	t.Run("tools", func(t *testing.T) {
		got, err := client.Chat.Completions.New(ctx, withTool)
		if err != nil || got.Choices[0].Message.ToolCalls[0].Function.Arguments != `{"city":"Oslo"}` {
			t.Fatalf("%+v, %v", got, err)
		}
		stream := client.Chat.Completions.NewStreaming(ctx, withTool)
		var all openai.ChatCompletionAccumulator
		finished := false
		for stream.Next() {
			all.AddChunk(stream.Current())
			if call, ok := all.JustFinishedToolCall(); ok {
				finished = call.Name == "weather" && call.Arguments == `{"city":"Oslo"}` && call.ID == "call_1"
			}
		}
		if err := stream.Err(); err != nil || !finished {
			t.Errorf("%+v, %v", all.ChatCompletion, err)
		}
	})
	t.Run("logprobs in a stream", func(t *testing.T) {
		params := say("hi")
		params.Logprobs = openai.Bool(true)
		stream := client.Chat.Completions.NewStreaming(ctx, params)
		text, probs := "", 0
		for stream.Next() {
			for _, c := range stream.Current().Choices {
				text += c.Delta.Content
				probs += len(c.Logprobs.Content)
			}
		}
		if err := stream.Err(); err != nil || text != "hello wörld" || probs != 1 {
			t.Errorf("%q, %d, %v", text, probs, err)
		}
	})
	t.Run("completions", func(t *testing.T) {
		params := openai.CompletionNewParams{Model: "gpt-test", Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("hi")}}
		got, err := client.Completions.New(ctx, params)
		if err != nil || got.Choices[0].Text != "hello wörld" {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("embeddings", func(t *testing.T) {
		got, err := client.Embeddings.New(ctx, openai.EmbeddingNewParams{Model: "text-embedding-test", Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("hi")}, EncodingFormat: "float"})
		if err != nil || len(got.Data[0].Embedding) != 2 || got.Data[0].Embedding[1] != -0.25 {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("the key names the agent", func(t *testing.T) {
		short := openai.NewClient(option.WithBaseURL(strings.Replace(base, "/agents/alice/v1", "/v1", 1)), option.WithAPIKey(key))
		if got, err := short.Chat.Completions.New(ctx, say("hi")); err != nil || got.Choices[0].Message.Content != "hello wörld" {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("errors", func(t *testing.T) {
		other := openai.NewClient(option.WithBaseURL(base), option.WithAPIKey("a9_other"))
		dear := say("hi")
		dear.SetExtraFields(map[string]any{"max_cost_microusd": 2_000_000})
		unknown := say("hi")
		unknown.SetExtraFields(map[string]any{"provider": "nobody"})
		for _, c := range []struct {
			client openai.Client
			params openai.ChatCompletionNewParams
			status int
			code   string
			words  string
		}{
			{other, say("hi"), 401, "invalid_api_key", "token"},
			{client, say("fail please"), 400, "invalid", "does not like"},
			{client, dear, 429, "insufficient_quota", ""},
			{client, unknown, 400, "invalid", "nobody"},
			{client, openai.ChatCompletionNewParams{Model: "gpt-test", Messages: []openai.ChatCompletionMessageParamUnion{}}, 400, "invalid", "message"},
		} {
			for _, streaming := range []bool{false, true} {
				var err error
				if streaming {
					stream := c.client.Chat.Completions.NewStreaming(ctx, c.params)
					for stream.Next() {
					}
					err = stream.Err()
				} else {
					_, err = c.client.Chat.Completions.New(ctx, c.params)
				}
				var e *openai.Error
				if !errors.As(err, &e) || e.StatusCode != c.status || e.Code != c.code || !strings.Contains(e.Message, c.words) {
					t.Errorf("streaming %v: %v, want %d %s %s", streaming, err, c.status, c.code, c.words)
				}
			}
		}
	})
	t.Run("a key is the same job", func(t *testing.T) {
		jobs := map[string]bool{}
		for range 2 {
			var res *http.Response
			_, err := client.Chat.Completions.New(ctx, say("once"), option.WithHeader("Idempotency-Key", "k1"), option.WithResponseInto(&res))
			if err != nil {
				t.Fatal(err)
			}
			jobs[res.Header.Get("X-Agent9-Job")] = true
		}
		_, err := client.Chat.Completions.New(ctx, say("another"), option.WithHeader("Idempotency-Key", "k1"))
		var e *openai.Error
		if len(jobs) != 1 || !errors.As(err, &e) || e.StatusCode != 409 {
			t.Errorf("jobs %v, then %v", jobs, err)
		}
	})
	t.Run("who goes away cancels the job", func(t *testing.T) {
		var res *http.Response
		ctx, goAway := context.WithCancel(ctx)
		defer goAway()
		stream := client.Chat.Completions.NewStreaming(ctx, say("for ever"), option.WithResponseInto(&res))
		if !stream.Next() {
			t.Fatal(stream.Err())
		}
		goAway()
		stream.Close()
		select {
		case <-gone:
		case <-time.After(daemon.Limit):
			t.Fatal("the provider works on")
		}
		_, text := daemon.Ask(t, operator, "", "GET", "http://localhost/agents/alice/compute/jobs/"+res.Header.Get("X-Agent9-Job")+"/result", "")
		if !strings.Contains(text, "cancelled") {
			t.Errorf("the job's result: %s", text)
		}
	})
	t.Run("an approval", func(t *testing.T) {
		if status, text := daemon.Ask(t, operator, "", "PUT", "http://localhost/agents/alice/budget/limits", `{"approval_threshold_microusd":10}`); status != 204 {
			t.Fatalf("%d %s", status, text)
		}
		_, err := client.Chat.Completions.New(ctx, say("dear"), option.WithHeader("Idempotency-Key", "k2"))
		var e *openai.Error
		if !errors.As(err, &e) || e.StatusCode != 409 || e.Code != "approval_required" {
			t.Fatalf("%v", err)
		}
		_, list := daemon.Ask(t, operator, "", "GET", "http://localhost/agents/alice/approvals", "")
		var waiting struct{ Entries []struct{ Name string } }
		if json.Unmarshal([]byte(list), &waiting) != nil || len(waiting.Entries) != 1 {
			t.Fatal(list)
		}
		if status, text := daemon.Ask(t, operator, "", "PUT", "http://localhost/agents/alice/approvals/"+waiting.Entries[0].Name, "approve"); status != 204 {
			t.Fatalf("%d %s", status, text)
		}
		got, err := client.Chat.Completions.New(ctx, say("dear"), option.WithHeader("Idempotency-Key", "k2"))
		if err != nil || got.Choices[0].Message.Content != "hello wörld" {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

const nodeScript = `
import OpenAI from "openai";
import assert from "node:assert/strict";
const client = new OpenAI({ baseURL: process.env.BASE, apiKey: process.env.KEY });
const messages = [{ role: "user", content: "hi" }];
const tools = [{ type: "function", function: { name: "weather", parameters: { type: "object" } } }];
const whole = await client.chat.completions.create({ model: "gpt-test", messages });
assert.equal(whole.choices[0].message.content, "hello wörld");
const called = await client.chat.completions.create({ model: "gpt-test", messages, tools });
assert.equal(called.choices[0].message.tool_calls[0].function.arguments, '{"city":"Oslo"}');
let text = "", usage;
for await (const c of await client.chat.completions.create({ model: "gpt-test", messages, stream: true, stream_options: { include_usage: true } })) {
  text += c.choices[0]?.delta.content ?? "";
  usage = c.usage ?? usage;
}
assert.equal(text, "hello wörld");
assert.equal(usage.total_tokens, 7);
const final = await client.chat.completions.stream({ model: "gpt-test", messages, tools }).finalChatCompletion();
assert.equal(final.choices[0].message.tool_calls[0].function.arguments, '{"city":"Oslo"}');
const e = await client.embeddings.create({ model: "text-embedding-test", input: "hi", encoding_format: "float" });
assert.deepEqual(e.data[0].embedding, [0.5, -0.25]);
const ids = [];
for await (const m of client.models.list()) ids.push(m.id);
assert.ok(ids.includes("gpt-test"));
await assert.rejects(client.chat.completions.create({ model: "gpt-test", messages, max_cost_microusd: 2000000 }),
  (err) => err instanceof OpenAI.RateLimitError && err.code === "insufficient_quota");
await assert.rejects(new OpenAI({ baseURL: process.env.BASE, apiKey: "a9_other" }).models.list(),
  (err) => err instanceof OpenAI.AuthenticationError);
console.log("all is well");
`

// TestOpenAIPackage is the official package of npm, unchanged but for base URL
// and key. It is kept in the user's cache directory.
func TestOpenAIPackage(t *testing.T) {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no %s on this machine", program)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	dir := filepath.Join(cache, "agent9-tests", "openai-node")
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "openai", "package.json")); err != nil {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Skip(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if out, err := exec.CommandContext(ctx, "npm", "install", "--prefix", dir, "--no-audit", "--no-fund", "openai@6").CombinedOutput(); err != nil {
			t.Skipf("npm cannot install openai: %v\n%s", err, out)
		}
	}
	base, key, _, _ := startOpenAI(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "--input-type=module")
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader(nodeScript)
	cmd.Env = append(os.Environ(), "BASE="+base, "KEY="+key)
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "all is well\n" {
		t.Errorf("%v\n%s", err, out)
	}
}
