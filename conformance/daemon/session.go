package daemon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"agent9/fsys"
)

// A said is a line of a transcript.
type Said struct {
	N               int
	Role, Event     string
	Prompt          int
	Author          string
	Text            string
	From, To        int
	Outcome, Reason string
	Cost            int `json:"cost_microusd"`
}

// Final reports whether nothing more is said about the prompt.
func (l Said) Final() bool {
	return l.Role == "assistant" && l.Outcome != "interrupted" || l.Event == "cancelled"
}

// Transcript reads what is said in a session until all of prompts have their
// answers.
func (tr *Tree) Transcript(path string, prompts ...int) (lines []Said) {
	tr.T.Helper()
	h := tr.Open(path, fsys.Read)
	waiting := map[int]bool{}
	for _, p := range prompts {
		waiting[p] = true
	}
	var text []byte
	b := make([]byte, 1<<16)
	for off := int64(0); len(waiting) > 0; {
		n, err := fsys.ReadAt(Within(tr.T), h, b, off)
		if err != nil {
			tr.T.Fatalf("%s, of which %v have no answer: %v", path, waiting, err)
		}
		off += int64(n)
		text = append(text, b[:n]...)
		for {
			line, rest, whole := bytes.Cut(text, []byte("\n"))
			if !whole {
				break
			}
			var l Said
			if err := json.Unmarshal(line, &l); err != nil {
				tr.T.Fatalf("%s: %v: %s", path, err, line)
			}
			if lines, text = append(lines, l), rest; l.Final() {
				delete(waiting, l.Prompt)
			}
		}
	}
	return lines
}

// A speaker is a server of models that answers a message with itself, in
// pieces, and bills for it.
type Speaker struct {
	Mu   sync.Mutex
	Came map[string]int // requests, by the last message
	Gate chan struct{}  // if set, answers wait for it after the first piece
}

// Ask counts a request and returns its last message.
func (s *Speaker) Ask(r *http.Request) (string, chan struct{}) {
	var req struct{ Messages []struct{ Content string } }
	if json.NewDecoder(r.Body).Decode(&req) != nil || len(req.Messages) == 0 {
		return "", s.Gate // who asked is gone
	}
	text := req.Messages[len(req.Messages)-1].Content
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Came[text]++
	return text, s.Gate
}

func (s *Speaker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/models") {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
		return
	}
	text, gate := s.Ask(r)
	w.Header().Set("Content-Type", "text/event-stream")
	for i, word := range strings.SplitAfter(text, " ") {
		piece, _ := json.Marshal(word)
		fmt.Fprintf(w, `data: {"object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":%s}}]}`+"\n\n", piece)
		w.(http.Flusher).Flush()
		if i > 0 || gate == nil {
			continue
		}
		select {
		case <-gate:
		case <-r.Context().Done():
			return
		}
	}
	fmt.Fprint(w, `data: {"object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":10,"total_tokens":20}}`+"\n\ndata: [DONE]\n\n")
}

// WithSpeaker starts a daemon whose model is a speaker, with the agent alice.
func WithSpeaker(t *testing.T) (*Speaker, *Daemon) {
	s := &Speaker{Came: map[string]int{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	t.Setenv("M_API_KEY", "secret") // with a key it bills
	d := Start(t, "--compute", "m=openai:"+server.URL)
	d.Root().Mkdir("agents", "alice")
	d.At("/agents/alice").Write("compute/policy",
		`{"default_provider":"m","max_concurrent":100,"prices":{"*":{"input_microusd":1000000,"output_microusd":1000000}}}`)
	return s, d
}
