package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"agent9/fsys"
)

// A till is a server of models that bills, and counts who came.
type till struct {
	mu   sync.Mutex
	runs map[string]int // by the message
	gate chan struct{}  // answers wait for it; closed: they do not
}

// jobCost is what an answer comes to, at 1 µ$ a token, and at most may.
const jobCost = 20

func (s *till) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
	s.runs[req.Messages[0].Content]++
	gate := s.gate
	s.mu.Unlock()
	select {
	case <-gate:
		fmt.Fprint(w, `{"object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":20,"total_tokens":30}}`)
	case <-r.Context().Done():
	}
}

// shut makes answers wait, or not.
func (s *till) shut(yes bool) {
	gate := make(chan struct{})
	if !yes {
		close(gate)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate = gate
}

// came returns how many runs there were, and of which messages.
func (s *till) came() (total int, by map[string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	by = make(map[string]int)
	for message, n := range s.runs {
		by[message] = n
		total += n
	}
	return total, by
}

// A client wants one job done, under one key after the other.
type client struct {
	name    string
	attempt int
	over    bool // paid for
	job     bool // was accepted in this round
}

func (c *client) key() string { return fmt.Sprintf("%s-%d", c.name, c.attempt) }

// A market is clients who want more than there is money for.
type market struct {
	*testing.T
	d       *daemon
	till    *till
	clients []*client
}

const (
	clients    = 200
	affordable = 50
	concurrent = 16 // the policy's default
)

func newMarket(t *testing.T) *market {
	s := &till{runs: make(map[string]int)}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	t.Setenv("M_API_KEY", "secret") // with a key it bills
	m := &market{T: t, till: s, d: startDaemon(t, "--compute", "m=openai:"+server.URL)}
	r := m.d.root()
	r.mkdir("agents", "alice")
	r.mkdir("accounts", "team")
	r.write("accounts/team/limits", fmt.Sprintf(`{"total_microusd":%d}`, affordable*jobCost))
	r.write("agents/alice/budget/limits", `{"parent":"team"}`)
	r.write("agents/alice/compute/policy", `{"prices":{"*":{"input_microusd":0,"output_microusd":1000000}}}`)
	for i := range clients {
		m.clients = append(m.clients, &client{name: fmt.Sprintf("c%d", i)})
	}
	return m
}

// submit lets all whose job is not paid for ask at once, and tells accepted
// after each how many jobs there are. killed says that errors are no surprise.
func (m *market) submit(killed bool, accepted func(n int)) {
	var all sync.WaitGroup
	var mu sync.Mutex
	var trees []*tree
	for range 10 {
		trees = append(trees, m.d.at("/agents/alice"))
	}
	n := 0
	ctx := within(m.T)
	for i, c := range m.clients {
		if c.over {
			continue
		}
		all.Go(func() {
			request := fmt.Sprintf(`{"provider":"m","model":"m","stream":false,"max_tokens":%d,"idempotency_key":"%s","messages":[{"role":"user","content":"%[2]s"}]}`, jobCost, c.key())
			_, err := fsys.Converse(ctx, trees[i%len(trees)].root, "compute/new", []byte(request))
			mu.Lock()
			defer mu.Unlock()
			if c.job = err == nil; c.job {
				n++
				accepted(n)
			} else if fsys.CodeOf(err) != fsys.Exhausted && !killed {
				m.Errorf("%s: %v", c.key(), err)
			}
		})
	}
	all.Wait()
}

// sort looks what became of each client's job, when none runs any more.
func (m *market) sort() (paid int) {
	m.Helper()
	alice := m.d.at("/agents/alice")
	_, runs := m.till.came()
	for _, c := range m.clients {
		if c.over {
			paid++
			continue
		}
		text, err := alice.tryRead("compute/jobs/" + c.key() + "/status")
		if err != nil && fsys.CodeOf(err) == fsys.NotExist {
			if c.job || runs[c.key()] > 0 {
				m.Errorf("%s was accepted or ran, and there is no such job", c.key())
			}
			continue
		}
		var status struct {
			State string
			Cost  int `json:"cost_microusd"`
			Error struct{ Reason string }
		}
		if err != nil || json.Unmarshal([]byte(text), &status) != nil {
			m.Fatalf("%s: %s, %v", c.key(), text, err)
		}
		switch {
		case status.State == "done" && status.Cost == jobCost && runs[c.key()] == 1:
			c.over = true
			paid++
		case status.State == "failed" && status.Error.Reason == "interrupted" && status.Cost == jobCost && runs[c.key()] <= 1:
			c.over = true
			paid++
		case status.State == "failed" && status.Error.Reason == "interrupted" && status.Cost == 0 && runs[c.key()] == 0:
			c.attempt++ // it never began, and may be tried again
		default:
			m.Errorf("%s ran %d times and is %s", c.key(), runs[c.key()], text)
		}
	}
	return paid
}

// audit compares the ledgers with usage, and that with what was paid.
func (m *market) audit(paid int) {
	m.Helper()
	r := m.d.root()
	for _, account := range []string{"agents/alice/budget", "accounts/team"} {
		usage := r.read(account + "/usage")
		has(m.T, account, usage, `"held_microusd":0,"holds":0`, fmt.Sprintf(`"total":{"spent_microusd":%d,`, paid*jobCost))
		equal(m.T, "the ledger of "+account, replay(m.T, r.tail(account+"/ledger")), summary(m.T, usage))
	}
	has(m.T, "usage", r.read("agents/alice/compute/usage"), fmt.Sprintf(`"held_microusd":0,"spent_microusd":%d,`, paid*jobCost))
}

// sums are what a ledger adds up to.
type sums struct{ holds, held, spent int }

func summary(t *testing.T, usage string) sums {
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
	return sums{u.Holds, u.Held, u.Total.Spent}
}

func replay(t *testing.T, ledger string) sums {
	t.Helper()
	var s sums
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
			s.held += e.Max
		case "settle", "release":
			if !held || max != e.Max {
				t.Errorf("settled without a hold: %s", line)
			}
			delete(open, e.Hold)
			s.held -= e.Max
			s.spent += e.Cost
		}
	}
	s.holds = len(open)
	return s
}

// killed ends a round: the daemon comes again, and everything is accounted for.
func (m *market) killed() (paid int) {
	m.Helper()
	m.d.kill()
	m.d.start()
	paid = m.sort()
	m.audit(paid)
	return paid
}

// finish lets all that there is money for be done.
func (m *market) finish() {
	m.Helper()
	m.till.shut(false)
	m.submit(false, func(int) {})
	alice := m.d.at("/agents/alice")
	for _, c := range m.clients {
		if c.job && !c.over {
			alice.read("compute/jobs/" + c.key() + "/result")
		}
	}
	equal(m.T, "paid for in the end", m.sort(), affordable)
	m.audit(affordable)
	if err := alice.tryWrite("compute/new", "more"); fsys.CodeOf(err) != fsys.Exhausted {
		m.Errorf("one more: %v", err)
	}
}

// Two hundred want what fifty can have. Those who run when the daemon is
// killed have all begun, so exactly fifty run.
func TestExactlyFiftyRun(t *testing.T) {
	m := newMarket(t)
	paid := 0
	for range 2 {
		m.till.shut(true)
		before, _ := m.till.came()
		accepted := 0
		m.submit(false, func(n int) { accepted = n })
		equal(t, "accepted", accepted, affordable-paid)
		eventually(t, "as many run as may", func() bool {
			now, _ := m.till.came()
			return now-before == min(concurrent, accepted)
		})
		now := m.killed()
		equal(t, "paid for in this round", now-paid, min(concurrent, accepted))
		paid = now
	}
	m.finish()
	total, _ := m.till.came()
	equal(t, "runs", total, affordable)
}

// Killed at any moment, nothing runs twice, or unpaid, and all the money that
// there is can be spent.
func TestKilledWhileTheyAsk(t *testing.T) {
	m := newMarket(t)
	for round, when := range []int{5, 30, 15} {
		m.till.shut(round%2 == 1)
		m.submit(true, func(n int) {
			if n == when {
				m.d.cmd.Process.Kill()
			}
		})
		m.killed()
	}
	m.finish()
	if total, _ := m.till.came(); total > affordable {
		t.Errorf("%d ran", total)
	}
}
