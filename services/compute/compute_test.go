package compute_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/fsys/fstest"
	"agent9/namespace/budget"
	"agent9/providers/models"
	"agent9/providers/models/fake"
	"agent9/services/compute"
	"agent9/store"
	"agent9/store/bolt"
	"agent9/store/mem"
)

// A desk is a service with a fake provider that is paid from an account.
type desk struct {
	*testing.T
	db      store.Updater
	ctx     context.Context // who asks
	account *budget.Account
	asking  *budget.Approvals // nil: nobody is asked
	now     func() time.Time  // nil: time.Now
	time    atomic.Int64      // of a clock that the test sets
	fake    *fake.Provider
	others  []*models.Runner
	svc     *compute.Service
	stop    context.CancelFunc

	mu       sync.Mutex
	events   []string
	failNote map[string]error // set while nothing runs
	onNote   func(tx store.Store, event string)
}

// perToken is what the fake provider's tokens cost, in and out. Its context is
// one token, so that a request whose answer is not bounded may cost two.
const perToken = 10

func newDesk(t *testing.T) *desk { return newDeskOn(t, mem.New(), &fake.Provider{}) }

func newDeskOn(t *testing.T, db store.Updater, f *fake.Provider, others ...*models.Runner) *desk {
	if f.List == nil {
		f.List = []models.Model{{Name: "fake", Context: 1, Price: &models.Price{Input: perToken * 1e6, Cached: 1e6, Output: perToken * 1e6}}}
	}
	d := &desk{T: t, db: db, fake: f, others: others}
	d.open()
	return d
}

// open opens the service on what the database has.
func (d *desk) open() {
	d.Helper()
	var err error
	d.account, err = budget.Open(d.Context(), store.Sub(d.db, "budget/"), budget.Options{Name: "alice", Now: d.now, Note: d.note})
	d.must(err)
	d.ctx = budget.With(fsys.WithCaller(d.Context(), "alice"), d.account)
	life, stop := context.WithCancel(context.WithoutCancel(d.Context()))
	d.stop = stop
	if d.asking != nil {
		d.asking.End()
		d.asking = budget.NewApprovals(life, d.account)
	}
	d.svc, err = compute.Open(life, compute.Config{
		Store:     store.Sub(d.db, "compute/"),
		Account:   d.account,
		Approvals: d.asking,
		Now:       d.now,
		Providers: append([]*models.Runner{models.NewRunner("main", d.fake)}, d.others...),
		Note:      d.note,
	})
	d.must(err)
	if d.asking != nil {
		d.must(d.asking.Start(d.Context()))
	}
	svc := d.svc
	d.Cleanup(func() {
		d.fake.Open("deaf")
		ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
		defer cancel()
		if err := svc.Close(ctx); err != nil {
			d.Error(err)
		}
	})
}

// note takes down the events, but for those of the ledger.
func (d *desk) note(tx store.Store, event string, _ any) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.onNote != nil {
		d.onNote(tx, event)
	}
	if err := d.failNote[event]; err != nil {
		return err
	}
	if !strings.HasPrefix(event, "budget.") {
		d.events = append(d.events, event)
	}
	return nil
}

func (d *desk) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

// ask submits req and returns the job's number.
func (d *desk) ask(req string) string {
	d.Helper()
	reply, err := fsys.Converse(d.ctx, d.svc.Root(), "new", []byte(req))
	d.must(err)
	return strings.TrimSpace(string(reply))
}

// say is a request whose only message is script; more are further fields.
func say(script string, more ...string) string {
	b, _ := json.Marshal(script)
	fields := append([]string{fmt.Sprintf(`"messages":[{"role":"user","content":%s}]`, b)}, more...)
	return "{" + strings.Join(fields, ",") + "}"
}

func (d *desk) refused(req string, code fsys.Code, reason string) {
	d.Helper()
	_, err := fsys.Converse(d.ctx, d.svc.Root(), "new", []byte(req))
	if err == nil || fsys.CodeOf(err) != code || !strings.Contains(fsys.ReasonOf(err), reason) {
		d.Errorf("%.80s: got %v, want %v: %s", req, err, code, reason)
	}
}

// shown is the policy as its file shows it.
func (d *desk) shown() string {
	d.Helper()
	b, err := fsys.ReadFile(d.ctx, d.svc.Policy(), "")
	d.must(err)
	return string(b)
}

func (d *desk) read(path string) string {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.ctx, 90*time.Second)
	defer cancel()
	b, err := fsys.ReadFile(ctx, d.svc.Root(), path)
	d.must(err)
	return string(b)
}

type status struct {
	State    compute.State `json:"state"`
	Provider string        `json:"provider"`
	Model    string        `json:"model"`
	Held     budget.Micros `json:"held_microusd"`
	Cost     budget.Micros `json:"cost_microusd"`
	Error    struct {
		Code, Reason string
	}
}

func (d *desk) status(n string) status {
	d.Helper()
	var s status
	d.must(json.Unmarshal([]byte(d.read("jobs/"+n+"/status")), &s))
	return s
}

// ended waits for the end of job n and checks how it ended.
func (d *desk) ended(n string, want compute.State, cost budget.Micros) status {
	d.Helper()
	d.read("jobs/" + n + "/result")
	s := d.status(n)
	if s.State != want || s.Cost != cost {
		d.Errorf("job %s: got %+v, want %s at %d", n, s, want, cost)
	}
	return s
}

// money checks what is held and spent, in the budget and by the service.
func (d *desk) money(held, spent budget.Micros) {
	d.Helper()
	b, err := d.account.Usage(d.ctx)
	d.must(err)
	var u struct {
		Held  budget.Micros `json:"held_microusd"`
		Spent budget.Micros `json:"spent_microusd"`
	}
	d.must(json.Unmarshal([]byte(d.read("usage")), &u))
	if b.Held != held || b.Total.Spent != spent || u.Held != held || u.Spent != spent {
		d.Errorf("held %d, spent %d in the budget; %+v by the service; want %d and %d", b.Held, b.Total.Spent, u, held, spent)
	}
}

func (d *desk) policy(doc string) {
	d.Helper()
	d.must(fsys.WriteFile(d.ctx, d.svc.Policy(), "", []byte(doc)))
}

func (d *desk) cancel(n string) error {
	return fsys.WriteFile(d.ctx, d.svc.Root(), "jobs/"+n+"/ctl", []byte("cancel\n"))
}

// begun waits until job n has said something.
func (d *desk) begun(n string) {
	d.Helper()
	h, err := fsys.OpenPath(d.ctx, d.svc.Root(), "jobs/"+n+"/output", fsys.Read)
	d.must(err)
	defer h.Close()
	ctx, cancel := context.WithTimeout(d.ctx, 90*time.Second)
	defer cancel()
	if got, err := fsys.ReadAt(ctx, h, make([]byte, 1), 0); got != 1 {
		d.Fatalf("job %s says nothing: %v", n, err)
	}
}

// stores are the databases that the whole way is tried on.
func stores(t *testing.T, test func(t *testing.T, db store.Updater)) {
	t.Run("mem", func(t *testing.T) { test(t, mem.New()) })
	t.Run("bolt", func(t *testing.T) {
		db, err := bolt.Open(filepath.Join(t.TempDir(), "db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		test(t, db)
	})
}

func TestTheWholeWay(t *testing.T) {
	stores(t, func(t *testing.T, db store.Updater) {
		d := newDeskOn(t, db, &fake.Provider{})
		n := d.ask(say("hello;wait for it;world;use 3 4", `"max_cost_microusd":500`, `"model":"fake"`))
		if n != "1" {
			t.Fatalf("the first job is %q", n)
		}
		d.begun(n)
		d.money(500, 0)
		if s := d.status(n); s.State != compute.Running || s.Provider != "main" || s.Model != "fake" || s.Held != 500 {
			t.Errorf("got %+v", s)
		}
		d.must(fstest.CheckTree(d.ctx, d.svc.Root(), "jobs/1/output", "providers/main/health"))
		d.fake.Open("for it")
		d.ended(n, compute.Done, 7*perToken)
		d.money(0, 70)
		for path, want := range map[string]string{
			"jobs/1/output": "hello world ",
			"jobs/1/chunks": `{"text":"hello "}
{"text":"world "}
{"finish_reason":"stop","usage":{"input_tokens":3,"output_tokens":4}}
`,
			"jobs/1/result": `{"object":"chat.completion","model":"fake","choices":[{"index":0,"message":{"role":"assistant","content":"hello world "},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}
`,
			"jobs/1/usage": `{"input_tokens":3,"cached_tokens":0,"output_tokens":4,"estimated":false,"held_microusd":0,"cost_microusd":70,"free":false,"price":{"input_microusd":10000000,"cached_input_microusd":1000000,"output_microusd":10000000}}
`,
			"jobs/1/request": say("hello;wait for it;world;use 3 4", `"max_cost_microusd":500`, `"model":"fake"`) + "\n",
			"jobs/1/ctl":     "cancel\n",
		} {
			if got := d.read(path); got != want {
				t.Errorf("%s: got %s\nwant %s", path, got, want)
			}
		}
		d.must(fstest.CheckTree(d.ctx, d.svc.Root()))
		if got := strings.Join(d.events, " "); got != "compute.submitted compute.done" {
			t.Errorf("the events are %s", got)
		}
	})
}

func TestPlainText(t *testing.T) {
	d := newDesk(t)
	n := d.ask("hi there\n")
	d.read("jobs/" + n + "/result")
	if got := d.read("jobs/1/output"); got != "hi there " {
		t.Errorf("got %q", got)
	}
	if s := d.status(n); s.Model != "fake" || s.State != compute.Done {
		t.Errorf("got %+v", s)
	}
}

func TestBadRequests(t *testing.T) {
	d := newDeskOn(t, mem.New(), &fake.Provider{}, models.NewRunner("second", &fake.Provider{}))
	for req, reason := range map[string]string{
		`{}`:                                "needs messages, a prompt or an input",
		`[1]`:                               "a request is a JSON object",
		`{"messages":}`:                     "not JSON",
		say("x", `"kind":"dance"`):          "there is no kind dance of work",
		say("x", `"kind":7`):                "kind must be a string",
		say("x", `"provider":"none"`):       "there is no provider none; there are: main, second",
		say("x", `"model":"none"`):          "no provider here has the model none; there are: fake, fake",
		say("x", `"max_cost_microusd":-1`):  "max_cost_microusd must be a whole number",
		say("x", `"max_cost_microusd":1.5`): "max_cost_microusd must be a whole number",
		say("x", `"max_cost_microusd":"5"`): "max_cost_microusd must be a whole number",
		say("x", `"idempotency_key":""`):    "idempotency_key must be a string of 1 to 255 bytes",
		say("x", `"timeout_ms":0`):          "timeout_ms must be a whole number from 1 to",
		`{"input":"x"}`:                     "no provider here can do work of kind embeddings",
		`{"messages":[]}`:                   "a chat needs at least one message",
		" \n":                               "the request is empty",
	} {
		if req == " \n" {
			continue // white space is no request: see fsys.Call
		}
		d.refused(req, fsys.Invalid, reason)
	}
	d.money(0, 0)
	if d.fake.Runs() != 0 {
		t.Errorf("%d bad requests ran", d.fake.Runs())
	}
	if _, err := fsys.Converse(d.ctx, d.svc.Root(), "new", nil); fsys.CodeOf(err) != fsys.Busy {
		t.Errorf("reading before writing: got %v", err)
	}
}

func TestMoney(t *testing.T) {
	d := newDesk(t)
	d.must(d.db.Update(d.ctx, func(tx store.Store) error {
		return d.account.SetLimits(d.ctx, tx, budget.Limits{Total: new(budget.Micros(1000))})
	}))
	d.refused(say("x", `"max_cost_microusd":1001`), fsys.Exhausted, "$0.001 is left")
	d.refused(say("x", `"max_tokens":9223372036854775807`, `"n":128`), fsys.Exhausted, "$0.001 is left")
	d.must(d.db.Update(d.ctx, func(tx store.Store) error {
		return d.account.SetLimits(d.ctx, tx, budget.Limits{Total: new(budget.Micros(1000)), ApprovalThreshold: new(budget.Micros(999))})
	}))
	d.refused(say("x", `"max_cost_microusd":1000`), fsys.Permission, "above $0.000999 it needs an approval")
	d.must(d.db.Update(d.ctx, func(tx store.Store) error {
		return d.account.SetLimits(d.ctx, tx, budget.Limits{Total: new(budget.Micros(1000))})
	}))
	if d.ended(d.ask(say("use 50 50;fail busy later", `"max_cost_microusd":1000`)), compute.Failed, 1000); d.status("1").Error.Reason != "later" {
		t.Errorf("got %+v", d.status("1"))
	}
	d.money(0, 1000)
	if _, err := fsys.OpenPath(d.ctx, d.svc.Root(), "new", fsys.Write); fsys.CodeOf(err) != fsys.Exhausted {
		t.Errorf("new opens with nothing left: %v", err)
	}
	if _, err := fsys.OpenPath(d.Context(), d.svc.Root(), "new", fsys.Write); fsys.CodeOf(err) != fsys.Exhausted {
		t.Errorf("new opens where nobody pays: %v", err)
	}
}

// What is held when the request does not say, and what is settled.
func TestPrices(t *testing.T) {
	free := &fake.Provider{About: models.Info{Driver: "x", Kinds: []models.Kind{models.Chat}, Free: true}, List: []models.Model{{Name: "free"}, {Name: "unfree"}}}
	unknown := &fake.Provider{List: []models.Model{{Name: "unknown"}}}
	d := newDeskOn(t, mem.New(), &fake.Provider{}, models.NewRunner("free", free), models.NewRunner("unknown", unknown))
	d.policy(`{"default_max_tokens":100,"prices":{"un*":{"input_microusd":0,"output_microusd":1},"fa*":{"input_microusd":1000000,"output_microusd":2000000}}}`)
	bounded := say("use 10 5;say a;wait GO", `"max_tokens":100`, `"model":"fake"`)
	for i, c := range []struct {
		what, req  string
		held, cost budget.Micros
	}{
		{"the prompt, which fills the context, and no bound", say("say a;use 10 5;wait GO"), 1 + 2*1, 20},
		{"the prompt and the bound", bounded, 1 + 2*100, 20},
		{"free", say("use 10 5;say a;wait GO", `"model":"free"`), 0, 0},
		{"free, with a bound", say("use 10 5;say a;wait GO", `"model":"free"`, `"max_cost_microusd":5`), 5, 0},
		{"not free where the policy has a price", say("use 10 5;say a;wait GO", `"model":"unfree"`), 1, 1},
		{"rounded up", say("use 1 1;say a;wait GO", `"model":"unknown"`, `"max_cost_microusd":5`), 5, 1},
		{"refused after it said something, which nobody counted", say("say a;use 0 0;wait GO;fail invalid no"), 3, 3},
		{"not counted", say("say a;wait GO", `"max_cost_microusd":50`), 50, 50},
	} {
		t.Run(c.what, func(t *testing.T) {
			n := d.ask(strings.ReplaceAll(c.req, "GO", strconv.Itoa(i)))
			d.begun(n)
			if s := d.status(n); s.Held != c.held {
				t.Errorf("held %d, want %d", s.Held, c.held)
			}
			for _, p := range []*fake.Provider{d.fake, free, unknown} {
				p.Open(strconv.Itoa(i))
			}
			d.read("jobs/" + n + "/result")
			if s := d.status(n); s.Cost != c.cost {
				t.Errorf("cost %d, want %d", s.Cost, c.cost)
			}
		})
	}
	d.policy(`{}`)
	d.refused(say("x", `"model":"unknown"`, `"max_cost_microusd":5`), fsys.Invalid, "the price of the model unknown is not known; set prices or default_price in compute/policy")
	d.ended(d.ask(say("use 9 9;x", `"model":"unfree"`)), compute.Done, 0)
	d.policy(`{"max_cost_required":true}`)
	d.refused(say("x"), fsys.Invalid, "the policy wants max_cost_microusd")
	d.ended(d.ask(say("x", `"model":"free"`)), compute.Done, 0)
}

func TestCancel(t *testing.T) {
	d := newDesk(t)
	n := d.ask(say("use 2 1;begin;wait forever", `"max_cost_microusd":500`))
	d.begun(n)
	d.must(d.cancel(n))
	d.ended(n, compute.Cancelled, 30)
	d.money(0, 30)
	if got := d.read("jobs/1/output"); got != "begin " {
		t.Errorf("the output of a cancelled job is %q", got)
	}
	if got := d.read("jobs/1/result"); got != `{"error":{"message":"cancelled","code":"canceled"}}`+"\n" {
		t.Errorf("the result of a cancelled job is %s", got)
	}
	if err := d.cancel(n); fsys.CodeOf(err) != fsys.Busy {
		t.Errorf("cancelling again: %v", err)
	}
	if err := fsys.WriteFile(d.ctx, d.svc.Root(), "jobs/1/ctl", []byte("stop\n")); fsys.CodeOf(err) != fsys.Invalid {
		t.Errorf("another command: %v", err)
	}
}

func TestTimeout(t *testing.T) {
	d := newDesk(t)
	n := d.ask(say("use 2 1;begin;wait forever", `"timeout_ms":1000`, `"max_cost_microusd":500`))
	s := d.ended(n, compute.Failed, 30)
	if s.Error.Code != "timeout" || s.Error.Reason != "the job ran longer than 1s" {
		t.Errorf("got %+v", s.Error)
	}
}

func TestProviderPanics(t *testing.T) {
	d := newDesk(t)
	n := d.ask(say("begin;panic", `"max_cost_microusd":500`))
	d.read("jobs/" + n + "/result")
	s := d.status(n)
	if s.State != compute.Failed || s.Error.Reason != "the provider main crashed" || s.Cost == 0 {
		t.Errorf("got %+v", s)
	}
	d.money(0, s.Cost)
	d.ended(d.ask(say("use 1 1;fine")), compute.Done, 20)
}

func TestQueue(t *testing.T) {
	d := newDesk(t)
	d.policy(`{"max_concurrent":2,"max_queued":2}`)
	for i := 1; i <= 4; i++ {
		d.ask(say(fmt.Sprintf("use 1 1;go %d;wait %d", i, i), `"max_cost_microusd":20`))
	}
	d.begun("1")
	d.begun("2")
	d.money(80, 0)
	for n, want := range map[string]compute.State{"1": compute.Running, "2": compute.Running, "3": compute.Queued, "4": compute.Queued} {
		if s := d.status(n); s.State != want {
			t.Errorf("job %s is %s, want %s", n, s.State, want)
		}
	}
	if _, err := fsys.OpenPath(d.ctx, d.svc.Root(), "new", fsys.Write); fsys.CodeOf(err) != fsys.Busy {
		t.Errorf("with a full queue: %v", err)
	}
	d.must(d.cancel("3"))
	if s := d.status("3"); s.State != compute.Cancelled || s.Cost != 0 {
		t.Errorf("a cancelled job that had not begun: %+v", s)
	}
	d.fake.Open("2")
	d.begun("4")
	d.fake.Open("1")
	d.fake.Open("4")
	for _, n := range []string{"1", "2", "4"} {
		d.ended(n, compute.Done, 20)
	}
	if d.fake.Runs() != 3 {
		t.Errorf("%d ran, want 3", d.fake.Runs())
	}
	d.money(0, 60)
	if got := d.read("usage"); !strings.Contains(got, `"jobs":{"awaiting-approval":0,"cancelled":1,"done":3,"failed":0,"queued":0,"running":0}`) {
		t.Errorf("usage: %s", got)
	}
	d.ask(say("more"))
	d.ask(say("room"))
	if d.svc.Unfinished() > 0 {
		d.read("jobs/5/result")
		d.read("jobs/6/result")
	}
}

func TestCancelAll(t *testing.T) {
	d := newDesk(t)
	d.policy(`{"max_concurrent":2}`)
	for range 5 {
		d.ask(say("use 1 1;begin;wait forever", `"max_cost_microusd":20`))
	}
	d.begun("1")
	d.begun("2")
	d.must(d.svc.CancelAll(nil))
	for n, cost := range map[string]budget.Micros{"1": 20, "2": 20, "3": 0, "4": 0, "5": 0} {
		d.ended(n, compute.Cancelled, cost)
	}
	if d.fake.Runs() != 2 {
		t.Errorf("%d ran, want 2", d.fake.Runs())
	}
}
