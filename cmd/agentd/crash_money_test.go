package main

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"agent9/conformance/daemon"
	"agent9/fsys"
)

// An order is a job that was asked for.
type order struct {
	key   string
	max   int
	kept  bool   // it was acknowledged
	said  string // approve or deny, once that was acknowledged
	ended string // its status, once it had ended
	cost  int
}

// A shop is an agent whose jobs cost money, of its own account and of the one
// above, and who needs an approval for the dear ones.
type shop struct {
	till   *daemon.Till
	orders []*order
	sh     []*order // of a command, for nothing
}

// dear is what needs an approval.
const dear = 2 * daemon.JobCost

// newShop returns promises about jobs, and the daemon's arguments for their
// providers.
func newShop(t *testing.T) (promises []promise, args []string) {
	s := &shop{till: &daemon.Till{Runs: map[string]int{}}}
	s.till.Shut(false)
	server := httptest.NewServer(s.till)
	t.Cleanup(server.Close)
	t.Setenv("M_API_KEY", "secret") // with a key it bills
	args = []string{"--compute", "m=openai:" + server.URL, "--compute", "sh=exec:read seconds; echo began; sleep $seconds"}
	return []promise{
		{name: "MoneyAddsUp", acts: 20, begins: s.opens, act: s.sells, holds: s.adds},
		{name: "CommandsEnd", act: s.runs, holds: s.ran},
	}, args
}

const above = "crashteam"

func (s *shop) opens(p *promised, r *daemon.Tree) {
	r.Mkdir("accounts", above)
	r.Write("accounts/"+above+"/limits", `{"total_microusd":1000000000}`)
	r.Write(p.at("budget/limits"), fmt.Sprintf(`{"parent":%q,"approval_threshold_microusd":%d,"per_day_microusd":1000000000}`, above, daemon.JobCost))
	r.Write(p.at("compute/policy"), `{"prices":{"*":{"input_microusd":0,"output_microusd":1000000}}}`)
}

// sells asks for a job, asks again for one, or decides about one.
func (s *shop) sells(p *promised, r *daemon.Tree, n int) error {
	if p.rng.IntN(4) == 0 {
		s.till.Shut(p.rng.IntN(2) == 0)
	}
	submit := func(o *order) error {
		request := fmt.Sprintf(`{"provider":"m","model":"m","stream":false,"max_tokens":%d,"idempotency_key":%q,"messages":[{"role":"user","content":%[2]q}]}`, o.max, o.key)
		_, err := fsys.Converse(daemon.Within(p.T), r.Root, p.at("compute/new"), []byte(request))
		o.kept = o.kept || err == nil
		return err
	}
	switch k := p.rng.IntN(6); {
	case k == 0 && len(s.orders) > 0:
		return submit(s.orders[p.rng.IntN(len(s.orders))])
	case k <= 2:
		id, o, err := s.waiting(p, r)
		if err != nil {
			return err
		}
		if o != nil {
			word := []string{"approve", "deny too dear"}[p.rng.IntN(2)]
			if err = r.TryWrite(p.at("approvals/"+id), word); err == nil {
				o.said, _, _ = strings.Cut(word, " ")
			}
			return err
		}
	}
	o := &order{key: fmt.Sprint("order", n), max: daemon.JobCost}
	if p.rng.IntN(3) == 0 {
		o.max = dear
	}
	s.orders = append(s.orders, o)
	return submit(o)
}

// waiting returns an approval that is asked for, and its order, if there is
// one.
func (s *shop) waiting(p *promised, r *daemon.Tree) (id string, o *order, err error) {
	n, err := fsys.WalkPath(daemon.Within(p.T), r.Root, p.at("approvals"))
	if err != nil {
		return "", nil, err
	}
	list, err := fsys.List(daemon.Within(p.T), n)
	if err != nil || len(list) == 0 {
		return "", nil, err
	}
	id = list[0].Name
	var a struct{ Job int }
	text, err := r.TryRead(p.at("approvals/" + id))
	if err == nil {
		err = json.Unmarshal([]byte(text), &a)
	}
	if err != nil {
		return "", nil, err
	}
	var req struct{ Messages []struct{ Content string } }
	if text, err = r.TryRead(p.at(fmt.Sprintf("compute/jobs/%d/request", a.Job))); err == nil {
		err = json.Unmarshal([]byte(text), &req)
	}
	if err != nil {
		return "", nil, err
	}
	i := slices.IndexFunc(s.orders, func(o *order) bool { return o.key == req.Messages[0].Content })
	if i < 0 {
		return "", nil, fmt.Errorf("nobody asked for %s", text)
	}
	return id, s.orders[i], nil
}

// jobStatus is what a job says of itself.
type jobStatus struct {
	State string
	Cost  int `json:"cost_microusd"`
	Error struct{ Reason string }
}

// status returns that of an order's job, if there is one; what has ended once
// stays as it is.
func (o *order) status(p *promised, r *daemon.Tree) (st jobStatus, ok bool) {
	p.Helper()
	text, err := r.TryRead(p.at("compute/jobs/" + o.key + "/status"))
	if err != nil {
		if fsys.CodeOf(err) != fsys.NotExist || o.kept {
			p.Errorf("%s, which was acknowledged: %v: %v", o.key, o.kept, err)
		}
		return st, false
	}
	daemon.Parse(p.T, text, &st)
	if o.ended != "" && o.ended != text {
		p.Errorf("%s had ended as %s and is %s", o.key, o.ended, text)
	}
	if st.State != "awaiting-approval" {
		o.ended, o.cost = text, st.Cost
	}
	return st, true
}

// adds checks what became of every order, and all the money.
func (s *shop) adds(p *promised, r *daemon.Tree) {
	_, came := s.till.Came()
	want := daemon.Sums{}
	for _, o := range s.orders {
		if o.ended != "" && p.rng.IntN(10) > 0 { // is looked at now and then
			want.Spent += o.cost
			continue
		}
		st, ok := o.status(p, r)
		ran := came[o.key]
		switch {
		case !ok && ran == 0:
		case st.State == "done" && st.Cost == daemon.JobCost && ran == 1 && (o.max < dear || o.said != "deny"):
		case st.State == "failed" && st.Error.Reason == "interrupted" && st.Cost == o.max && ran <= 1:
		case st.State == "failed" && st.Error.Reason == "interrupted" && st.Cost == 0 && ran == 0:
		case st.State == "failed" && strings.Contains(st.Error.Reason, "too dear") && st.Cost == 0 && ran == 0 && o.max == dear && o.said != "approve":
		case st.State == "awaiting-approval" && o.max == dear && o.said == "" && ran == 0:
			want.Holds++
			want.Held += o.max
		default:
			p.Errorf("%+v ran %d times and is %+v", *o, ran, st)
		}
		want.Spent += st.Cost
	}
	for _, account := range []string{p.at("budget"), "accounts/" + above} {
		daemon.Equal(p.T, "usage of "+account, daemon.Summary(p.T, r.Read(account+"/usage")), want)
		daemon.Equal(p.T, "the ledger of "+account, daemon.Replay(p.T, r.Tail(account+"/ledger")), want)
	}
	daemon.Has(p.T, "compute/usage", r.Read(p.at("compute/usage")), fmt.Sprintf(`"held_microusd":%d,"spent_microusd":%d,`, want.Held, want.Spent))
	daemon.Equal(p.T, "what waits for an approval", len(strings.Fields(r.List(p.at("approvals")))), want.Holds)
}

// runs runs a command, for an instant or for longer than the daemon lives.
func (s *shop) runs(p *promised, r *daemon.Tree, n int) error {
	o := &order{key: fmt.Sprint("run", n)}
	s.sh = append(s.sh, o)
	request := fmt.Sprintf(`{"provider":"sh","idempotency_key":%q,"messages":[{"role":"user","content":"%s\n"}]}`, o.key, []string{"0", "1000"}[p.rng.IntN(2)])
	_, err := fsys.Converse(daemon.Within(p.T), r.Root, p.at("compute/new"), []byte(request))
	o.kept = err == nil
	return err
}

func (s *shop) ran(p *promised, r *daemon.Tree) {
	for _, o := range s.sh {
		st, ok := o.status(p, r)
		if ok && st.State != "done" && (st.State != "failed" || st.Error.Reason != "interrupted") || st.Cost != 0 {
			p.Errorf("%s is %+v", o.key, st)
		}
	}
}
