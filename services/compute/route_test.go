package compute_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agent9/fsys"
	"agent9/namespace/budget"
	"agent9/providers/models"
	"agent9/providers/models/exec"
	"agent9/providers/models/fake"
	"agent9/services/compute"
	"agent9/store"
	"agent9/store/mem"
)

// series is a provider that follows one script after the other, and then the
// last one for ever. "wait 3s: SCRIPT" makes the error of a script one that
// asks to be left alone so long.
type series struct {
	fake.Provider
	mu      sync.Mutex
	scripts []string
	runs    []time.Time
}

func newSeries(model string, price int64, scripts ...string) *series {
	s := &series{scripts: scripts}
	p := budget.Micros(price * 1e6)
	s.List = []models.Model{{Name: model, Context: 1, Price: &models.Price{Input: p, Cached: p, Output: p}}}
	return s
}

func (s *series) Run(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
	s.mu.Lock()
	script := s.scripts[min(len(s.runs), len(s.scripts)-1)]
	s.runs = append(s.runs, time.Now())
	s.mu.Unlock()
	before, after, ok := strings.Cut(script, ": ")
	if !ok {
		after = script
	}
	usage, err := s.Provider.Run(ctx, models.Ask(req.Model, after), emit)
	if wait, bad := time.ParseDuration(before); ok && bad == nil && err != nil {
		err = &fsys.Error{Code: fsys.CodeOf(err), Reason: fsys.ReasonOf(err), Err: leaveAlone(wait)}
	}
	return usage, err
}

// Who says that it is of no use is not asked again, and others are.
func TestFinal(t *testing.T) {
	marks := filepath.Join(t.TempDir(), "marks")
	command, err := exec.New(exec.Config{Command: "echo >>" + marks + `; read status; exit "$status"`})
	if err != nil {
		t.Fatal(err)
	}
	d := newDeskOn(t, mem.New(), &fake.Provider{}, models.NewRunner("command", command))
	d.policy(`{"fallback":[{"provider":"main","model":"fake"}],"max_attempts":2}`)
	for _, c := range []struct {
		req, attempts string
		runs          int
	}{
		{say("3\n", `"model":"x"`), "command/x provider 0, main/fake  20", 1},
		{say("3\n", `"model":"x"`, `"provider":"command"`), "", 1},
		{say("75\n", `"model":"x"`, `"provider":"command"`), "command/x provider 0, command/x provider 0", 2},
	} {
		os.Remove(marks)
		n := d.ask(strings.Replace(c.req, `"messages"`, `"max_cost_microusd":1000000,"messages"`, 1))
		d.read("jobs/" + n + "/result")
		got := d.attempts(n)
		if i := strings.LastIndex(got, "main/fake "); i >= 0 {
			got = got[:i] + "main/fake  20" // what it costs is not the point
		}
		ran, err := os.ReadFile(marks)
		d.must(err)
		if got != c.attempts || len(ran) != c.runs {
			t.Errorf("%s: %q, and the command ran %d times", c.req, got, len(ran))
		}
	}
}

type leaveAlone time.Duration

func (leaveAlone) Error() string               { return "leave me alone" }
func (l leaveAlone) RetryAfter() time.Duration { return time.Duration(l) }

// times are when the provider was asked, since the first time in the test.
func (s *series) times() (since []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range s.runs {
		since = append(since, at.Sub(s.runs[0]))
	}
	return since
}

// bubble runs a test on a clock that moves when nothing else can.
func bubble(t *testing.T, policy string, test func(d *desk), providers ...models.Provider) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var runners []*models.Runner
		for i, p := range providers {
			runners = append(runners, models.NewRunner(string(rune('a'+i)), p))
		}
		d := newDeskOn(t, mem.New(), &fake.Provider{}, runners...)
		d.policy(policy)
		test(d)
		ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
		defer cancel()
		d.must(d.svc.Close(ctx))
		d.stop()
	})
}

// attempts are those that a job's usage lists, as "provider/model code cost".
func (d *desk) attempts(n string) string {
	d.Helper()
	var u struct {
		Attempts []struct {
			Provider, Model string
			Cost            int64 `json:"cost_microusd"`
			Error           struct{ Code string }
		}
	}
	d.must(json.Unmarshal([]byte(d.read("jobs/"+n+"/usage")), &u))
	var list []string
	for _, a := range u.Attempts {
		list = append(list, fmt.Sprintf("%s/%s %s %d", a.Provider, a.Model, a.Error.Code, a.Cost))
	}
	return strings.Join(list, ", ")
}

func TestRetry(t *testing.T) {
	a := newSeries("m", 10, "use 0 0;fail provider down", "use 1 0;fail timeout slow", "use 0 0;fail internal oops", "use 2 3;fine")
	bubble(t, `{}`, func(d *desk) {
		n := d.ask(say("x", `"model":"m"`, `"max_cost_microusd":1000`))
		d.ended(n, compute.Done, 60)
		d.money(0, 60)
		if got := d.attempts(n); got != "a/m provider 0, a/m timeout 10, a/m internal 0, a/m  50" {
			t.Errorf("the attempts are %s", got)
		}
		if got := d.read("jobs/" + n + "/output"); got != "fine " {
			t.Errorf("got %q", got)
		}
		at := a.times()
		for i, first := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second} {
			if wait := at[i+1] - at[i]; wait < first/2 || wait > first {
				t.Errorf("wait %d was %v, want %v to %v", i, wait, first/2, first)
			}
		}
		if got := strings.Join(d.events, " "); got != "compute.policy compute.submitted compute.attempt compute.attempt compute.attempt compute.done" {
			t.Errorf("the events are %s", got)
		}
		// Every cost has a line of the ledger, and they add up.
		var spent int64
		h, err := fsys.OpenPath(d.ctx, d.account.Root(), "ledger", fsys.Read)
		d.must(err)
		p := make([]byte, 10_000)
		size, err := fsys.ReadAt(d.ctx, h, p, 0)
		d.must(err)
		for line := range strings.Lines(string(p[:size])) {
			var e budget.Entry
			d.must(json.Unmarshal([]byte(line), &e))
			if e.Cost != nil {
				spent = spent*100 + int64(*e.Cost)
			}
		}
		if spent != 1050 {
			t.Errorf("the ledger has %s", p[:size])
		}
	}, a)
}

func TestRetriesAreBounded(t *testing.T) {
	a := newSeries("m", 10, "use 0 0;fail provider down")
	bubble(t, `{"max_attempts":3}`, func(d *desk) {
		n := d.ask(say("x", `"model":"m"`))
		if s := d.ended(n, compute.Failed, 0); s.Error.Reason != "down" || len(a.times()) != 3 {
			t.Errorf("asked %d times, %+v", len(a.times()), s)
		}
		if got := d.attempts(n); got != "a/m provider 0, a/m provider 0, a/m provider 0" {
			t.Errorf("the attempts are %s", got)
		}
	}, a)
}

// What may not be tried again.
func TestNoRetry(t *testing.T) {
	for script, want := range map[string]string{
		"use 1 1;begin;fail provider down":  "provider 20", // a reader has seen something
		"use 1 1;fail invalid no":           "invalid 20",
		"use 0 0;fail too-large no":         "too-large 0",
		"use 1 1;call f {};fail busy no":    "busy 20",
		"use 100 0;fail provider expensive": "provider 1000", // all that was held
		"use 0 0;fail not-found no such":    "not-found 0",
	} {
		a := newSeries("m", 10, script)
		bubble(t, `{}`, func(d *desk) {
			n := d.ask(say("x", `"model":"m"`, `"max_cost_microusd":1000`))
			d.read("jobs/" + n + "/result")
			s := d.status(n)
			if got := fmt.Sprintf("%s %d", s.Error.Code, s.Cost); got != want || len(a.times()) != 1 {
				t.Errorf("%s: got %s after %d attempts, want %s after 1", script, got, len(a.times()), want)
			}
		}, a)
	}
}

func TestRetryAfter(t *testing.T) {
	a := newSeries("m", 10, "7s: use 0 0;fail busy rate", "use 1 1;fine")
	bubble(t, `{}`, func(d *desk) {
		d.ended(d.ask(say("x", `"model":"m"`)), compute.Done, 20)
		if at := a.times(); at[1] != 7*time.Second {
			t.Errorf("asked at %v", at)
		}
	}, a)
	// Longer than the policy or the job can wait; and then the next job.
	for policy, timeout := range map[string]string{`{"max_retry_wait_ms":6000}`: `"timeout_ms":60000`, `{}`: `"timeout_ms":7000`} {
		a := newSeries("m", 10, "7s: use 0 0;fail busy rate", "use 0 0;fine")
		bubble(t, policy, func(d *desk) {
			n := d.ask(say("x", `"model":"m"`, timeout))
			if s := d.ended(n, compute.Failed, 0); s.Error.Reason != "rate" || len(a.times()) != 1 {
				t.Errorf("%s: %+v, asked at %v", policy, s, a.times())
			}
			n = d.ask(say("x", `"model":"m"`, timeout))
			if s := d.ended(n, compute.Failed, 0); s.Error.Reason != "the provider a wants to be left alone for another 7s" {
				t.Errorf("%s: %+v, asked at %v", policy, s, a.times())
			}
		}, a)
	}
}

func TestTimeoutInAPause(t *testing.T) {
	a := newSeries("m", 10, "3s: use 1 0;fail busy rate", "use 0 0;wait for ever")
	bubble(t, `{}`, func(d *desk) {
		begun := time.Now()
		n := d.ask(say("x", `"model":"m"`, `"timeout_ms":4000`, `"max_cost_microusd":1000`))
		s := d.ended(n, compute.Failed, 10)
		if took := time.Since(begun); took != 4*time.Second || s.Error.Code != "timeout" {
			t.Errorf("%+v after %v", s, took)
		}
		n = d.ask(say("x", `"model":"m"`))
		synctest.Wait()
		d.must(d.cancel(n))
		d.ended(n, compute.Cancelled, 0)
	}, a)
	a = newSeries("m", 10, "3s: use 1 0;fail busy rate")
	bubble(t, `{}`, func(d *desk) {
		n := d.ask(say("x", `"model":"m"`, `"max_cost_microusd":1000`))
		synctest.Wait() // it waits for its second attempt
		if s := d.status(n); s.State != compute.Running || s.Held != 990 {
			t.Errorf("got %+v", s)
		}
		d.must(d.cancel(n))
		d.ended(n, compute.Cancelled, 10)
		if got := d.attempts(n); got != "a/m busy 10" {
			t.Errorf("the attempts are %s", got)
		}
		d.money(0, 10)
	}, a)
}

// Another one that has the model is asked at once, and the one that failed is
// set aside until its time is over.
func TestFallback(t *testing.T) {
	a := newSeries("m", 10, "use 1 0;fail provider down", "use 0 0;fail provider down", "use 1 1;back")
	b := newSeries("m", 20, "use 1 1;other")
	c := newSeries("cheap", 1, "use 1 1;cheap")
	bubble(t, `{"fallback":[{"model":"cheap"}],"max_attempts":2}`, func(d *desk) {
		begun := time.Now()
		n := d.ask(say("x", `"model":"m"`, `"max_cost_microusd":1000`))
		if s := d.ended(n, compute.Done, 50); s.Provider != "b" || time.Since(begun) != 0 {
			t.Errorf("got %+v after %v", s, time.Since(begun))
		}
		if got := d.attempts(n); got != "a/m provider 10, b/m  40" {
			t.Errorf("the attempts are %s", got)
		}
		health := func() string {
			var h struct {
				State string
				OK    bool
				Until string `json:"aside_until"`
				Error struct{ Reason string }
			}
			d.must(json.Unmarshal([]byte(d.read("providers/a/health")), &h))
			return fmt.Sprintf("%s %v %v %s", h.State, h.OK, h.Until != "", h.Error.Reason)
		}
		if got := health(); got != "aside false true down" {
			t.Errorf("health: %s", got)
		}
		ask := func(want string) {
			t.Helper()
			n := d.ask(say("x", `"model":"m"`, `"max_cost_microusd":1000`))
			d.read("jobs/" + n + "/result")
			if s := d.status(n); s.Provider != want {
				t.Errorf("asked %s, want %s", s.Provider, want)
			}
		}
		ask("b")
		if asked := len(a.times()); asked != 1 {
			t.Errorf("the one set aside was asked %d times", asked)
		}
		<-time.After(time.Second)
		if got := health(); got != "failing false false down" {
			t.Errorf("health: %s", got)
		}
		ask("b") // a is tried, and fails
		if asked := len(a.times()); asked != 2 {
			t.Errorf("asked %d times", asked)
		}
		<-time.After(2 * time.Second)
		ask("a")
		if got := health(); got != "ok true false " {
			t.Errorf("health: %s", got)
		}
	}, a, b, c)
	a = newSeries("m", 10, "use 0 0;fail not-found gone")
	bubble(t, `{"fallback":[{"provider":"main","model":"blocked"},{"model":"cheap"}],"block_models":["blocked"]}`, func(d *desk) {
		n := d.ask(say("x", `"model":"m"`))
		if s := d.ended(n, compute.Done, 2); s.Model != "cheap" {
			t.Errorf("got %+v", s)
		}
		// Who names a provider gets no other.
		n = d.ask(say("x", `"model":"m"`, `"provider":"a"`))
		d.ended(n, compute.Failed, 0)
	}, a, c)
}

func TestPrefer(t *testing.T) {
	for how, want := range map[string]string{"cost": "b", "quality": "a", "latency": "b"} {
		a, b := newSeries("m", 10, "use 1 1;x"), newSeries("m", 2, "use 1 1;x")
		a.scripts = []string{"1"}
		slow := &slowly{a, 300 * time.Millisecond}
		bubble(t, `{"prefer":"`+how+`"}`, func(d *desk) {
			last := ""
			for range 3 { // each one is measured first
				n := d.ask(say("x", `"model":"m"`))
				d.read("jobs/" + n + "/result")
				last = d.status(n).Provider
			}
			if last != want {
				t.Errorf("prefer %s: asked %s, want %s", how, last, want)
			}
			if how == "latency" && !strings.Contains(d.read("providers/a/health"), `"latency":[{"model":"m","first_ms":300,"total_ms":300,"runs":1}]`) {
				t.Errorf("health: %s", d.read("providers/a/health"))
			}
		}, slow, b)
	}
}

// slowly is a provider that takes its time.
type slowly struct {
	*series
	pause time.Duration
}

func (s *slowly) Run(ctx context.Context, req models.Request, emit func(models.Chunk) error) (models.Usage, error) {
	<-time.After(s.pause)
	return s.series.Run(ctx, req, emit)
}

// Behind what is free nothing is asked that costs, unless somebody says so.
func TestFreeStaysFree(t *testing.T) {
	a := newSeries("m", 0, "fail provider down")
	a.About = models.Info{Driver: "x", Kinds: []models.Kind{models.Chat}, Free: true}
	for _, c := range []struct {
		policy, more string
		want         compute.State
		cost         budget.Micros
	}{
		{`{}`, `"model":"m"`, compute.Failed, 0},
		{`{}`, `"model":"m","max_cost_microusd":100`, compute.Done, 20},
		{`{"fallback":[{"provider":"b"}]}`, `"model":"m"`, compute.Done, 20},
	} {
		bubble(t, c.policy, func(d *desk) {
			d.ended(d.ask(say("x", c.more)), c.want, c.cost)
		}, a, newSeries("m", 10, "use 1 1;x"))
	}
}

func TestPricesAreKnown(t *testing.T) {
	none := &fake.Provider{List: []models.Model{{Name: "gpt-4o"}, {Name: "mine"}}}
	bubble(t, `{}`, func(d *desk) {
		d.ended(d.ask(say("use 1000 1;x", `"model":"gpt-4o"`)), compute.Done, 2510) // as is publicly known
		d.refused(say("x", `"model":"mine"`), fsys.Invalid, "the price of the model mine is not known; set prices or default_price in compute/policy")
		d.policy(`{"default_price":{"input_microusd":3000000,"output_microusd":0}}`)
		d.ended(d.ask(say("use 1 1;x", `"model":"mine"`)), compute.Done, 6)
		d.policy(`{"prices":{"gpt*":{"input_microusd":1000000,"output_microusd":0}}}`)
		d.ended(d.ask(say("use 999 1;x", `"model":"gpt-4o"`, `"max_cost_microusd":1000`)), compute.Done, 1000)
	}, none)
}

// A run that does not keep to what it was asked for is stopped, and keeps its
// output.
func TestStopAtTheHold(t *testing.T) {
	long := strings.Repeat("say 12345678;", 200)
	a := newSeries("m", 10, "1;"+long+"wait for ever")
	bubble(t, `{}`, func(d *desk) {
		n := d.ask(say("x", `"model":"m"`, `"max_cost_microusd":200`))
		s := d.ended(n, compute.Failed, 200)
		if s.Error.Code != "budget" || s.Error.Reason != "budget: the run was stopped, as its answer is longer than 1 tokens" {
			t.Errorf("got %+v", s)
		}
		if got := len(d.read("jobs/" + n + "/output")); got < 1024+2*16 || got > 1024+3*16 {
			t.Errorf("there are %d bytes of output", got)
		}
		d.money(0, 200)
	}, a)
	// What the provider counts itself is believed, and settled as it is.
	a = newSeries("m", 10, "use 5 5;a;use 30 30;b;c")
	bubble(t, `{}`, func(d *desk) {
		n := d.ask(say("x", `"model":"m"`, `"max_cost_microusd":200`))
		d.ended(n, compute.Failed, 600)
		if got := d.read("jobs/" + n + "/output"); got != "a b " {
			t.Errorf("got %q", got)
		}
	}, a)
	// Nobody is stopped who stays in the bounds of the request.
	a = newSeries("m", 10, strings.Repeat("say 12345678;", 100)+"use 1 20;end")
	bubble(t, `{}`, func(d *desk) {
		d.ended(d.ask(say("x", `"model":"m"`, `"max_tokens":20`)), compute.Done, 210)
	}, a)
}

// A crash while a job waits to try again costs what it had cost.
func TestKilledInAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newSeries("m", 10, "1h: use 1 0;fail busy rate")
		d := newDeskOn(t, mem.New(), &fake.Provider{}, models.NewRunner("a", a))
		d.policy(`{"max_retry_wait_ms":3600000}`)
		n := d.ask(say("x", `"model":"m"`, `"max_cost_microusd":500`, `"timeout_ms":86400000`))
		synctest.Wait()
		d.money(490, 10)
		old := d.svc
		frozen := d.db
		d.db = mem.New()
		for p, err := range store.All(d.ctx, frozen, "") {
			d.must(err)
			d.must(d.db.Put(d.ctx, p.Key, p.Value))
		}
		d.open()
		d.ended(n, compute.Failed, 10)
		d.money(0, 10)
		d.must(old.CancelAll(nil))
		d.must(old.Wait(d.ctx))
	})
}
