package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A ModelScript is how a server of models speaks, for a test without one. What the
// last message of a request says decides what it answers:
//
//	status CODE BODY   an error, which asks to wait for nine seconds
//	slow               an answer that begins and does not end
//	silent             nothing, ever
//	cut                an answer that ends in the middle
//	abort              a connection that breaks in the middle
//	raw TEXT           a stream, as it is
//	events LINES       a stream of these events, one a line
//	whole TEXT         a response in one piece, as it is
//	NAME REST          the events of Named, with REST for each REST in them
//
// and anything else is said, word for word.
type ModelScript struct {
	// Chat has the patterns of the requests that are answered so.
	Chat []string
	// Frame is an event on the wire, with %s for its data, and Type the media
	// type of a stream.
	Frame, Type string
	// Say is an event that says a text, and Begin and End are those around.
	Say        func(text string) string
	Begin, End []string
	Named      map[string][]string
	// Other are the responses to other requests, by their patterns.
	Other map[string]func(w http.ResponseWriter, r *http.Request, body string)
}

// A ModelServer keeps the bodies of the requests for work that it had.
type ModelServer struct {
	*httptest.Server
	Bodies chan string
	script ModelScript
}

// NewModelServer returns a server that ends with the test.
func NewModelServer(t *testing.T, script ModelScript) *ModelServer {
	s := &ModelServer{Bodies: make(chan string, 64), script: script}
	mux := http.NewServeMux()
	for _, pattern := range script.Chat {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.chat(w, r, s.record(r)) })
	}
	for pattern, answer := range script.Other {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { answer(w, r, s.record(r)) })
	}
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *ModelServer) record(r *http.Request) string {
	if r.Method == http.MethodGet {
		return ""
	}
	body, _ := io.ReadAll(r.Body) // a test sees what is missing
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	select {
	case s.Bodies <- string(body):
	default:
	}
	return string(body)
}

// Whole is a response to any request.
func Whole(mediaType, body string) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, _ *http.Request, _ string) { whole(w, 200, mediaType, body) }
}

func whole(w http.ResponseWriter, status int, mediaType, body string) {
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(status)
	io.WriteString(w, body)
}

// said is the text of the last message in a body, or the prompt.
func said(body string) (text string) {
	var req struct {
		Prompt   string
		Messages []struct{ Content json.RawMessage }
	}
	if json.Unmarshal([]byte(body), &req) != nil || len(req.Messages) == 0 {
		return req.Prompt
	}
	content := req.Messages[len(req.Messages)-1].Content
	var parts []struct{ Text string }
	if json.Unmarshal(content, &text) != nil && json.Unmarshal(content, &parts) == nil && len(parts) > 0 {
		text = parts[len(parts)-1].Text
		for _, p := range parts {
			if p.Text != "" {
				text = p.Text
			}
		}
	}
	return text
}

func (s *ModelServer) chat(w http.ResponseWriter, r *http.Request, body string) {
	verb, rest, _ := strings.Cut(said(body), " ")
	switch verb {
	case "status":
		var status int
		fmt.Sscan(rest, &status)
		_, rest, _ = strings.Cut(rest, " ")
		w.Header().Set("Retry-After", "9")
		whole(w, status, "application/json", rest)
	case "silent":
		<-r.Context().Done()
	case "slow":
		s.events(w, append(s.script.Begin, s.script.Say("begin")))
		<-r.Context().Done()
	case "cut":
		s.events(w, append(s.script.Begin, s.script.Say("half")))
	case "abort":
		w.Header().Set("Content-Length", "100000")
		s.events(w, append(s.script.Begin, s.script.Say("half")))
		panic(http.ErrAbortHandler)
	case "raw":
		whole(w, 200, s.script.Type, rest)
	case "events":
		s.events(w, strings.Split(rest, "\n"))
	case "whole":
		whole(w, 200, "application/json", rest)
	default:
		s.answer(w, verb, rest)
	}
}

func (s *ModelServer) answer(w http.ResponseWriter, verb, rest string) {
	var list []string
	if named, ok := s.script.Named[verb]; ok {
		for _, event := range named {
			list = append(list, strings.ReplaceAll(event, "REST", rest))
		}
		s.events(w, list)
		return
	}
	list = append(list, s.script.Begin...)
	for word := range strings.SplitAfterSeq(strings.TrimSpace(verb+" "+rest), " ") {
		list = append(list, s.script.Say(word))
	}
	s.events(w, append(list, s.script.End...))
}

func (s *ModelServer) events(w http.ResponseWriter, list []string) {
	w.Header().Set("Content-Type", s.script.Type)
	for _, data := range list {
		fmt.Fprintf(w, s.script.Frame, data)
	}
	w.(http.Flusher).Flush()
}
