package anthropic

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// server answers in the shapes of Anthropic's documentation ("Streaming
// messages", "List models", "Errors"), with what the last message asks for.
type server struct {
	*httptest.Server
	bodies chan string // of every request, if there is room
}

func newServer(t *testing.T) *server {
	s := &server{bodies: make(chan string, 64)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != secret || r.Header.Get("anthropic-version") == "" {
			answer(w, 401, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`)
			return
		}
		io.WriteString(w, `{"data":[{"type":"model","id":"claude-sonnet-4-5-20250929","display_name":"Claude Sonnet 4.5","created_at":"2025-09-29T00:00:00Z","max_input_tokens":200000,"max_tokens":64000}],"has_more":false,"first_id":"claude-sonnet-4-5-20250929","last_id":"claude-sonnet-4-5-20250929"}`)
	})
	mux.HandleFunc("POST /v1/messages", s.messages)
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func answer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", "9")
	w.WriteHeader(status)
	io.WriteString(w, body)
}

const (
	start = `{"type":"message_start","message":{"id":"msg_1nZdL29xx5MUA1yADyHTEsnR8uuvGzszyy","type":"message","role":"assistant","content":[],"model":"claude-sonnet-4-5-20250929","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"cache_creation_input_tokens":3,"cache_read_input_tokens":100,"output_tokens":1,"service_tier":"standard"}}}`
	text  = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	ping  = `{"type":"ping"}`
	end   = `{"type":"message_stop"}`
)

func textDelta(text string) string {
	b, _ := json.Marshal(text)
	return `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":` + string(b) + `}}`
}

func stopBlock(index int) string {
	return fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, index)
}

func messageDelta(reason string) string {
	return `{"type":"message_delta","delta":{"stop_reason":"` + reason + `","stop_sequence":null},"usage":{"output_tokens":15}}`
}

func events(w http.ResponseWriter, data ...string) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	for _, d := range data {
		var e struct{ Type string }
		json.Unmarshal([]byte(d), &e)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e.Type, d)
	}
	w.(http.Flusher).Flush()
}

func (s *server) messages(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	select {
	case s.bodies <- string(body):
	default:
	}
	var req struct {
		Messages []struct{ Content []struct{ Text string } }
	}
	json.Unmarshal(body, &req)
	last := req.Messages[len(req.Messages)-1].Content
	say := last[len(last)-1].Text
	verb, rest, _ := strings.Cut(say, " ")
	switch verb {
	case "status":
		var status int
		fmt.Sscan(rest, &status)
		_, rest, _ = strings.Cut(rest, " ")
		answer(w, status, rest)
	case "slow":
		events(w, start, text, ping, textDelta("begin"))
		<-r.Context().Done()
	case "served":
		events(w, strings.Replace(start, `"service_tier":"standard"`, rest, 1), text, textDelta("a"), stopBlock(0), messageDelta("end_turn"), end)
	case "cut":
		events(w, start, text, textDelta("half"))
	case "break":
		events(w, start, text, textDelta("half"), `{"type":"error","error":{"type":"`+rest+`","message":"No more"}}`)
	case "stop":
		events(w, start, messageDelta(rest), end)
	case "tools":
		events(w, start,
			`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Let me "}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"look."}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3h"}}`,
			stopBlock(0),
			`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"EmwKAhgB"}}`,
			stopBlock(1),
			`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_01T1x1fJ34qAmk2tNTrN7Up6","name":"get_weather","input":{}}}`,
			`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}`,
			`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"location\":"}}`,
			`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":" \"Rome\"}"}}`,
			stopBlock(2),
			`{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_2","name":"now","input":{}}}`,
			stopBlock(3),
			messageDelta("tool_use"), end)
	default:
		list := []string{start, text, ping}
		for i, word := range strings.Fields(say) {
			if i > 0 {
				word = " " + word
			}
			list = append(list, textDelta(word))
		}
		events(w, append(list, stopBlock(0), messageDelta("end_turn"), end)...)
	}
}
