package compute_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/fsys/fstest"
	"agent9/namespace/budget"
	"agent9/providers/models"
	"agent9/providers/models/fake"
	"agent9/services/compute"
	"agent9/store"
	"agent9/store/mem"
)

// newAskingDesk is a desk whose jobs above 99 µ$ wait for an approval; more are
// further limits.
func newAskingDesk(t *testing.T, db store.Updater, more string) *desk {
	d := newDeskOn(t, db, &fake.Provider{})
	d.must(fsys.WriteFile(d.ctx, d.account.Root(), "limits", []byte(`{"approval_threshold_microusd":99,"total_microusd":1000`+more+`}`)))
	d.asking = budget.NewApprovals(d.Context(), d.account)
	d.open()
	t.Cleanup(func() { d.asking.End() })
	return d
}

func (d *desk) decide(id, words string) error {
	ctx := fsys.WithCaller(d.Context(), fsys.Operator)
	return fsys.WriteFile(ctx, d.asking.Root(), id, []byte(words))
}

// asked lists the approvals.
func (d *desk) asked() string {
	d.Helper()
	list, err := fsys.List(d.ctx, d.asking.Root())
	d.must(err)
	var names []string
	for _, e := range list {
		names = append(names, e.Name)
	}
	return strings.Join(names, " ")
}

func (d *desk) waits(n string) {
	d.Helper()
	if s := d.status(n); s.State != compute.Awaiting {
		d.Errorf("job %s: got %+v, want that it waits", n, s)
	}
}

func TestApproval(t *testing.T) {
	stores(t, func(t *testing.T, db store.Updater) {
		d := newAskingDesk(t, db, "")
		n := d.ask(say("use 1 1;x", `"max_cost_microusd":600`, `"idempotency_key":"k"`))
		d.waits(n)
		d.money(600, 0)
		d.ended(d.ask(say("use 1 1;y", `"max_cost_microusd":99`)), compute.Done, 20)
		d.refused(say("z", `"max_cost_microusd":381`), fsys.Exhausted, "$0.00038 is left")
		if again := d.ask(say("use 1 1;x", `"max_cost_microusd":600`, `"idempotency_key":"k"`)); again != n {
			t.Errorf("the same key is job %s", again)
		}
		if d.fake.Runs() != 1 || d.asked() != "1" {
			t.Errorf("%d ran, and %q wait", d.fake.Runs(), d.asked())
		}
		d.must(fstest.CheckTree(d.ctx, d.asking.Root()))
		line, err := fsys.ReadFile(d.ctx, d.asking.Root(), "1")
		d.must(err)
		var w budget.Approval
		d.must(json.Unmarshal(line, &w))
		asked, _ := time.Parse(time.RFC3339, w.Asked)
		expires, _ := time.Parse(time.RFC3339, w.Expires)
		if expires.Sub(asked) != 24*time.Hour {
			t.Errorf("asked %s, expires %s", w.Asked, w.Expires)
		}
		w.Asked, w.Expires = "", ""
		if want := (budget.Approval{
			ID: "1", What: "compute job 1", Max: 600, Threshold: 99, Account: "alice", By: "alice",
			Question: budget.Question{Service: "compute", Job: 1, Provider: "main", Model: "fake"},
		}); w != want {
			t.Errorf("got %+v, want %+v", w, want)
		}
		if got := d.read("jobs/1/status"); !strings.Contains(got, `"state":"awaiting-approval","approval":"1"`) {
			t.Errorf("status is %s", got)
		}

		if _, h, err := fsys.OpenCreate(d.ctx, d.asking.Root(), "1", 0o644, fsys.Write|fsys.Trunc); err != nil {
			t.Errorf("a shell opens it: %v", err)
		} else {
			h.Close()
		}
		second, err := fsys.OpenPath(d.ctx, d.asking.Root(), "1", fsys.Write)
		d.must(err)
		if err := d.decide("1", "perhaps"); fsys.CodeOf(err) != fsys.Invalid {
			t.Errorf("an unknown word: %v", err)
		}
		d.must(d.decide("1", "approve\n"))
		if _, err := fsys.WriteAt(d.ctx, second, []byte("deny"), 0); fsys.CodeOf(err) != fsys.Busy || !strings.Contains(fsys.ReasonOf(err), "approval 1 is not open: it was decided") {
			t.Errorf("a second decision: %v", err)
		}
		if err := d.decide("1", "deny"); fsys.CodeOf(err) != fsys.NotExist {
			t.Errorf("a decision later: %v", err)
		}
		_, _, err = fsys.OpenCreate(d.ctx, d.asking.Root(), "1", 0o644, fsys.Write|fsys.Trunc)
		if fsys.CodeOf(err) != fsys.Busy || !strings.Contains(fsys.ReasonOf(err), "approval 1 is not open: it was decided") {
			t.Errorf("a decision later, by a shell: %v", err)
		}
		d.ended(n, compute.Done, 20)
		d.money(0, 40)
		if got := strings.Join(d.events, " "); got != "approval.asked compute.submitted compute.submitted compute.done approval.approved compute.done" {
			t.Errorf("the events are %s", got)
		}
	})
}

func TestApprovalRefused(t *testing.T) {
	d := newAskingDesk(t, mem.New(), "")
	n := d.ask(say("x", `"max_cost_microusd":100`))
	result, err := fsys.OpenPath(d.ctx, d.svc.Root(), "jobs/1/result", fsys.Read)
	d.must(err)
	d.must(d.decide("1", "deny  too much\n"))
	if b, err := fsys.ReadAll(d.ctx, result); err != nil || !strings.Contains(string(b), "denied by operator: too much") {
		t.Errorf("who waited for the result got %q, %v", b, err)
	}
	s := d.ended(n, compute.Failed, 0)
	if s.Error.Code != "forbidden" || s.Error.Reason != "the approval was denied by operator: too much" {
		t.Errorf("got %+v", s.Error)
	}
	d.money(0, 0)
	if d.asked() != "" || d.fake.Runs() != 0 {
		t.Errorf("%q wait, %d ran", d.asked(), d.fake.Runs())
	}
	if got := strings.Join(d.events, " "); got != "approval.asked compute.submitted approval.denied compute.failed" {
		t.Errorf("the events are %s", got)
	}
}

func TestApprovalExpires(t *testing.T) {
	d := newAskingDesk(t, mem.New(), `,"approval_expires_ms":20`)
	var numbers []string
	for range 3 {
		numbers = append(numbers, d.ask(say("x", `"max_cost_microusd":100`)))
	}
	for _, n := range numbers {
		s := d.ended(n, compute.Failed, 0)
		if s.Error.Code != "timeout" || !strings.HasPrefix(s.Error.Reason, "no approval was given by ") {
			t.Errorf("got %+v", s.Error)
		}
	}
	d.money(0, 0)
	if d.asked() != "" {
		t.Errorf("%q wait", d.asked())
	}
}

func TestCancelWaiting(t *testing.T) {
	d := newAskingDesk(t, mem.New(), "")
	for range 4 {
		d.ask(say("x", `"max_cost_microusd":100`, `"idempotency_key":"k`+d.asked()+`"`))
	}
	d.must(d.cancel("1"))
	d.ended("1", compute.Cancelled, 0)
	if err := d.cancel("1"); fsys.CodeOf(err) != fsys.Busy {
		t.Errorf("cancelling again: %v", err)
	}
	d.removeAll("jobs/2")
	if got := d.asked(); got != "3 4" {
		t.Errorf("%s wait", got)
	}
	d.money(200, 0)
	d.must(d.svc.CancelAll(nil))
	d.money(0, 0)
	if got := d.read("usage"); d.asked() != "" || !strings.Contains(got, `"awaiting-approval":0,"cancelled":3`) {
		t.Errorf("%q wait, usage is %s", d.asked(), got)
	}
}

func TestWaitSurvivesRestart(t *testing.T) {
	stores(t, func(t *testing.T, db store.Updater) {
		d := newAskingDesk(t, db, "")
		for range 4 {
			d.ask(say("use 1 1;x", `"max_cost_microusd":100`))
		}
		for range 2 {
			ctx, cancel := context.WithTimeout(d.ctx, 90*time.Second)
			d.must(d.svc.Close(ctx))
			cancel()
			d.open()
			for _, n := range []string{"1", "2", "3", "4"} {
				d.waits(n)
			}
			d.money(400, 0)
		}
		d.must(d.decide("1", "approve"))
		d.ended("1", compute.Done, 20)
		d.must(d.decide("2", "deny"))
		d.ended("2", compute.Failed, 0)
		d.must(d.cancel("3"))
		d.ended("3", compute.Cancelled, 0)
		d.money(100, 20)

		d.now = func() time.Time { return time.Now().Add(25 * time.Hour) }
		d.open()
		if s := d.ended("4", compute.Failed, 0); s.Error.Code != "timeout" {
			t.Errorf("expired while nobody looked: %+v", s)
		}
		d.money(0, 20)
	})
}

func TestWaitsForWhatIsGone(t *testing.T) {
	d := newAskingDesk(t, mem.New(), "")
	d.others = append(d.others, models.NewRunner("second", chat("fake")))
	d.open()
	n := d.ask(say("x", `"max_cost_microusd":100`, `"provider":"second"`))
	d.others = nil
	d.open()
	if s := d.ended(n, compute.Failed, 0); !strings.Contains(s.Error.Reason, "there is no provider second") {
		t.Errorf("got %+v", s)
	}
	d.money(0, 0)
	if d.asked() != "" {
		t.Errorf("%q wait", d.asked())
	}
}

// However many decide at once, one does.
func TestWhoDecidesFirst(t *testing.T) {
	d := newAskingDesk(t, mem.New(), "")
	for range 40 {
		n := d.ask(say("use 1 1;x", `"max_cost_microusd":100`))
		id := d.asked()
		var wg sync.WaitGroup
		var mu sync.Mutex
		decided := 0
		for _, words := range []string{"approve", "deny", "approve", "deny no"} {
			wg.Go(func() {
				err := d.decide(id, words)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					decided++
				case fsys.CodeOf(err) != fsys.Busy && fsys.CodeOf(err) != fsys.NotExist:
					t.Error(err)
				}
			})
		}
		wg.Go(func() {
			if err := d.cancel(n); err != nil && fsys.CodeOf(err) != fsys.Busy {
				t.Error(err)
			}
		})
		wg.Wait()
		d.read("jobs/" + n + "/result")
		if s := d.status(n); decided > 1 || decided == 0 && s.State != compute.Cancelled {
			t.Fatalf("%d decided, and the job is %s", decided, s.State)
		}
		jobs, err := fsys.WalkPath(d.ctx, d.svc.Root(), "jobs/"+n)
		d.must(err)
		d.must(fsys.Remove(d.ctx, jobs))
	}
	if u, err := d.account.Usage(d.ctx); err != nil || u.Held != 0 || u.Total.Spent != budget.Micros(20*d.fake.Runs()) {
		t.Errorf("%d ran, and usage is %+v, %v", d.fake.Runs(), u, err)
	}
}

// A job that waited when the program ended may still be done by the others.
func TestApprovedIsRouted(t *testing.T) {
	a, b := newSeries("m", 10, "use 1 0;fail provider down"), newSeries("m", 10, "use 1 1;x")
	d := newDeskOn(t, mem.New(), &fake.Provider{}, models.NewRunner("a", a), models.NewRunner("b", b))
	d.must(fsys.WriteFile(d.ctx, d.account.Root(), "limits", []byte(`{"approval_threshold_microusd":99}`)))
	d.asking = budget.NewApprovals(d.Context(), d.account)
	d.Cleanup(func() { d.asking.End() })
	d.open()
	n := d.ask(say("x", `"model":"m"`, `"max_cost_microusd":600`))
	d.waits(n)
	d.open()
	d.waits(n)
	d.must(d.decide("1", "approve\n"))
	d.ended(n, compute.Done, 30)
	if got := d.attempts(n); got != "a/m provider 10, b/m  20" {
		t.Errorf("the attempts are %s", got)
	}
	d.money(0, 30)
}
