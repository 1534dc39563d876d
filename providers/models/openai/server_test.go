package openai

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// server answers in the shapes that were recorded of OpenAI's API, with what
// the last message asks for.
type server struct {
	*httptest.Server
	bodies chan string // of every request, if there is room
}

func newServer(t *testing.T) *server {
	s := &server{bodies: make(chan string, 64)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"object":"list","data":[{"id":"gpt-test","object":"model","created":1686935002,"owned_by":"system"}]}`)
	})
	mux.HandleFunc("POST /v1/chat/completions", s.chat)
	mux.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, r *http.Request) {
		s.record(r)
		events(w,
			`{"id":"cmpl-1","object":"text_completion","created":1,"choices":[{"text":"\n\nThis","index":0,"logprobs":null,"finish_reason":null}],"model":"gpt-3.5-turbo-instruct","usage":null}`,
			`{"id":"cmpl-1","object":"text_completion","created":1,"choices":[{"text":" is","index":0,"logprobs":null,"finish_reason":"stop"}],"model":"gpt-3.5-turbo-instruct","usage":null}`,
			`{"id":"cmpl-1","object":"text_completion","created":1,"choices":[],"model":"gpt-3.5-turbo-instruct","usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`,
			`[DONE]`)
	})
	mux.HandleFunc("POST /v1/embeddings", func(w http.ResponseWriter, r *http.Request) {
		s.record(r)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{
  "object": "list",
  "data": [{"object": "embedding", "index": 0, "embedding": [-0.0069, 0.0024]}],
  "model": "text-embedding-3-small",
  "usage": {"prompt_tokens": 5, "total_tokens": 5}
}`)
	})
	s.media(mux)
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *server) record(r *http.Request) string {
	b, _ := io.ReadAll(r.Body)
	select {
	case s.bodies <- string(b):
	default:
	}
	return string(b)
}

func events(w http.ResponseWriter, data ...string) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	for _, d := range data {
		fmt.Fprintf(w, "data: %s\n\n", d)
	}
	w.(http.Flusher).Flush()
}

func delta1(content string) string {
	b, _ := json.Marshal(content)
	return `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1694268190,"model":"gpt-test-0613","service_tier":"default","system_fingerprint":"fp_44709d6fcb","choices":[{"index":0,"delta":{"content":` + string(b) + `},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"x1"}`
}

const (
	role  = `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1694268190,"model":"gpt-test-0613","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"usage":null}`
	stop  = `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1694268190,"model":"gpt-test-0613","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null}`
	usage = `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1694268190,"model":"gpt-test-0613","choices":[],"usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29,"prompt_tokens_details":{"cached_tokens":4,"audio_tokens":0}}}`
)

func (s *server) chat(w http.ResponseWriter, r *http.Request) {
	body := s.record(r)
	var req struct {
		Stream   bool
		Messages []struct{ Content string }
	}
	json.Unmarshal([]byte(body), &req)
	say := req.Messages[len(req.Messages)-1].Content
	refuse := func(status int, body string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
	verb, rest, _ := strings.Cut(say, " ")
	switch verb {
	case "status":
		var status int
		var text string
		fmt.Sscan(rest, &status)
		_, text, _ = strings.Cut(rest, " ")
		refuse(status, text)
	case "slow":
		events(w, role, delta1("begin"))
		<-r.Context().Done()
	case "silent":
		<-r.Context().Done()
	case "raw":
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, rest)
	case "cut":
		w.Header().Set("Content-Length", "100000")
		events(w, role, delta1("half"))
		panic(http.ErrAbortHandler)
	case "picky":
		if strings.Contains(body, "stream_options") {
			refuse(400, `{"error":{"message":"Extra inputs are not permitted: stream_options","type":"invalid_request_error"}}`)
			return
		}
		events(w, role, delta1("fine"), stop, `[DONE]`)
	case "whole":
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{
 "id": "chatcmpl-2", "object": "chat.completion", "created": 1741569952, "model": "gpt-test-0613",
 "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello <you>", "refusal": null, "annotations": []},
              "logprobs": {"content": []}, "finish_reason": "stop"}],
 "usage": {"prompt_tokens": 19, "completion_tokens": 10, "total_tokens": 29}, "service_tier": "`+cmp.Or(rest, "default")+`"}`)
	case "tools":
		events(w, role,
			`{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_DdmO9pD3xa9XTPNJ32zg2hcA","type":"function","function":{"name":"get_weather","arguments":""}}]},"finish_reason":null}]}`,
			`{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\""}}]},"finish_reason":null}]}`,
			`{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"at\":1}"}}]},"finish_reason":null}]}`,
			`{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_2","type":"function","function":{"name":"other","arguments":"{}"}}]},"finish_reason":null}]}`,
			`{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`, usage, `[DONE]`)
	default:
		list := []string{role}
		for i, word := range strings.Fields(say) {
			if i > 0 {
				word = " " + word
			}
			list = append(list, delta1(word))
		}
		events(w, append(list, stop, usage, `[DONE]`)...)
	}
}

// media answers the requests that are not for text, as OpenAI's API does.
func (s *server) media(mux *http.ServeMux) {
	mux.HandleFunc("POST /v1/images/generations", func(w http.ResponseWriter, r *http.Request) {
		body := s.record(r)
		w.Header().Set("Content-Type", "application/json")
		picture := `{"b64_json":"` + base64.StdEncoding.EncodeToString([]byte(png)) + `"}`
		if strings.Contains(body, `"n":2`) {
			picture += "," + picture
		}
		io.WriteString(w, `{"created": 1713833628, "data": [`+picture+`], "usage": {"total_tokens": 100, "input_tokens": 50, "output_tokens": 50, "input_tokens_details": {"text_tokens": 10, "image_tokens": 40}}}`)
	})
	mux.HandleFunc("POST /v1/audio/speech", func(w http.ResponseWriter, r *http.Request) {
		s.record(r)
		w.Header().Set("Content-Type", "audio/mpeg")
		io.WriteString(w, "ID3\x00\xff\n")
	})
	mux.HandleFunc("POST /v1/audio/transcriptions", func(w http.ResponseWriter, r *http.Request) {
		file, head, err := r.FormFile("file")
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		sound, _ := io.ReadAll(file)
		s.bodies <- fmt.Sprintf("%s %q %q %v", head.Filename, sound, r.PostForm["model"], r.PostForm["timestamp_granularities[]"])
		if r.FormValue("response_format") == "srt" {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			io.WriteString(w, "1\n00:00:00,000 --> 00:00:01,000\nHello\n")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"text": "Hello", "usage": {"type": "tokens", "input_tokens": 14, "input_token_details": {"text_tokens": 0, "audio_tokens": 14}, "output_tokens": 45, "total_tokens": 59}}`)
	})
}

// png is what a picture begins with.
const png = "\x89PNG\x0d\x0a\x1a\x0a\x00"
