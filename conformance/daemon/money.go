package daemon

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// A till is a server of models that bills, and counts who came.
type Till struct {
	mu   sync.Mutex
	Runs map[string]int // by the message
	gate chan struct{}  // answers wait for it; closed: they do not
}

// JobCost is what an answer comes to, at 1 µ$ a token, and at most may.
const JobCost = 20

func (s *Till) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if strings.HasSuffix(r.URL.Path, "/models") {
		fmt.Fprint(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
		return
	}
	var req struct{ Messages []struct{ Content string } }
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || len(req.Messages) != 1 {
		http.Error(w, "not what was sent", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.Runs[req.Messages[0].Content]++
	gate := s.gate
	s.mu.Unlock()
	select {
	case <-gate:
		fmt.Fprint(w, `{"object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":20,"total_tokens":30}}`)
	case <-r.Context().Done():
	}
}

// Shut makes answers wait, or not.
func (s *Till) Shut(yes bool) {
	gate := make(chan struct{})
	if !yes {
		close(gate)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate = gate
}

// Came returns how many runs there were, and of which messages.
func (s *Till) Came() (total int, by map[string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	by = make(map[string]int)
	for message, n := range s.Runs {
		by[message] = n
		total += n
	}
	return total, by
}

// Sums are what a ledger adds up to.
type Sums struct{ Holds, Held, Spent int }

func Summary(t *testing.T, usage string) Sums {
	t.Helper()
	var u struct {
		Held  int `json:"held_microusd"`
		Holds int
		Total struct {
			Spent int `json:"spent_microusd"`
		}
	}
	if err := json.Unmarshal([]byte(usage), &u); err != nil {
		t.Fatal(err)
	}
	return Sums{u.Holds, u.Held, u.Total.Spent}
}

func Replay(t *testing.T, ledger string) Sums {
	t.Helper()
	var s Sums
	open := make(map[string]int)
	for line := range strings.Lines(ledger) {
		var e struct {
			Kind, Hold string
			Max        int `json:"max_microusd"`
			Cost       int `json:"cost_microusd"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		max, held := open[e.Hold]
		switch e.Kind {
		case "hold":
			if held {
				t.Errorf("held twice: %s", line)
			}
			open[e.Hold] = e.Max
			s.Held += e.Max
		case "settle", "release":
			if !held || max != e.Max {
				t.Errorf("settled without a hold: %s", line)
			}
			delete(open, e.Hold)
			s.Held -= e.Max
			s.Spent += e.Cost
		}
	}
	s.Holds = len(open)
	return s
}
