package compute_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/models"
	"agent9/providers/models/fake"
	"agent9/services/compute"
	"agent9/store"
	"agent9/store/bolt"
	"agent9/store/mem"
)

// asked is a fake provider that keeps what it was asked.
type asked struct {
	fake.Provider
	mu   sync.Mutex
	reqs []models.Request
}

func (a *asked) Run(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
	a.mu.Lock()
	a.reqs = append(a.reqs, req)
	a.mu.Unlock()
	return a.Provider.Run(ctx, req, emit)
}

// To name a small cost buys little: the request is refused, or its answer is
// bounded, and status and the provider are told by how much.
func TestASmallCostBuysLittle(t *testing.T) {
	dear := &asked{}
	dear.List = []models.Model{{Name: "dear", Price: &models.Price{Input: 1e6, Output: 100e6}}}
	d := newDeskOn(t, mem.New(), &fake.Provider{}, models.NewRunner("dear", dear))
	d.must(fsys.WriteFile(d.ctx, d.account.Root(), "limits", []byte(`{"per_day_microusd":1000000,"approval_threshold_microusd":100000}`)))
	model := `"model":"dear","stream":false`
	for _, cost := range []int{0, 1, 1000} {
		for _, tokens := range []string{`"max_tokens":100000`, `"max_completion_tokens":100000`, `"max_tokens":1,"max_completion_tokens":100000`} {
			d.refused(say("x", model, tokens, fmt.Sprintf(`"max_cost_microusd":%d`, cost)), fsys.Invalid, "the request may cost $10.00")
		}
	}
	d.refused(say("x", model, `"max_cost_microusd":0`), fsys.Invalid, "with an answer of one token the request may cost")
	d.refused(say("x", model, `"max_tokens":100000`), fsys.Exhausted, "the work may cost $10.0")
	d.refused(say("x", model, `"max_tokens":2000`), fsys.Permission, "above $0.10 it needs an approval")
	d.refused(say("x", model, `"max_tokens":100`, `"n":20`), fsys.Permission, "above $0.10 it needs an approval")
	d.money(0, 0)

	n := d.ask(say("use 10 20;x", model, `"max_cost_microusd":5000`))
	d.ended(n, compute.Done, 2010)
	var s struct {
		MaxTokens int64 `json:"max_tokens"`
	}
	d.must(json.Unmarshal([]byte(d.read("jobs/"+n+"/status")), &s))
	if len(dear.reqs) != 1 || s.MaxTokens < 40 || s.MaxTokens > 50 || dear.reqs[0].MaxOutput != s.MaxTokens {
		t.Errorf("an answer for 5000 µ$ may have %d tokens, and the provider was asked %+v", s.MaxTokens, dear.reqs)
	}
	if strings.Contains(d.read("jobs/"+n+"/request"), "max_tokens") {
		t.Error("the request is not as it was submitted")
	}
}

// What was served in a dearer way than was asked for costs that, counted or not,
// and is in the job's usage.
func TestServedDearer(t *testing.T) {
	d := newDeskOn(t, mem.New(), &fake.Provider{}, models.NewRunner("dear", &dearer{}))
	dear := `"model":"dear","max_cost_microusd":1000`
	n := d.ask(say("use", dear))
	d.ended(n, compute.Done, 50) // of 20
	if got := d.read("jobs/" + n + "/usage"); !strings.Contains(got, `"price_percent":250`) {
		t.Errorf("usage is %s", got)
	}
	d.ended(d.ask(say("guess", dear)), compute.Done, 2500)
	d.money(0, 2550)
}

// dearer serves all as priority, and counts only if it is asked to use.
type dearer struct{ fake.Provider }

func (*dearer) Models(context.Context) ([]models.Model, error) {
	return []models.Model{{Name: "dear", Price: &models.Price{Input: 1e6, Output: 1e6}}}, nil
}

func (*dearer) Run(_ context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
	usage := models.Usage{Input: 10, Output: 10, Percent: req.Dearer("service_tier", "priority"), Estimated: req.Last() != "use"}
	return usage, emit(models.Chunk{Text: "x", Finish: "stop", Usage: &usage})
}

// What the provider says that it charges is billed if it is more than what it
// counted, and what cannot be costs what was held.
func TestStatedCost(t *testing.T) {
	d := newDeskOn(t, mem.New(), &fake.Provider{}, models.NewRunner("stating", &stating{}))
	for stated, cost := range map[string]budget.Micros{"0": 20, "15": 20, "30": 30, "5000": 5000, "10000": 10000, "10001": 1000, "1000000000000000": 1000, "-1": 1000} {
		n := d.ask(say(stated, `"model":"stating","max_cost_microusd":1000`))
		d.ended(n, compute.Done, cost)
	}
	d.money(0, 20+20+30+5000+10000+3*1000)
}

// stating counts ten tokens each way, and states the cost that it is asked to.
type stating struct{ fake.Provider }

func (*stating) Models(context.Context) ([]models.Model, error) {
	return []models.Model{{Name: "stating", Price: &models.Price{Input: 1e6, Output: 1e6}}}, nil
}

func (*stating) Run(_ context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
	cost, err := strconv.ParseInt(req.Last(), 10, 64)
	if err != nil {
		return models.Usage{}, err
	}
	usage := models.Usage{Input: 10, Output: 10, Cost: budget.Micros(cost)}
	return usage, emit(models.Chunk{Text: "x", Finish: "stop", Usage: &usage})
}

// What a provider bills above the hold is recorded, and then nothing starts that
// waits: neither what is queued nor what was approved.
func TestOverdrawnStartsNothing(t *testing.T) {
	d := newAskingDesk(t, mem.New(), "")
	d.policy(`{"max_concurrent":1}`)
	d.ask(say("use 0 1;go;wait now;use 100 100", `"max_cost_microusd":50`))
	d.begun("1")
	d.ask(say("queued", `"max_cost_microusd":50`))
	d.ask(say("approved", `"max_cost_microusd":100`))
	d.must(d.decide("3", "approve"))
	d.fake.Open("now")
	d.ended("1", compute.Done, 2000)
	for _, n := range []string{"2", "3"} {
		s := d.ended(n, compute.Failed, 0)
		if s.Error.Code != "budget" || !strings.Contains(s.Error.Reason, "overdrawn by $0.0") {
			t.Errorf("job %s: %+v", n, s.Error)
		}
	}
	if d.fake.Runs() != 1 {
		t.Errorf("%d ran", d.fake.Runs())
	}
	d.money(0, 2000)
}

// Nobody knows what was used of a run that was cancelled or timed out before
// anything was counted.
func TestNotCountedCostsWhatWasHeld(t *testing.T) {
	d := newDesk(t)
	n := d.ask(say("call f {};wait for ever", `"max_cost_microusd":300`))
	h, err := fsys.OpenPath(d.ctx, d.svc.Root(), "jobs/"+n+"/chunks", fsys.Read)
	d.must(err)
	if _, err := fsys.ReadAt(d.ctx, h, make([]byte, 1), 0); err != nil { // it runs
		t.Fatal(err)
	}
	d.must(d.cancel(n))
	d.ended(n, compute.Cancelled, 300)
	d.ended(d.ask(say("begin;wait for ever", `"timeout_ms":1000`, `"max_cost_microusd":200`)), compute.Failed, 200)
	d.money(0, 500)
}

// A policy of an earlier version is read as it can be.
func TestOldPolicy(t *testing.T) {
	d := newDesk(t)
	d.must(d.db.Update(d.ctx, func(tx store.Store) error {
		return tx.Put(d.ctx, "compute/policy", []byte(`{"default_max_cost_microusd":100,"require_price":true,"max_concurrent":3}`))
	}))
	d.open()
	b, err := fsys.ReadFile(d.ctx, d.svc.Policy(), "")
	d.must(err)
	if got := string(b); !strings.Contains(got, `"max_concurrent":3`) || strings.Contains(got, "require_price") {
		t.Errorf("got %s", got)
	}
	d.ended(d.ask(say("use 1 1;x")), compute.Done, 20)
}

// A price of 0 that an earlier version stored, which may have said nothing, counts as
// not known until somebody writes what it is; one that is written as 0 is meant.
func TestOldPricesOfNothing(t *testing.T) {
	none := &fake.Provider{List: []models.Model{{Name: "mine"}, {Name: "gpt-4o"}}}
	d := newDeskOn(t, mem.New(), &fake.Provider{}, models.NewRunner("none", none))
	const zero, some = `{"input_microusd":0,"cached_input_microusd":0,"output_microusd":0}`, `{"input_microusd":0,"output_microusd":1000000}`
	put := func(doc string) {
		d.must(d.db.Update(d.ctx, func(tx store.Store) error { return tx.Put(d.ctx, "compute/policy", []byte(doc)) }))
		d.open()
	}
	put(`{"prices":{"mi*":` + zero + `,"gpt*":{"input_microusd":1,"output_microusd":1,"long":` + zero + `},"ok":` + some + `},"default_price":` + zero + `}`)
	d.refused(say("x", `"model":"mine"`), fsys.Invalid, "the price of the model mine is not known")
	d.ended(d.ask(say("use 1000 1;x", `"model":"gpt-4o"`)), compute.Done, 2510) // as is publicly known
	if got := d.shown(); !strings.Contains(got, `"prices":{"ok":{`) || !strings.Contains(got, `"default_price":null`) {
		t.Errorf("the policy is %s", got)
	}
	put(`{"default_price":` + some + `}`)
	d.ended(d.ask(say("use 1 1;x", `"model":"mine"`)), compute.Done, 1)
	d.policy(`{"prices":{"mine":` + zero + `}}`)
	d.open()
	d.ended(d.ask(say("use 9 9;x", `"model":"mine"`)), compute.Done, 0)
	if got := d.shown(); strings.Contains(got, "whole") {
		t.Errorf("the policy is %s", got)
	}
}

// An approved job that cannot be paid from its hold any more is refused.
func TestApprovedIsMeasuredAgain(t *testing.T) {
	d := newAskingDesk(t, mem.New(), "")
	d.fake.List[0].Context = 0
	d.stop()
	d.open()
	n := d.ask(say("use 1 1;x", `"max_tokens":5`, `"max_cost_microusd":999`))
	d.waits(n)
	// The record is as one of an earlier version, which held what it was told.
	for _, key := range []string{"compute/rec/", "budget/hold/"} {
		for p, err := range store.All(d.ctx, d.db, key) {
			d.must(err)
			d.must(d.db.Put(d.ctx, p.Key, []byte(strings.NewReplacer(`"held":999`, `"held":1`, `"max":999`, `"max":1`).Replace(string(p.Value)))))
		}
	}
	d.open()
	d.waits(n)
	d.must(d.decide("1", "approve"))
	s := d.ended(n, compute.Failed, 0)
	if !strings.Contains(s.Error.Reason, "and $0.000001 is the most it may") || d.fake.Runs() != 0 {
		t.Errorf("%d ran, %+v", d.fake.Runs(), s.Error)
	}
}

// Jobs that wait are on disk, not in memory, however long their requests are.
func TestWaitingJobsAreOnDisk(t *testing.T) {
	db, err := bolt.Open(filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	d := newDeskOn(t, db, &fake.Provider{})
	d.policy(`{"max_concurrent":1}`)
	inUse := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	first := d.ask(say("hello;wait for it"))
	d.begun(first)
	before := inUse()
	long := say("use 3 4;say " + strings.Repeat("x", 500_000))
	const jobs = 40
	for range jobs {
		d.ask(long)
	}
	if more := inUse() - before; more > jobs*100_000 {
		t.Errorf("%d jobs of 500 kB that wait are %d bytes in memory", jobs, more)
	}
	d.fake.Open("for it")
	d.read("jobs/2/result")
	if runs := d.fake.Runs(); runs < 2 {
		t.Errorf("%d jobs ran", runs)
	}
}
