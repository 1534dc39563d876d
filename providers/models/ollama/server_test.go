package ollama

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// server answers in the shapes of Ollama's documentation (docs/api.md), with
// what the last message asks for.
type server struct {
	*httptest.Server
	bodies chan string // of every request, if there is room
}

func newServer(t *testing.T) *server {
	s := &server{bodies: make(chan string, 64)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/tags", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"models":[{"name":"tiny:latest","model":"tiny:latest","modified_at":"2025-05-10T08:06:48.639712648-07:00","size":3,"digest":"0a8c","details":{"format":"gguf","family":"llama"}},{"name":"embed:latest","model":"embed:latest","digest":"1b","details":{"family":"bert"}},{"name":"odd:latest","digest":"2c"}]}`)
	})
	mux.HandleFunc("POST /api/show", func(w http.ResponseWriter, r *http.Request) {
		switch body := s.record(r); {
		case strings.Contains(body, "tiny"):
			io.WriteString(w, `{"details":{"family":"llama"},"model_info":{"general.architecture":"llama","llama.context_length":8192,"llama.block_count":32},"capabilities":["completion","tools"]}`)
		case strings.Contains(body, "embed"):
			io.WriteString(w, `{"model_info":{"bert.context_length":512},"capabilities":["embedding"]}`)
		default:
			answer(w, 500, `{"error":"broken model"}`)
		}
	})
	mux.HandleFunc("POST /api/embed", func(w http.ResponseWriter, r *http.Request) {
		more := ""
		if strings.Contains(s.record(r), `"b"`) {
			more = ",[1,2]"
		}
		io.WriteString(w, `{"model":"embed","embeddings":[[0.010071029,-0.0017594862]`+more+`],"total_duration":14143917,"load_duration":1019500,"prompt_eval_count":8}`)
	})
	mux.HandleFunc("POST /api/generate", func(w http.ResponseWriter, r *http.Request) {
		s.record(r)
		lines(w, `{"model":"tiny","created_at":"2023-08-04T08:52:19.385406455-07:00","response":"The","done":false}`,
			`{"model":"tiny","created_at":"2023-08-04T19:22:45.499127Z","response":"","done":true,"done_reason":"length","context":[1,2,3],"total_duration":10706818083,"prompt_eval_count":26,"eval_count":259}`)
	})
	mux.HandleFunc("POST /api/chat", s.chat)
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

func answer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	io.WriteString(w, body)
}

func lines(w http.ResponseWriter, list ...string) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	for _, l := range list {
		fmt.Fprintln(w, l)
	}
	w.(http.Flusher).Flush()
}

func word(text string) string {
	b, _ := json.Marshal(text)
	return `{"model":"tiny","created_at":"2023-08-04T08:52:19.385406455-07:00","message":{"role":"assistant","content":` + string(b) + `},"done":false}`
}

const end = `{"model":"tiny","created_at":"2023-08-04T19:22:45.499127Z","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","total_duration":4883583458,"load_duration":1334875,"prompt_eval_count":26,"prompt_eval_duration":342546000,"eval_count":282,"eval_duration":4535599000}`

func (s *server) chat(w http.ResponseWriter, r *http.Request) {
	var req struct{ Messages []struct{ Content string } }
	json.Unmarshal([]byte(s.record(r)), &req)
	say := req.Messages[len(req.Messages)-1].Content
	verb, rest, _ := strings.Cut(say, " ")
	switch verb {
	case "status":
		var status int
		fmt.Sscan(rest, &status)
		_, rest, _ = strings.Cut(rest, " ")
		answer(w, status, rest)
	case "slow":
		lines(w, word("begin"))
		<-r.Context().Done()
	case "raw":
		lines(w, rest)
	case "tools":
		lines(w,
			`{"model":"tiny","message":{"role":"assistant","content":"","thinking":"hm"},"done":false}`,
			`{"model":"tiny","message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"get_weather","arguments":{"city":"Tokyo"}}}]},"done":false}`,
			`{"model":"tiny","message":{"role":"assistant","content":"","tool_calls":[{"id":"call_x","function":{"index":0,"name":"now","arguments":{}}}]},"done":false}`, end)
	default:
		list := []string{}
		for i, w := range strings.Fields(say) {
			if i > 0 {
				w = " " + w
			}
			list = append(list, word(w))
		}
		lines(w, append(list, end)...)
	}
}
