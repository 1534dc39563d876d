package money

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"sync"
	"testing"

	"agent9/conformance/daemon"
	"agent9/fsys"
)

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
	d       *daemon.Daemon
	till    *daemon.Till
	clients []*client
}

const (
	clients    = 200
	affordable = 50
	concurrent = 16 // the policy's default
)

func newMarket(t *testing.T) *market {
	s := &daemon.Till{Runs: make(map[string]int)}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	t.Setenv("M_API_KEY", "secret") // with a key it bills
	m := &market{T: t, till: s, d: daemon.Start(t, "--compute", "m=openai:"+server.URL)}
	r := m.d.Root()
	r.Mkdir("agents", "alice")
	r.Mkdir("accounts", "team")
	r.Write("accounts/team/limits", fmt.Sprintf(`{"total_microusd":%d}`, affordable*daemon.JobCost))
	r.Write("agents/alice/budget/limits", `{"parent":"team"}`)
	r.Write("agents/alice/compute/policy", `{"prices":{"*":{"input_microusd":0,"output_microusd":1000000}}}`)
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
	var trees []*daemon.Tree
	for range 10 {
		trees = append(trees, m.d.At("/agents/alice"))
	}
	n := 0
	ctx := daemon.Within(m.T)
	for i, c := range m.clients {
		if c.over {
			continue
		}
		all.Go(func() {
			request := fmt.Sprintf(`{"provider":"m","model":"m","stream":false,"max_tokens":%d,"idempotency_key":"%s","messages":[{"role":"user","content":"%[2]s"}]}`, daemon.JobCost, c.key())
			_, err := fsys.Converse(ctx, trees[i%len(trees)].Root, "compute/new", []byte(request))
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
	alice := m.d.At("/agents/alice")
	_, runs := m.till.Came()
	for _, c := range m.clients {
		if c.over {
			paid++
			continue
		}
		text, err := alice.TryRead("compute/jobs/" + c.key() + "/status")
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
		case status.State == "done" && status.Cost == daemon.JobCost && runs[c.key()] == 1:
			c.over = true
			paid++
		case status.State == "failed" && status.Error.Reason == "interrupted" && status.Cost == daemon.JobCost && runs[c.key()] <= 1:
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
	r := m.d.Root()
	for _, account := range []string{"agents/alice/budget", "accounts/team"} {
		usage := r.Read(account + "/usage")
		daemon.Has(m.T, account, usage, `"held_microusd":0,"holds":0`, fmt.Sprintf(`"total":{"spent_microusd":%d,`, paid*daemon.JobCost))
		daemon.Equal(m.T, "the ledger of "+account, daemon.Replay(m.T, r.Tail(account+"/ledger")), daemon.Summary(m.T, usage))
	}
	daemon.Has(m.T, "usage", r.Read("agents/alice/compute/usage"), fmt.Sprintf(`"held_microusd":0,"spent_microusd":%d,`, paid*daemon.JobCost))
}

// killed ends a round: the daemon comes again, and everything is accounted for.
func (m *market) killed() (paid int) {
	m.Helper()
	m.d.Kill()
	m.d.Start()
	paid = m.sort()
	m.audit(paid)
	return paid
}

// finish lets all that there is money for be done.
func (m *market) finish() {
	m.Helper()
	m.till.Shut(false)
	m.submit(false, func(int) {})
	alice := m.d.At("/agents/alice")
	for _, c := range m.clients {
		if c.job && !c.over {
			alice.Read("compute/jobs/" + c.key() + "/result")
		}
	}
	daemon.Equal(m.T, "paid for in the end", m.sort(), affordable)
	m.audit(affordable)
	if err := alice.TryWrite("compute/new", "more"); fsys.CodeOf(err) != fsys.Exhausted {
		m.Errorf("one more: %v", err)
	}
}

// Two hundred want what fifty can have. Those who run when the daemon is
// killed have all begun, so exactly fifty run.
func TestExactlyFiftyRun(t *testing.T) {
	m := newMarket(t)
	paid := 0
	for range 2 {
		m.till.Shut(true)
		before, _ := m.till.Came()
		accepted := 0
		m.submit(false, func(n int) { accepted = n })
		daemon.Equal(t, "accepted", accepted, affordable-paid)
		daemon.Eventually(t, "as many run as may", func() bool {
			now, _ := m.till.Came()
			return now-before == min(concurrent, accepted)
		})
		now := m.killed()
		daemon.Equal(t, "paid for in this round", now-paid, min(concurrent, accepted))
		paid = now
	}
	m.finish()
	total, _ := m.till.Came()
	daemon.Equal(t, "runs", total, affordable)
}

// Killed at any moment, nothing runs twice, or unpaid, and all the money that
// there is can be spent.
func TestKilledWhileTheyAsk(t *testing.T) {
	m := newMarket(t)
	for round, when := range []int{5, 30, 15} {
		m.till.Shut(round%2 == 1)
		m.submit(true, func(n int) {
			if n == when {
				m.d.Cmd.Process.Kill()
			}
		})
		m.killed()
	}
	m.finish()
	if total, _ := m.till.Came(); total > affordable {
		t.Errorf("%d ran", total)
	}
}
