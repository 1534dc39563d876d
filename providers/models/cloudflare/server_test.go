package cloudflare

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// server answers in the shapes of the documentation of Workers AI, with what
// the last message asks for.
type server struct {
	*httptest.Server
	bodies chan string // of every request, if there is room
}

const (
	llama = "@cf/meta/llama-3.3-70b-instruct-fp8-fast"
	png   = "\x89PNG\x0d\x0a\x1a\x0a\x00"
)

func newServer(t *testing.T) *server {
	s := &server{bodies: make(chan string, 64)}
	const ai = "/client/v4/accounts/acc1/ai"
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+ai+"/models/search", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"success":true,"result":[
 {"id":"7a143886","source":1,"name":"`+llama+`","task":{"id":"c329a1f9","name":"Text Generation"},"properties":[{"property_id":"context_window","value":"24000"},{"property_id":"price","value":[{"unit":"per M input tokens","price":0.29,"currency":"USD"},{"unit":"per M output tokens","price":2.25,"currency":"USD"}]},{"property_id":"function_calling","value":"true"}]},
 {"id":"1","name":"@cf/new/model","task":{"name":"Text Generation"},"properties":[{"property_id":"price","value":[{"unit":"per M input tokens","price":0.0171234,"currency":"USD"},{"unit":"per M output tokens","price":2,"currency":"USD"}]}]},
 {"id":"2","name":"@cf/black-forest-labs/flux-1-schnell","task":{"name":"Text-to-Image"},"properties":[{"property_id":"price","value":[{"unit":"per 512 by 512 tile","price":0.0000528,"currency":"USD"}]}]},
 {"id":"3","name":"@cf/microsoft/resnet-50","task":{"name":"Image Classification"},"properties":[]}],"errors":[],"messages":[]}`)
	})
	mux.HandleFunc("POST "+ai+"/run/"+llama, s.chat)
	mux.HandleFunc("POST "+ai+"/run/@cf/baai/bge-base-en-v1.5", func(w http.ResponseWriter, r *http.Request) {
		s.record(r)
		reply(w, 200, `{"result":{"shape":[1,2],"data":[[0.01,-0.02]],"pooling":"mean"},"success":true,"errors":[],"messages":[]}`)
	})
	mux.HandleFunc("POST "+ai+"/run/@cf/black-forest-labs/flux-1-schnell", func(w http.ResponseWriter, r *http.Request) {
		s.record(r)
		b, _ := json.Marshal([]byte(png))
		reply(w, 200, `{"result":{"image":`+string(b)+`},"success":true,"errors":[],"messages":[]}`)
	})
	mux.HandleFunc("POST "+ai+"/run/@cf/stabilityai/sdxl", func(w http.ResponseWriter, r *http.Request) {
		s.record(r)
		w.Header().Set("Content-Type", "image/png")
		io.WriteString(w, png)
	})
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

func reply(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	io.WriteString(w, body)
}

func events(w http.ResponseWriter, data ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, d := range data {
		fmt.Fprintf(w, "data: %s\n\n", d)
	}
	w.(http.Flusher).Flush()
}

func word(text string) string {
	b, _ := json.Marshal(text)
	return `{"response":` + string(b) + `,"p":"abdefgh"}`
}

const usage = `{"response":"","usage":{"prompt_tokens":12,"completion_tokens":9,"total_tokens":21}}`

func (s *server) chat(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Prompt   string
		Messages []struct{ Content string }
	}
	json.Unmarshal([]byte(s.record(r)), &req)
	say := req.Prompt
	if n := len(req.Messages); n > 0 {
		say = req.Messages[n-1].Content
	}
	verb, rest, _ := strings.Cut(say, " ")
	switch verb {
	case "status":
		var status int
		fmt.Sscan(rest, &status)
		_, rest, _ = strings.Cut(rest, " ")
		reply(w, status, rest)
	case "slow":
		events(w, word("begin"))
		<-r.Context().Done()
	case "whole":
		reply(w, 200, rest)
	case "stream":
		events(w, strings.Split(rest, "\n")...)
	default:
		list := []string{}
		for i, w := range strings.Fields(say) {
			if i > 0 {
				w = " " + w
			}
			list = append(list, word(w))
		}
		events(w, append(list, usage, "[DONE]")...)
	}
}
