package compute_test

import (
	"context"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/providers/models"
	"agent9/providers/models/fake"
	"agent9/services/compute"
	"agent9/store"
)

// The program dies while jobs run and wait: the service writes nothing more,
// as its providers do not return, and another one opens what is on disk.
func TestKilled(t *testing.T) {
	stores(t, func(t *testing.T, db store.Updater) {
		free := models.NewRunner("free", &fake.Provider{
			About: models.Info{Driver: "x", Kinds: []models.Kind{models.Chat}, Free: true},
			List:  []models.Model{{Name: "free"}},
		})
		d := newDeskOn(t, db, &fake.Provider{}, free)
		d.policy(`{"max_concurrent":3}`)
		d.ended(d.ask(say("use 1 1;x", `"max_cost_microusd":50`)), compute.Done, 20)
		d.ask(say("begin;deaf deaf", `"max_cost_microusd":100`))
		d.ask(say("begin;wait forever", `"max_cost_microusd":7`, `"model":"free"`))
		d.ask(say("begin;deaf deaf", `"max_cost_microusd":1000`, `"idempotency_key":"gone"`))
		d.ask(say("begin;deaf deaf", `"max_cost_microusd":10000`))
		for _, n := range []string{"2", "3", "4"} {
			d.begun(n)
		}
		d.money(11107, 20)
		removed, err := fsys.WalkPath(d.ctx, d.svc.Root(), "jobs/gone")
		d.must(err)
		d.must(fsys.Remove(d.ctx, removed))

		d.open()
		for n, cost := range map[string]int64{"2": 100, "3": 0, "5": 0} {
			s := d.status(n)
			if s.State != compute.Failed || s.Error.Reason != "interrupted" || int64(s.Cost) != cost {
				t.Errorf("job %s: %+v, want failed, interrupted, at %d", n, s, cost)
			}
		}
		if got := d.names("jobs"); got != "1 2 3 5" {
			t.Errorf("jobs has %s", got)
		}
		d.money(0, 20+100+1000)
		if got := d.read("jobs/2/result"); got != `{"error":{"message":"interrupted","code":"canceled"}}`+"\n" {
			t.Errorf("result: %s", got)
		}
		d.read("jobs/2/output")
		d.ended(d.ask(say("use 1 1;y")), compute.Done, 20)
		if got := d.names("jobs"); got != "1 2 3 5 6" {
			t.Errorf("jobs has %s", got)
		}
	})
}

func TestOrderlyEnd(t *testing.T) {
	d := newDesk(t)
	d.policy(`{"max_concurrent":1}`)
	d.ask(say("use 1 2;begin;wait forever", `"max_cost_microusd":100`))
	d.ask(say("use 1 2;begin;wait forever", `"max_cost_microusd":100`))
	d.begun("1")
	ctx, cancel := context.WithTimeout(d.ctx, 90*time.Second)
	defer cancel()
	d.must(d.svc.Close(ctx))
	if s := d.status("1"); s.State != compute.Failed || s.Error.Reason != "interrupted" || s.Cost != 30 {
		t.Errorf("what ran: %+v", s)
	}
	if _, err := fsys.OpenPath(d.ctx, d.svc.Root(), "new", fsys.Write); fsys.CodeOf(err) != fsys.Unavailable {
		t.Errorf("after the end: %v", err)
	}
	d.open()
	d.ended("2", compute.Failed, 0)
	d.money(0, 30)
}

func TestCloseIsBounded(t *testing.T) {
	d := newDesk(t)
	n := d.ask(say("begin;deaf deaf"))
	d.begun(n)
	ctx, cancel := context.WithTimeout(d.ctx, 20*time.Millisecond)
	defer cancel()
	if err := d.svc.Close(ctx); fsys.CodeOf(err) != fsys.Timeout {
		t.Errorf("got %v", err)
	}
}
